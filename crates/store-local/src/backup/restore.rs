//! Creates a store from a backup.

use std::fs;
use std::path::{Path, PathBuf};

use elevo_engine::Progress;

use super::files::{self, Copied};
use super::list::FileList;
use super::{BackupError, find_backup};
use crate::format;
use crate::lock::WriterLock;
use crate::open::{OpenError, check_room, remove_unfinished};
use crate::options::Options;
use crate::rocks;
use crate::stamp::{server_stamp, set_server_stamp};

/// A backup that was restored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Restored {
    /// Path of the backup.
    pub backup: PathBuf,
    /// Number of files.
    pub files: u64,
    /// Total bytes of the files.
    pub bytes: u64,
    /// Files that are damaged in the backup, and in the new store as well.
    pub damaged: Vec<String>,
}

/// Creates a store in `path`, which must be an empty directory or not exist,
/// from a backup, or from the newest one in a directory. Every file is compared
/// with its listed hash; one that differs is an error unless `accept_damage`.
///
/// If this is interrupted, `path` does not become a store, and the same call
/// starts over.
pub fn restore(
    backup: &Path,
    path: &Path,
    accept_damage: bool,
    options: &Options,
    progress: &Progress,
) -> Result<Restored, BackupError> {
    let backup = find_backup(backup)?;
    let list = FileList::read(&backup)?;
    fs::create_dir_all(path).map_err(BackupError::io("create", path))?;
    check_room(path)?;
    let lock = WriterLock::take(path, &options.holder, options.wait)?;
    check_room(path)?;
    let database = path.join(rocks::DIRECTORY);
    remove_unfinished(&database).map_err(BackupError::io("remove", &database))?;
    fs::create_dir(&database).map_err(BackupError::io("create", &database))?;
    let mut damaged = Vec::new();
    for (name, listed) in list.iter() {
        let from = backup.join(rocks::DIRECTORY).join(name);
        let Copied { size, hash } = files::copy(&from, &database.join(name), progress)?;
        progress.add(1, 0);
        if (size, hash) == (listed.size, listed.hash) {
            continue;
        }
        damaged.push(name.to_owned());
        if !accept_damage {
            return Err(BackupError::Damaged {
                path: backup,
                file: name.into(),
            });
        }
    }
    files::sync(&database)?;
    if let Some(stamp) = server_stamp(&backup)? {
        set_server_stamp(path, &stamp)?;
    }
    format::write(path).map_err(|error| OpenError::io(path, error))?;
    // The log is as complete as that of the backup, so this counts as an
    // orderly end.
    lock.end_orderly();
    Ok(Restored {
        backup,
        files: list.len(),
        bytes: list.bytes(),
        damaged,
    })
}
