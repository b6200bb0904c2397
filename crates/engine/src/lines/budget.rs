//! Limit on the text that one response may compare.

use super::work::Work;
use crate::error::{Error, Result};

/// Minimum bytes that a file counts as: finding and opening it costs as much as
/// reading this much.
const SMALLEST: u64 = 4096;

/// The remaining budget of one response with many diffs: bytes of text to read
/// and to compare, and work.
///
/// When the work is used up, each further diff is coarse. When the bytes are
/// used up, the call fails.
#[derive(Debug)]
pub struct LineBudget {
    read: u64,
    compared: u64,
    work: u64,
}

impl LineBudget {
    /// The budget of one response of a server: 2 GiB of text, of which 128 MiB
    /// may be in files that both sides have. Such a response takes a few
    /// seconds at most.
    pub fn of_one_answer() -> Self {
        Self {
            read: 2 << 30,
            compared: 128 << 20,
            work: 8 * Work::ONE_DIFF,
        }
    }

    /// A budget that bounds only the work of each diff, for a caller that prints
    /// each diff before it computes the next, and can stop in between.
    pub fn per_diff() -> Self {
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

    /// Compares two texts with `compare`, if the budget allows it, with at most
    /// the work of one diff.
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
