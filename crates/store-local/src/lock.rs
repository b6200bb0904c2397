//! One writer process per store: a lock on a file that describes its holder.
//!
//! The lock is the kernel's and ends with the process, however that ends. The
//! text is only for people to read and never trusted. But a file that is not
//! empty shows that its holder is still active or was killed.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use crate::open::OpenError;

pub(crate) const FILE: &str = "writer";
const POLL: Duration = Duration::from_millis(20);
const LONGEST_TEXT: u64 = 1024;

/// The right to write to a store, until dropped.
#[derive(Debug)]
pub(crate) struct WriterLock {
    file: File,
    /// Whether the previous holder ended orderly.
    pub(crate) after_orderly_end: bool,
}

impl WriterLock {
    /// Waits up to `wait` for the lock, and writes `holder` into its file.
    pub(crate) fn take(store: &Path, holder: &str, wait: Duration) -> Result<Self, OpenError> {
        let failed = |error| OpenError::io(store, error);
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(store.join(FILE))
            .map_err(failed)?;
        lock(&file, store, wait)?;
        let after_orderly_end = file.metadata().map_err(failed)?.len() == 0;
        sign(&file, holder).map_err(failed)?;
        Ok(Self {
            file,
            after_orderly_end,
        })
    }

    /// Records that nothing is left for the next holder to repair.
    pub(crate) fn end_orderly(&self) {
        // If this fails, the next holder checks the log.
        let _ = self.file.set_len(0);
    }
}

/// Keeps writers out of a store until dropped, without being a writer.
#[derive(Debug)]
pub struct WritersBlocked(
    #[expect(dead_code, reason = "only its drop has an effect")] Option<File>,
);

/// Waits until no process writes to the store at `path`, and keeps writers out.
/// Writes nothing. A directory that never had a writer, such as a backup, is
/// not locked.
pub fn block_writers(path: &Path, wait: Duration) -> Result<WritersBlocked, OpenError> {
    match File::open(path.join(FILE)) {
        Ok(file) => {
            lock(&file, path, wait)?;
            Ok(WritersBlocked(Some(file)))
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(WritersBlocked(None)),
        Err(error) => Err(OpenError::io(path, error)),
    }
}

fn lock(file: &File, store: &Path, wait: Duration) -> Result<(), OpenError> {
    let locked = retry(wait, || match file.try_lock() {
        Ok(()) => Ok(Some(())),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(OpenError::io(store, error)),
    })?;
    locked.ok_or_else(|| OpenError::Busy {
        path: store.into(),
        holder: self::holder(store),
    })
}

/// Whether the last holder ended orderly and has no successor. Also true for a
/// directory that never had a holder: a backup.
pub(crate) fn has_ended_orderly(store: &Path) -> bool {
    match std::fs::metadata(store.join(FILE)) {
        Ok(about) => about.len() == 0,
        Err(error) => error.kind() == std::io::ErrorKind::NotFound,
    }
}

/// Calls `attempt` until it returns a value, for as long as `wait`; at least
/// once.
#[allow(
    clippy::disallowed_methods,
    reason = "waiting needs a clock; nothing else depends on it"
)]
pub(crate) fn retry<T, E>(
    wait: Duration,
    mut attempt: impl FnMut() -> Result<Option<T>, E>,
) -> Result<Option<T>, E> {
    let started = Instant::now();
    loop {
        let answer = attempt()?;
        if answer.is_some() || started.elapsed() >= wait {
            return Ok(answer);
        }
        thread::sleep(POLL);
    }
}

/// Writes the description of the holder. The file is not empty at any time
/// during the write, nor after a power loss.
fn sign(file: &File, holder: &str) -> std::io::Result<()> {
    let text = format!("{holder}\n");
    file.write_all_at(text.as_bytes(), 0)?;
    file.set_len(text.len() as u64)?;
    file.sync_all()
}

/// Returns the description of the holder of a store.
pub(crate) fn holder(store: &Path) -> String {
    let mut text = Vec::new();
    let read = File::open(store.join(FILE))
        .and_then(|file| file.take(LONGEST_TEXT).read_to_end(&mut text));
    match String::from_utf8_lossy(&text).trim() {
        text if read.is_err() || text.is_empty() => "another process".into(),
        text => text.into(),
    }
}
