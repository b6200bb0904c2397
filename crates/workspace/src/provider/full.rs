//! Workspaces that are directories with all their files: written from the store
//! (copy), or cloned from a directory that holds the snapshot (reflink). A clone
//! takes no space until it is written to. Neither needs a privilege.

mod views;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use elevo_core::Name;
use elevo_engine::{
    CheckoutOptions, CloneSource, ExistingContent, ImportOptions, NewStatCache, Owner, Progress,
    Repository, StatCache, checkout, import_with_cache, record_checkout, scan_with_cache,
};
use elevo_objects::{Hash, Snapshot};
use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, UTIME_NOW};

#[cfg(target_os = "linux")]
use super::view_mounts::ViewMounts;
use super::{
    AtomicForks, Limits, Mounts, Origin, Private, ProviderKind, Reading, Scan, Views, Volume,
    WorkspaceProvider,
};
use crate::error::{Error, Result};
use crate::lock;
use crate::trash;

/// Creates workspaces as copies, or as clones where the file system supports
/// them.
#[derive(Debug)]
pub struct FullProvider {
    repository: Repository,
    threads: usize,
    /// The directories that clones are created from; `None` for copies.
    bases: Option<Bases>,
    /// The mounts of read-only workspaces, if mounts may be used.
    #[cfg(target_os = "linux")]
    view_mounts: Option<ViewMounts>,
}

/// Directories that hold one snapshot each and never change. The file
/// `KEY.lock` next to a directory is locked shared to clone from the directory,
/// and exclusively to create or delete it.
#[derive(Debug)]
struct Bases {
    directory: PathBuf,
    trash: PathBuf,
}

const NOW: Timestamps = Timestamps {
    last_access: Timespec {
        tv_sec: 0,
        tv_nsec: UTIME_NOW,
    },
    last_modification: Timespec {
        tv_sec: 0,
        tv_nsec: UTIME_NOW,
    },
};

/// Suffix of a directory that is being filled.
const UNFINISHED: &str = ".unfinished";
/// Maximum number of directories that are kept for cloning.
const MAX_BASES: usize = 4;

impl FullProvider {
    /// Returns a provider that creates workspaces as copies.
    pub fn copy(repository: Repository, threads: usize) -> Self {
        Self {
            repository,
            threads,
            bases: None,
            #[cfg(target_os = "linux")]
            view_mounts: None,
        }
    }

    /// Returns a provider that creates workspaces as clones of directories in
    /// `root`, the directory of the workspaces. The file system of `root` must
    /// support cloning.
    pub fn reflink(repository: Repository, threads: usize, root: &Path) -> Self {
        let bases = Bases {
            directory: root.join("bases"),
            trash: root.join("trash"),
        };
        Self {
            bases: Some(bases),
            ..Self::copy(repository, threads)
        }
    }

    /// Makes the provider show read-only workspaces as mounts in `root`, if
    /// mounting is allowed.
    #[cfg(target_os = "linux")]
    pub fn with_view_mounts(self, root: &Path) -> Self {
        let view_mounts = Some(ViewMounts::new(root));
        Self {
            view_mounts,
            ..self
        }
    }

    /// Writes a snapshot into an empty directory. Files are cloned from the
    /// clone source, if there is one.
    fn fill(
        &self,
        directory: &Path,
        snapshot: &Snapshot,
        clone_source: Option<CloneSource>,
        owner: Option<Owner>,
        progress: &Progress,
    ) -> Result<()> {
        let options = CheckoutOptions {
            threads: self.threads,
            leave_out: Vec::new(),
            ignoring: None,
            force: false,
            clone_source,
            owner,
        };
        let present = ExistingContent::Unknown;
        let repository = &self.repository;
        checkout(
            repository, snapshot, directory, &present, &options, progress,
        )?;
        Ok(())
    }

    /// Writes the files of a workspace, and records them in its stat cache, so
    /// that the first read need not read them.
    fn fill_live_dir(
        &self,
        live_dir: &Path,
        origin: Origin<'_>,
        clone_source: Option<CloneSource>,
        progress: &Progress,
    ) -> Result<()> {
        let (files, snapshot) = (self.files(live_dir), origin.snapshot);
        self.fill(&files, snapshot, clone_source, origin.owner, progress)?;
        let cache = self.begin_cache(live_dir)?;
        let options = self.options();
        if record_checkout(
            &self.repository,
            &files,
            &options,
            progress,
            snapshot,
            &cache,
        )? {
            let (id, _) = snapshot.encode().map_err(elevo_engine::Error::from)?;
            let finished = cache.finish(id);
            finished.map_err(Error::io("write to", live_dir))?;
        }
        Ok(())
    }

    /// Writes a snapshot into an empty directory: as a clone of a base if this
    /// provider has bases, otherwise as a copy.
    fn fill_from_base(
        &self,
        directory: &Path,
        origin: Origin<'_>,
        progress: &Progress,
    ) -> Result<()> {
        let (snapshot, owner) = (origin.snapshot, origin.owner);
        self.with_clone_source(snapshot, progress, |clone_source| {
            self.fill(directory, snapshot, clone_source, owner, progress)
        })
    }

    /// Calls `then` with a base to clone the snapshot from; `None` for copies.
    fn with_clone_source(
        &self,
        snapshot: &Snapshot,
        progress: &Progress,
        then: impl FnOnce(Option<CloneSource>) -> Result<()>,
    ) -> Result<()> {
        match &self.bases {
            None => then(None),
            // Only content is taken from a base, so the owner of its files does
            // not matter.
            Some(bases) => bases.with_base(
                snapshot,
                |directory| self.fill(directory, snapshot, None, None, progress),
                |clone_source| then(Some(clone_source)),
            ),
        }
    }

    fn begin_cache(&self, live_dir: &Path) -> Result<NewStatCache> {
        NewStatCache::begin(&cache(live_dir)).map_err(Error::io("write to", live_dir))
    }

    fn options(&self) -> ImportOptions {
        ImportOptions {
            threads: self.threads,
            leave_out: vec![Name::reserved()],
            ignoring: None,
        }
    }
}

impl Bases {
    /// Calls `then` with a base that holds the snapshot and is not deleted
    /// during the call. If there is none, `fill` fills one first.
    fn with_base(
        &self,
        snapshot: &Snapshot,
        fill: impl Fn(&Path) -> Result<()>,
        then: impl FnOnce(CloneSource) -> Result<()>,
    ) -> Result<()> {
        let failed = || Error::io("create", &self.directory);
        fs::create_dir_all(&self.directory).map_err(failed())?;
        let key = key(snapshot);
        let (directory, lock) = (self.directory.join(&key), self.lock(&key));
        // A lock cannot be turned from exclusive into shared without a gap in
        // which another process may delete the base. So the second round, with
        // a shared lock, checks again.
        loop {
            let shared = lock::shared(&lock).map_err(failed())?;
            if directory.exists() {
                // The modification time is the last use, for `delete_oldest_bases`.
                let _ = rustix::fs::utimensat(CWD, &directory, &NOW, AtFlags::empty());
                return then(CloneSource {
                    directory,
                    snapshot: snapshot.clone(),
                });
            }
            drop(shared);
            let _exclusive = lock::exclusive(&lock).map_err(failed())?;
            if !directory.exists() {
                self.delete_oldest_bases()?;
                let unfinished = self.directory.join(format!("{key}{UNFINISHED}"));
                trash::delete(&unfinished, &self.trash)?;
                fill(&unfinished)?;
                fs::rename(&unfinished, &directory).map_err(failed())?;
            }
        }
    }

    fn lock(&self, key: &str) -> PathBuf {
        self.directory.join(format!("{key}.lock"))
    }

    /// Deletes the least recently used directories that are not in use.
    fn delete_oldest_bases(&self) -> Result<()> {
        let failed = || Error::io("list", &self.directory);
        let mut bases = self.list().map_err(failed())?;
        bases.sort();
        // One more is about to be created.
        let spare = (bases.len() + 1).saturating_sub(MAX_BASES);
        for (_, name) in bases.iter().take(spare) {
            let lock = self.lock(name.strip_suffix(UNFINISHED).unwrap_or(name));
            // A base whose lock is held is in use, and is kept.
            if let Some(held) = lock::try_exclusive(&lock).map_err(failed())? {
                trash::delete(&self.directory.join(name), &self.trash)?;
                fs::remove_file(lock).map_err(failed())?;
                drop(held);
            }
        }
        Ok(())
    }

    fn list(&self) -> io::Result<Vec<(SystemTime, String)>> {
        let mut bases = Vec::new();
        for entry in fs::read_dir(&self.directory)? {
            let entry = entry?;
            let metadata = match entry.metadata() {
                // Another process has deleted or renamed it.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                metadata => metadata?,
            };
            if let (true, Ok(name)) = (metadata.is_dir(), entry.file_name().into_string()) {
                bases.push((metadata.modified()?, name));
            }
        }
        Ok(bases)
    }
}

/// Returns the name of a base: equal for equal files and times.
fn key(snapshot: &Snapshot) -> String {
    let hash = |hash: Option<Hash>| hash.map_or("none".into(), |hash| hash.to_string());
    format!("{}-{}", hash(snapshot.tree.root), hash(snapshot.times))
}

fn reject_limit(origin: Origin<'_>) -> Result<()> {
    match origin.limit {
        Some(_) => Err(Error::NoLimit),
        None => Ok(()),
    }
}

fn cache(live_dir: &Path) -> PathBuf {
    live_dir.join("stat")
}

impl WorkspaceProvider for FullProvider {
    fn kind(&self) -> ProviderKind {
        match self.bases {
            Some(_) => ProviderKind::Reflink,
            None => ProviderKind::Copy,
        }
    }

    fn files(&self, live_dir: &Path) -> PathBuf {
        live_dir.join("files")
    }

    fn home(&self, live_dir: &Path) -> PathBuf {
        live_dir.join("home")
    }

    fn create(&self, live_dir: &Path, origin: Origin<'_>, progress: &Progress) -> Result<()> {
        reject_limit(origin)?;
        if origin.read_only {
            return self.ensure_shown(live_dir, origin, progress);
        }
        self.with_clone_source(origin.snapshot, progress, |clone_source| {
            self.fill_live_dir(live_dir, origin, clone_source, progress)
        })
    }

    fn fork(
        &self,
        from: &Path,
        live_dir: &Path,
        origin: Origin<'_>,
        progress: &Progress,
    ) -> Result<()> {
        reject_limit(origin)?;
        let files = self.files(from);
        // `files` of a read-only workspace is a link, or does not exist.
        let is_writable = fs::symlink_metadata(&files).is_ok_and(|stat| stat.is_dir());
        if origin.read_only || !is_writable {
            return self.create(live_dir, origin, progress);
        }
        let clone_source = self.bases.as_ref().map(|_| CloneSource {
            directory: files,
            snapshot: origin.snapshot.clone(),
        });
        self.fill_live_dir(live_dir, origin, clone_source, progress)
    }

    fn read(&self, live_dir: &Path, _: Origin<'_>, progress: &Progress) -> Result<Reading> {
        let cache = self.begin_cache(live_dir)?;
        let options = self.options();
        let files = self.files(live_dir);
        let imported = import_with_cache(&self.repository, &files, &options, progress, &cache)?;
        Ok(Reading { imported, cache })
    }

    fn scan(&self, live_dir: &Path, _: Origin<'_>, progress: &Progress) -> Result<Scan> {
        let old = StatCache::open(&cache(live_dir));
        let options = self.options();
        let files = self.files(live_dir);
        let (tree, view) = scan_with_cache(&self.repository, &files, &options, progress, &old)?;
        Ok(Scan { tree, view })
    }

    fn release(&self, live_dir: &Path) -> Result<()> {
        self.hide_tree(live_dir)
    }

    fn tidy(&self, _: &[Origin<'_>]) -> Result<()> {
        // Nothing to do: the number of bases is limited when one is added.
        Ok(())
    }

    fn views(&self) -> &dyn Views {
        self
    }

    fn mounts(&self) -> Option<&dyn Mounts> {
        None
    }

    fn private(&self) -> Option<&dyn Private> {
        None
    }

    fn atomic_forks<'a>(&'a self, _: &'a Path) -> Option<Box<dyn AtomicForks + 'a>> {
        None
    }

    fn limits<'a>(&'a self, _: &'a Path) -> Option<Box<dyn Limits + 'a>> {
        None
    }

    fn volume(&self) -> Option<&dyn Volume> {
        None
    }
}
