//! Progress and cancellation of long operations.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::error::{Error, Result};

/// Counters of a long operation, which another thread may watch.
#[derive(Debug, Default)]
pub struct Progress {
    entries: AtomicU64,
    bytes: AtomicU64,
    changing: AtomicBool,
    cancelled: AtomicBool,
}

impl Progress {
    /// Counters at zero.
    pub fn new() -> Self {
        Self::default()
    }

    /// Files, directories and links done so far.
    pub fn entries(&self) -> u64 {
        self.entries.load(Ordering::Relaxed)
    }

    /// Bytes of file content done so far.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Whether a checkout has begun to change the directory. If this is `false`
    /// after a failure, the directory is unchanged.
    pub fn has_changed(&self) -> bool {
        self.changing.load(Ordering::Relaxed)
    }

    /// Asks the operation to end early with
    /// [`Error::Cancelled`](crate::Error::Cancelled), if it supports that.
    pub fn cancel(&self) {
        self.cancelled.store(true, Ordering::Relaxed);
    }

    /// Fails if the operation was cancelled.
    pub fn check(&self) -> Result<()> {
        if self.cancelled.load(Ordering::Relaxed) {
            Err(Error::Cancelled)
        } else {
            Ok(())
        }
    }

    pub(crate) fn begin_changes(&self) {
        self.changing.store(true, Ordering::Relaxed);
    }

    /// Adds to the counters.
    pub fn add(&self, entries: u64, bytes: u64) {
        self.entries.fetch_add(entries, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }
}
