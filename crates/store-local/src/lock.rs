//! One writer process per store: a lock on a file that says who holds it.
//!
//! The lock is the kernel's and goes with the process, however that ends. Who
//! holds it is only for people to read and never trusted. That the file says
//! anything at all is a sign: its holder is still there, or was killed.

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
    /// Whether the holder before this one has said that it was done.
    pub(crate) after_orderly_end: bool,
}

impl WriterLock {
    /// Waits up to `wait` for the lock, and signs it with `holder`.
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

    /// Says that nothing is left for the next holder to repair.
    pub(crate) fn end_orderly(&self) {
        // If this fails, the next one looks for itself.
        let _ = self.file.set_len(0);
    }
}

/// Keeps writers out of a store until dropped, without being one.
#[derive(Debug)]
pub struct Still(#[expect(dead_code, reason = "the lock goes with it")] Option<File>);

/// Waits until nobody writes to the store at `path`, and keeps writers out.
/// Writes nothing. Where there never was a writer, as in a backup, nobody is
/// kept out.
pub fn keep_still(path: &Path, wait: Duration) -> Result<Still, OpenError> {
    match File::open(path.join(FILE)) {
        Ok(file) => {
            lock(&file, path, wait)?;
            Ok(Still(Some(file)))
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Still(None)),
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

/// Whether the last holder has said that it was done, and none has come since.
/// That is so where there never was one: in a backup.
pub(crate) fn has_ended_orderly(store: &Path) -> bool {
    match std::fs::metadata(store.join(FILE)) {
        Ok(about) => about.len() == 0,
        Err(error) => error.kind() == std::io::ErrorKind::NotFound,
    }
}

/// Tries again while the answer is `None`, for as long as `wait`; at least
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

/// The file is never empty on the way, nor after a power loss.
fn sign(file: &File, holder: &str) -> std::io::Result<()> {
    let text = format!("{holder}\n");
    file.write_all_at(text.as_bytes(), 0)?;
    file.set_len(text.len() as u64)?;
    file.sync_all()
}

/// Who holds the store, in words.
pub(crate) fn holder(store: &Path) -> String {
    let mut text = Vec::new();
    let read = File::open(store.join(FILE))
        .and_then(|file| file.take(LONGEST_TEXT).read_to_end(&mut text));
    match String::from_utf8_lossy(&text).trim() {
        text if read.is_err() || text.is_empty() => "another process".into(),
        text => text.into(),
    }
}
