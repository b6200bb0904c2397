//! The file `.elevo/checkout`, which records the snapshot in a directory.
//!
//! ```text
//! {"version":1,"store":"/home/me/project/.elevo/store",
//!  "boot":"6f0c…","state":"holds","snapshot":"1a2b…"}
//! {"version":1,…,"state":"changing","from":"1a2b…","to":"3c4d…"}
//! ```
//!
//! A checkout is not synced, so a loss of power may undo any part of it. A record
//! from before the last boot is therefore trusted only after the directory was
//! compared with it. While a checkout runs, the state is `changing`; if a later
//! command finds this state, the checkout was interrupted.

use std::fs::{self, File, TryLockError};
use std::io::Write;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use base64::prelude::{BASE64_STANDARD, Engine};
use elevo_objects::SnapshotId;
use serde::{Deserialize, Serialize};

use crate::errors::{DirectoryProblem, FileProblem, LocalProblem};
use crate::local::layout::RESERVED;
use crate::output::json;

const RECORD: &str = "checkout";

const LOCK: &str = "lock";

const VERSION: u32 = 1;

/// The snapshot in a directory, and the store that has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CheckoutRecord {
    /// The store that the snapshots are in.
    pub(crate) store: PathBuf,
    pub(crate) held: CheckoutState,
    boot: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CheckoutState {
    /// This snapshot, possibly changed since.
    Snapshot(SnapshotId),
    /// Parts of the previous state and parts of the snapshot `to`.
    Changing {
        from: Option<SnapshotId>,
        to: SnapshotId,
    },
}

impl CheckoutRecord {
    /// Creates a record of the current boot.
    pub(crate) fn new(store: &Path, held: CheckoutState) -> Self {
        Self {
            store: store.into(),
            held,
            boot: this_boot(),
        }
    }

    /// Whether the record was written since the machine was started.
    pub(crate) fn is_of_this_boot(&self) -> bool {
        self.boot.is_some() && self.boot == this_boot()
    }

    /// The snapshot, unless a checkout was interrupted.
    pub(crate) fn snapshot(&self) -> Option<SnapshotId> {
        match self.held {
            CheckoutState::Snapshot(id) => Some(id),
            CheckoutState::Changing { .. } => None,
        }
    }

    /// Reads the record of a directory. Returns `None` for an unreadable one; the
    /// command then reads the directory itself.
    pub(crate) fn read(directory: &Path) -> Option<Self> {
        let text = fs::read(path(directory)).ok()?;
        let file: RecordFile = serde_json::from_slice(&text).ok()?;
        file.into_record()
    }

    /// Replaces the record of a directory atomically.
    pub(crate) fn write(&self, directory: &Path) -> Result<(), FileProblem> {
        let to = path(directory);
        let failed = |source| FileProblem::Io {
            action: "write",
            path: to.clone(),
            source,
        };
        let mut text = serde_json::to_vec(&RecordFile::from_record(self))
            .map_err(|error| failed(error.into()))?;
        text.push(b'\n');
        let mut file = tempfile::Builder::new()
            .permissions(std::os::unix::fs::PermissionsExt::from_mode(0o644))
            .tempfile_in(directory.join(RESERVED))
            .map_err(failed)?;
        file.write_all(&text).map_err(failed)?;
        file.persist(&to).map_err(|error| failed(error.error))?;
        Ok(())
    }

    /// Removes the record of a directory.
    pub(crate) fn remove(directory: &Path) -> Result<(), FileProblem> {
        let path = path(directory);
        match fs::remove_file(&path) {
            Err(source) if source.kind() != std::io::ErrorKind::NotFound => Err(FileProblem::Io {
                action: "remove",
                path,
                source,
            }),
            _ => Ok(()),
        }
    }
}

fn path(directory: &Path) -> PathBuf {
    directory.join(RESERVED).join(RECORD)
}

/// A lock held while a command changes or reads a whole directory, so that two
/// commands do not do so at once. Released when the process ends.
#[derive(Debug)]
pub(crate) struct DirectoryLock {
    _file: File,
}

impl DirectoryLock {
    /// Creates the reserved directory if necessary, and locks it.
    pub(crate) fn take(directory: &Path) -> Result<Self, LocalProblem> {
        let reserved = directory.join(RESERVED);
        let failed = |source| FileProblem::Io {
            action: "use",
            path: reserved.clone(),
            source,
        };
        match fs::create_dir(&reserved) {
            Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
                return Err(failed(error).into());
            }
            _ => {}
        }
        // Do not follow a link: we must write only in this directory.
        if !fs::symlink_metadata(&reserved).map_err(failed)?.is_dir() {
            return Err(DirectoryProblem::NotADirectory(reserved).into());
        }
        hide_from_git(&reserved).map_err(failed)?;
        let file = File::create(reserved.join(LOCK)).map_err(failed)?;
        match file.try_lock() {
            Ok(()) => Ok(Self { _file: file }),
            Err(TryLockError::WouldBlock) => Err(DirectoryProblem::Busy(directory.into()).into()),
            Err(TryLockError::Error(error)) => Err(failed(error).into()),
        }
    }
}

/// Hides a reserved directory from git.
pub(crate) fn hide_from_git(reserved: &Path) -> std::io::Result<()> {
    match File::create_new(reserved.join(".gitignore")) {
        Ok(mut file) => file.write_all(b"*\n"),
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error),
    }
}

/// An id that changes with every boot; `None` on systems without one.
fn this_boot() -> Option<String> {
    let id = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    Some(id.trim().to_owned())
}

#[derive(Serialize, Deserialize)]
struct RecordFile {
    version: u32,
    store: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    store_base64: Option<String>,
    boot: Option<String>,
    #[serde(flatten)]
    state: StateFile,
}

#[derive(Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
enum StateFile {
    Holds { snapshot: String },
    Changing { from: Option<String>, to: String },
}

impl RecordFile {
    fn from_record(record: &CheckoutRecord) -> Self {
        let (store, store_base64) = json::text(record.store.as_os_str().as_bytes());
        let state = match record.held {
            CheckoutState::Snapshot(id) => StateFile::Holds {
                snapshot: id.to_string(),
            },
            CheckoutState::Changing { from, to } => StateFile::Changing {
                from: from.map(|id| id.to_string()),
                to: to.to_string(),
            },
        };
        Self {
            version: VERSION,
            store,
            store_base64,
            boot: record.boot.clone(),
            state,
        }
    }

    fn into_record(self) -> Option<CheckoutRecord> {
        if self.version != VERSION {
            return None;
        }
        let store = match self.store_base64 {
            Some(exact) => std::ffi::OsString::from_vec(BASE64_STANDARD.decode(exact).ok()?),
            None => self.store.into(),
        };
        let held = match self.state {
            StateFile::Holds { snapshot } => CheckoutState::Snapshot(snapshot.parse().ok()?),
            StateFile::Changing { from, to } => CheckoutState::Changing {
                from: match from {
                    Some(from) => Some(from.parse().ok()?),
                    None => None,
                },
                to: to.parse().ok()?,
            },
        };
        Some(CheckoutRecord {
            store: store.into(),
            held,
            boot: self.boot,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    use elevo_objects::Hash;

    use super::*;

    fn id(byte: u8) -> SnapshotId {
        SnapshotId(Hash::from_bytes([byte; 32]))
    }

    #[test]
    fn a_record_reads_back() {
        let directory = tempfile::tempdir().unwrap();
        let lock = DirectoryLock::take(directory.path()).unwrap();
        let store = Path::new(OsStr::from_bytes(b"/odd \xff/store"));
        for held in [
            CheckoutState::Snapshot(id(1)),
            CheckoutState::Changing {
                from: None,
                to: id(2),
            },
            CheckoutState::Changing {
                from: Some(id(1)),
                to: id(2),
            },
        ] {
            let record = CheckoutRecord::new(store, held);
            record.write(directory.path()).unwrap();
            assert_eq!(CheckoutRecord::read(directory.path()), Some(record));
        }
        drop(lock);
    }

    #[test]
    fn an_invalid_record_is_ignored() {
        let directory = tempfile::tempdir().unwrap();
        let _lock = DirectoryLock::take(directory.path()).unwrap();
        let record = CheckoutRecord::new(Path::new("/store"), CheckoutState::Snapshot(id(1)));
        record.write(directory.path()).unwrap();
        let path = path(directory.path());
        let text = fs::read_to_string(&path).unwrap();
        for bad in ["", "{}", &text.replace("\"version\":1", "\"version\":2")] {
            fs::write(&path, bad).unwrap();
            assert_eq!(CheckoutRecord::read(directory.path()), None, "{bad}");
        }
    }

    #[test]
    fn a_record_from_another_boot_is_not_of_this_one() {
        let mut record = CheckoutRecord::new(Path::new("/store"), CheckoutState::Snapshot(id(1)));
        assert!(record.is_of_this_boot());
        record.boot = Some("another".into());
        assert!(!record.is_of_this_boot());
        record.boot = None;
        assert!(!record.is_of_this_boot());
    }

    #[test]
    fn git_sees_nothing_of_a_reserved_directory() {
        let directory = tempfile::tempdir().unwrap();
        for _ in 0..2 {
            DirectoryLock::take(directory.path()).unwrap();
            let file = directory.path().join(RESERVED).join(".gitignore");
            assert_eq!(fs::read_to_string(file).unwrap(), "*\n");
        }
    }

    #[test]
    fn a_directory_is_locked_once() {
        let directory = tempfile::tempdir().unwrap();
        let first = DirectoryLock::take(directory.path()).unwrap();
        let second = DirectoryLock::take(directory.path());
        assert!(matches!(
            second,
            Err(LocalProblem::Directory(problem)) if matches!(*problem, DirectoryProblem::Busy(_))
        ));
        drop(first);
        DirectoryLock::take(directory.path()).unwrap();
    }

    #[test]
    fn a_reserved_name_that_is_a_link_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let elsewhere = tempfile::tempdir().unwrap();
        let reserved = directory.path().join(RESERVED);
        std::os::unix::fs::symlink(elsewhere.path(), reserved).unwrap();
        let lock = DirectoryLock::take(directory.path());
        assert!(matches!(
            lock,
            Err(LocalProblem::Directory(problem)) if matches!(*problem, DirectoryProblem::NotADirectory(_))
        ));
    }
}
