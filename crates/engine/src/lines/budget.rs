//! How much text one answer may compare.

use super::work::Work;
use crate::error::{Error, Result};

/// A file counts as at least so many bytes: finding and opening it costs as much
/// as reading them.
const SMALLEST: u64 = 4096;

/// The text that one answer made of many diffs may still read and compare, and
/// the work that it may still do.
///
/// Without work each diff is a coarse one. Without bytes there is no answer.
#[derive(Debug)]
pub struct LineBudget {
    read: u64,
    compared: u64,
    work: u64,
}

impl LineBudget {
    /// For an answer of a server, some seconds at most: 2 GiB of text, of which
    /// 128 MiB are in files that both sides have.
    pub fn of_one_answer() -> Self {
        Self {
            read: 2 << 30,
            compared: 128 << 20,
            work: 8 * Work::ONE_DIFF,
        }
    }

    /// For a caller that shows each diff before it asks for the next, and so can
    /// stop: only the work of each diff is bounded.
    pub fn one_by_one() -> Self {
        Self {
            read: u64::MAX,
            compared: u64::MAX,
            work: u64::MAX,
        }
    }

    /// Counts a file that will be read.
    pub(crate) fn read(&mut self, bytes: u64) -> Result<()> {
        take(&mut self.read, bytes.max(SMALLEST))
    }

    /// Compares two texts by `compare`, if they may still be compared, with as much
    /// work as one diff may do.
    pub fn compare<T>(
        &mut self,
        before: &[u8],
        after: &[u8],
        compare: impl FnOnce(&mut Work) -> T,
    ) -> Result<T> {
        if !before.is_empty() && !after.is_empty() {
            take(&mut self.compared, (before.len() + after.len()) as u64)?;
        }
        let mut work = Work::new(self.work.min(Work::ONE_DIFF));
        let compared = compare(&mut work);
        self.work = self.work.saturating_sub(work.done());
        Ok(compared)
    }
}

fn take(left: &mut u64, bytes: u64) -> Result<()> {
    *left = left.checked_sub(bytes).ok_or(Error::TooMuchText)?;
    Ok(())
}
