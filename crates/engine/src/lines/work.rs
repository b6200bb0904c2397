//! How much work a diff may take, counted in lines looked at.

/// The work that is left, and the work that was done. The same texts always cost
/// the same, so a diff does not depend on how busy the machine is.
#[derive(Debug)]
pub struct Work {
    left: u64,
    done: u64,
}

impl Work {
    /// Work for one diff: enough for the texts that people and programs write, a
    /// fraction of a second.
    pub const ONE_DIFF: u64 = 1 << 25;

    /// Allows so much work.
    pub fn new(lines: u64) -> Self {
        Self {
            left: lines,
            done: 0,
        }
    }

    /// Allows the work of one diff.
    pub fn of_one_diff() -> Self {
        Self::new(Self::ONE_DIFF)
    }

    /// Returns the work that was done, the part beyond the bound included.
    pub fn done(&self) -> u64 {
        self.done
    }

    /// Returns whether so much was left; if not, nothing is left.
    pub(super) fn spend(&mut self, lines: usize) -> bool {
        let enough = lines as u64 <= self.left;
        self.left = self.left.saturating_sub(lines as u64);
        self.done += lines as u64;
        enough
    }

    /// Counts work that has to be done whether or not any is left.
    pub(super) fn overdraw(&mut self, lines: usize) {
        self.done += lines as u64;
    }

    /// Returns whether nothing is left.
    pub(super) fn is_spent(&self) -> bool {
        self.left == 0
    }
}
