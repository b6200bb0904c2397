//! Objects that are in memory and not in RocksDB's log.
//!
//! When much is put ahead of a commit, most of it skips the log: its bytes then
//! go to disk once, not twice. So before a commit may return, what was put that
//! way must have gone from memory to table files: its own objects, and those
//! of others that it only found.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Which writes are unlogged, and which of them have reached the disk.
#[derive(Debug)]
pub(crate) struct Unlogged {
    /// Bytes put since the last commit, and how many of them are logged.
    put: AtomicUsize,
    logged: usize,
    writes: Mutex<Writes>,
    /// Writes up to this one are on disk. Locked while a flush is under way:
    /// who needs the same one waits for it.
    durable: Mutex<u64>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Writes {
    begun: u64,
    under_way: u64,
}

impl Unlogged {
    /// For everything after the first `logged` bytes ahead of each commit.
    pub(crate) fn after(logged: usize) -> Self {
        Self {
            put: AtomicUsize::new(0),
            logged,
            writes: Mutex::default(),
            durable: Mutex::default(),
        }
    }

    /// Whether a write of so many bytes, ahead of a commit, should skip the
    /// log.
    pub(crate) fn is_worth_it(&self, bytes: usize) -> bool {
        self.put.fetch_add(bytes, Ordering::Relaxed) + bytes > self.logged
    }

    /// A commit was made; what is put now is ahead of the next.
    pub(crate) fn start_again(&self) {
        self.put.store(0, Ordering::Relaxed);
    }

    /// Counts `write` from before its first object can be seen.
    pub(crate) fn write<T>(&self, write: impl FnOnce() -> T) -> T {
        let mut writes = lock(&self.writes);
        writes.begun += 1;
        writes.under_way += 1;
        drop(writes);
        let _ended = Ended(self);
        write()
    }

    /// Returns when everything that could be seen until now is on disk.
    pub(crate) fn make_durable<E>(&self, flush: impl FnOnce() -> Result<(), E>) -> Result<(), E> {
        let needed = lock(&self.writes).begun;
        let mut durable = lock(&self.durable);
        if *durable >= needed {
            return Ok(());
        }
        let before = *lock(&self.writes);
        flush()?;
        // One that was under way may have come too late for this flush.
        if before.under_way == 0 {
            *durable = before.begun;
        }
        Ok(())
    }

    /// Runs `action` while nothing becomes durable: no commit relies on an
    /// object that reaches the disk meanwhile.
    pub(crate) fn hold_still<T>(&self, action: impl FnOnce() -> T) -> T {
        let _durable = lock(&self.durable);
        action()
    }
}

struct Ended<'a>(&'a Unlogged);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        lock(&self.0.writes).under_way -= 1;
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
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
    fn what_little_is_put_ahead_of_a_commit_is_logged() {
        let unlogged = Unlogged::after(10);
        assert!(!unlogged.is_worth_it(9));
        assert!(unlogged.is_worth_it(2));
        assert!(unlogged.is_worth_it(1));
        unlogged.start_again();
        assert!(!unlogged.is_worth_it(10));
    }

    #[test]
    fn a_flush_is_made_once_for_what_was_written() {
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
    fn a_write_under_way_needs_another_flush() {
        let unlogged = Unlogged::after(0);
        unlogged.write(|| assert!(flushes(&unlogged)));
        assert!(flushes(&unlogged));
        assert!(!flushes(&unlogged));
    }

    #[test]
    fn a_flush_that_failed_is_made_again() {
        let unlogged = Unlogged::after(0);
        unlogged.write(|| ());
        assert_eq!(unlogged.make_durable(|| Err(7)), Err(7));
        assert!(flushes(&unlogged));
    }
}
