//! Single files of a backup.

use std::fs::{self, File, FileTimes};
use std::io::{self, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;

use blake3::{Hash, Hasher};
use elevo_engine::Progress;

use super::BackupError;

const BUFFER: usize = 1 << 20;
/// Number of bytes that a comparison of two files reads at their ends. Only
/// immutable files (`.sst` and `.blob`) are compared; they end with checksums, so
/// files with different content have different ends.
const TAIL: u64 = 4 << 10;

pub(super) struct Copied {
    pub(super) size: u64,
    pub(super) hash: Hash,
}

/// Copies a file with its time to a new path. The file is durable when this
/// returns; its directory entry is not.
pub(super) fn copy(from: &Path, to: &Path, progress: &Progress) -> Result<Copied, BackupError> {
    let mut source = File::open(from).map_err(BackupError::io("open", from))?;
    let mut target = File::create_new(to).map_err(BackupError::io("create", to))?;
    let mut buffer = vec![0; BUFFER];
    let mut hasher = Hasher::new();
    let mut size = 0;
    loop {
        progress.check().map_err(|_| BackupError::Cancelled)?;
        let read = source
            .read(&mut buffer)
            .map_err(BackupError::io("read", from))?;
        if read == 0 {
            break;
        }
        hasher.update(&buffer[..read]);
        target
            .write_all(&buffer[..read])
            .map_err(BackupError::io("write", to))?;
        size += read as u64;
        progress.add(0, read as u64);
    }
    let modified = source.metadata().and_then(|about| about.modified());
    let finished = modified
        .and_then(|time| target.set_times(FileTimes::new().set_modified(time)))
        .and_then(|()| target.sync_all());
    finished.map_err(BackupError::io("write", to))?;
    let hash = hasher.finalize();
    Ok(Copied { size, hash })
}

/// Creates `to` as a hard link to `before` if `before` and `from` are equal, and
/// returns true; otherwise returns false.
pub(super) fn link(before: &Path, from: &Path, to: &Path) -> bool {
    let never_changes = from
        .extension()
        .is_some_and(|end| end == "sst" || end == "blob");
    never_changes && is_same(before, from).unwrap_or(false) && fs::hard_link(before, to).is_ok()
}

/// Whether two files that never change are equal: by name, which the caller has
/// compared, size, time to the nanosecond, and their last bytes.
fn is_same(one: &Path, other: &Path) -> io::Result<bool> {
    let (one, other) = (File::open(one)?, File::open(other)?);
    let (about, its) = (one.metadata()?, other.metadata()?);
    if about.len() != its.len() || about.modified()? != its.modified()? {
        return Ok(false);
    }
    let length = about.len().min(TAIL);
    let tail = |file: &File| {
        let mut tail = vec![0; length as usize];
        file.read_exact_at(&mut tail, about.len() - length)?;
        io::Result::Ok(tail)
    };
    Ok(tail(&one)? == tail(&other)?)
}

/// Makes the names in a directory durable.
pub(super) fn sync(directory: &Path) -> Result<(), BackupError> {
    let synced = File::open(directory).and_then(|directory| directory.sync_all());
    synced.map_err(BackupError::io("sync", directory))
}
