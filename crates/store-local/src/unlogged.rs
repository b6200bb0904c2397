//! Objects that are in memory and not in RocksDB's log.
//!
//! A large `put` skips the log: its bytes then go to disk once, not twice. So
//! before a commit may return, what was put that way must have gone from
//! memory to table files, its own objects and those it only found.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Which unlogged writes have reached the disk.
#[derive(Debug, Default)]
pub(crate) struct Unlogged {
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
    fn a_flush_is_made_once_for_what_was_written() {
        let unlogged = Unlogged::default();
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
        let unlogged = Unlogged::default();
        unlogged.write(|| assert!(flushes(&unlogged)));
        assert!(flushes(&unlogged));
        assert!(!flushes(&unlogged));
    }

    #[test]
    fn a_flush_that_failed_is_made_again() {
        let unlogged = Unlogged::default();
        unlogged.write(|| ());
        assert_eq!(unlogged.make_durable(|| Err(7)), Err(7));
        assert!(flushes(&unlogged));
    }
}
