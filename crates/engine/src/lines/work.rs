//! The work that a diff may take, counted in lines examined.

/// The remaining work and the work done. Equal texts always cost the same, so a
/// diff does not depend on the load of the machine.
#[derive(Debug)]
pub struct Work {
    left: u64,
    done: u64,
}

impl Work {
    /// Work for one diff: a fraction of a second, enough for texts that occur
    /// in practice.
    pub const ONE_DIFF: u64 = 1 << 25;

    /// Allows this much work.
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

    /// Returns the work done, including the part beyond the bound.
    pub fn done(&self) -> u64 {
        self.done
    }

    /// Counts this much work. Returns false if less than that was left; then
    /// nothing is left.
    pub(super) fn spend(&mut self, lines: usize) -> bool {
        let enough = lines as u64 <= self.left;
        self.left = self.left.saturating_sub(lines as u64);
        self.done += lines as u64;
        enough
    }

    /// Counts work that must be done even if none is left.
    pub(super) fn overdraw(&mut self, lines: usize) {
        self.done += lines as u64;
    }

    /// Whether no work is left.
    pub(super) fn is_spent(&self) -> bool {
        self.left == 0
    }
}
