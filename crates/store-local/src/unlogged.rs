//! Objects that are in memory and not in RocksDB's log.
//!
//! When much is put ahead of a commit, most of it skips the log: its bytes then
//! go to disk once, not twice. So before a commit may return, all unlogged
//! objects must be flushed from memory to table files: its own, and those of
//! other writers that it only found.

use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

/// Tracks which writes are unlogged, and which of them have reached the disk.
#[derive(Debug)]
pub(crate) struct Unlogged {
    /// Bytes put since the last commit.
    put: AtomicUsize,
    /// Maximum number of bytes put ahead of a commit that are logged.
    logged: usize,
    writes: Mutex<Writes>,
    /// Writes up to this number are on disk. Locked during a flush: other
    /// callers that need the same flush wait for it.
    durable: Mutex<u64>,
}

/// The unlogged writes so far.
#[derive(Clone, Copy, Debug, Default)]
struct Writes {
    /// Number of unlogged writes that have begun.
    begun: u64,
    /// Number of unlogged writes that have not ended.
    in_progress: u64,
}

impl Unlogged {
    /// Creates a tracker for a store that logs only the first `logged` bytes
    /// put ahead of each commit.
    pub(crate) fn after(logged: usize) -> Self {
        Self {
            put: AtomicUsize::new(0),
            logged,
            writes: Mutex::default(),
            durable: Mutex::default(),
        }
    }

    /// Whether a write of `bytes` bytes ahead of a commit should skip the log.
    pub(crate) fn is_worth_it(&self, bytes: usize) -> bool {
        self.put.fetch_add(bytes, Ordering::Relaxed) + bytes > self.logged
    }

    /// Called after a commit: later puts are ahead of the next one.
    pub(crate) fn start_again(&self) {
        self.put.store(0, Ordering::Relaxed);
    }

    /// Runs an unlogged write. It counts as begun before another call can see
    /// one of its objects.
    pub(crate) fn write<T>(&self, write: impl FnOnce() -> T) -> T {
        let mut writes = self.writes.lock();
        writes.begun += 1;
        writes.in_progress += 1;
        drop(writes);
        let _ended = Ended(self);
        write()
    }

    /// Returns when everything that was visible until now is on disk.
    pub(crate) fn make_durable<E>(&self, flush: impl FnOnce() -> Result<(), E>) -> Result<(), E> {
        let needed = self.writes.lock().begun;
        let mut durable = self.durable.lock();
        // Another commit may have flushed while this one waited for the lock.
        if *durable >= needed {
            return Ok(());
        }
        let before = *self.writes.lock();
        flush()?;
        // A write in progress may have come too late for this flush.
        if before.in_progress == 0 {
            *durable = before.begun;
        }
        Ok(())
    }

    /// Runs `action` and blocks flushes that make objects durable meanwhile. A
    /// commit that needs such a flush waits until `action` has ended.
    pub(crate) fn without_flushes<T>(&self, action: impl FnOnce() -> T) -> T {
        let _durable = self.durable.lock();
        action()
    }
}

/// Ends an unlogged write when it is dropped, also after a panic.
struct Ended<'a>(&'a Unlogged);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        self.0.writes.lock().in_progress -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flushes(unlogged: &Unlogged) -> bool {
        let mut flushed = false;
        let flush = || {
            flushed = true;
            Ok::<_, ()>(())
        };
        unlogged.make_durable(flush).unwrap();
        flushed
    }

    #[test]
    fn small_puts_ahead_of_a_commit_are_logged() {
        let unlogged = Unlogged::after(10);
        assert!(!unlogged.is_worth_it(9));
        assert!(unlogged.is_worth_it(2));
        assert!(unlogged.is_worth_it(1));
        unlogged.start_again();
        assert!(!unlogged.is_worth_it(10));
    }

    #[test]
    fn unlogged_writes_are_flushed_once() {
        let unlogged = Unlogged::after(0);
        assert!(!flushes(&unlogged));
        unlogged.write(|| ());
        assert!(flushes(&unlogged));
        assert!(!flushes(&unlogged));
        unlogged.write(|| ());
        unlogged.write(|| ());
        assert!(flushes(&unlogged));
        assert!(!flushes(&unlogged));
    }

    #[test]
    fn a_write_in_progress_needs_another_flush() {
        let unlogged = Unlogged::after(0);
        unlogged.write(|| assert!(flushes(&unlogged)));
        assert!(flushes(&unlogged));
        assert!(!flushes(&unlogged));
    }

    #[test]
    fn a_failed_flush_is_repeated() {
        let unlogged = Unlogged::after(0);
        unlogged.write(|| ());
        assert_eq!(unlogged.make_durable(|| Err(7)), Err(7));
        assert!(flushes(&unlogged));
    }
}
