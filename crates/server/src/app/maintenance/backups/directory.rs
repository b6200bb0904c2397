//! The directory of a backup: it is written under a temporary name and renamed
//! when it is complete.

use crate::failure::{Failure, Result};
use crate::platform::backup::manifest::Manifest;
use crate::platform::backup::{self, STORE, UNFINISHED, files};
use crate::platform::clock;
use elevo_core::ErrorCode;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

/// The directory of a running backup. The directory of all backups is locked
/// until this value is dropped.
#[derive(Debug)]
pub(super) struct BackupDirectory {
    pub(super) backups: PathBuf,
    pub(super) unfinished: PathBuf,
    /// The previous backup. The new backup links to files of its store instead
    /// of copying them.
    pub(super) earlier: Option<PathBuf>,
    pub(super) _lock: File,
}

impl BackupDirectory {
    /// Creates the directory for a new backup in `backups`. Fails if `backups`
    /// is inside one of the directories `apart`, which are backed up.
    pub(super) fn begin(backups: &Path, apart: [&Path; 2]) -> Result<Self> {
        if !backups.is_absolute() {
            return Err(Failure::invalid("`directory` must be an absolute path"));
        }
        let failed = |error: io::Error| not_written(backups, &error);
        files::make_private(backups).map_err(failed)?;
        let backups = &backups.canonicalize().map_err(failed)?;
        for other in apart {
            let other = other.canonicalize().map_err(failed)?;
            if backups.starts_with(&other) {
                let message = format!(
                    "{} lies inside {}, which is backed up; choose a directory outside",
                    backups.display(),
                    other.display()
                );
                return Err(Failure::invalid(message));
            }
        }
        let lock = File::create(backups.join("lock")).map_err(failed)?;
        if lock.try_lock().is_err() {
            let message = format!("another backup is being created in {}", backups.display());
            let failure = Failure::new(ErrorCode::CollectionRunning, message);
            return Err(failure
                .remediation("Wait until that backup is finished, and retry.")
                .retry_after(10));
        }
        let unfinished = backups.join(UNFINISHED);
        // An interrupted backup may have left this directory.
        files::remove(&unfinished).map_err(failed)?;
        files::make_private(&unfinished).map_err(failed)?;
        Ok(Self {
            earlier: backup::all(backups).map_err(failed)?.pop(),
            backups: backups.clone(),
            unfinished,
            _lock: lock,
        })
    }

    /// Writes the manifest, and renames the directory once all its files are on
    /// disk. Then deletes the oldest backups until `keep` are left. Returns the
    /// path of the backup, its manifest and the deleted backups.
    pub(super) fn finish(
        &self,
        mut manifest: Manifest,
        keep: Option<u32>,
    ) -> Result<(PathBuf, Manifest, Vec<String>)> {
        let mut name = || -> io::Result<PathBuf> {
            let without = self.unfinished.join(STORE).join("db");
            for path in files::list(&self.unfinished, &without)? {
                let listed = files::look(&self.unfinished.join(&path))?;
                let path = path.to_string_lossy().into_owned();
                manifest.files.insert(path, listed);
            }
            manifest.ended = clock::text(clock::now());
            manifest.write(&self.unfinished)?;
            files::sync(&self.unfinished)?;
            let path = self.free_name(&manifest.begun);
            fs::rename(&self.unfinished, &path)?;
            files::sync(&self.backups)?;
            Ok(path)
        };
        let path = name().map_err(|error| not_written(&self.backups, &error))?;
        let removed = self.prune(keep);
        let removed = removed.map_err(|error| not_written(&self.backups, &error))?;
        Ok((path, manifest, removed))
    }

    /// Returns an unused path for the backup. Its name is the time at which the
    /// backup began, so that names sort by time.
    pub(super) fn free_name(&self, begun: &str) -> PathBuf {
        let seconds = begun.split('.').next().unwrap_or_default();
        let name = format!("{}Z", seconds.trim_end_matches('Z').replace(':', "-"));
        let mut path = self.backups.join(&name);
        for number in 2.. {
            if path.symlink_metadata().is_err() {
                break;
            }
            path = self.backups.join(format!("{name}-{number:03}"));
        }
        path
    }

    /// Deletes the oldest backups until `keep` are left, but never the newest.
    /// Returns the deleted backups.
    pub(super) fn prune(&self, keep: Option<u32>) -> io::Result<Vec<String>> {
        let Some(keep) = keep else {
            return Ok(Vec::new());
        };
        let mut old = backup::all(&self.backups)?;
        old.truncate(old.len().saturating_sub(keep.max(1) as usize));
        for path in &old {
            // Without its manifest, the directory is not a backup. So a deletion
            // that is interrupted leaves no incomplete backup.
            Manifest::remove(path)?;
            files::sync(path)?;
            files::remove(path)?;
        }
        let names = old.iter().map(|path| path.to_string_lossy().into_owned());
        Ok(names.collect())
    }
}

pub(super) fn not_written(path: &Path, error: &io::Error) -> Failure {
    let message = format!("cannot write the backup in {}", path.display());
    Failure::new(ErrorCode::StorageFailed, message).caused_by(error)
}
