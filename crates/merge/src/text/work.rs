//! How much work a diff may take, counted in lines looked at.

/// What is left to spend. The same versions always cost the same, so a merge
/// does not depend on how busy the machine is.
pub(super) struct Work(u64);

impl Work {
    /// Enough for the texts that people and programs write; a fraction of a second.
    pub(super) fn of_one_diff() -> Self {
        Self(1 << 25)
    }

    /// Whether there was so much left; else nothing is left.
    pub(super) fn spend(&mut self, lines: usize) -> bool {
        let enough = lines as u64 <= self.0;
        self.0 = self.0.saturating_sub(lines as u64);
        enough
    }

    /// Whether nothing is left.
    pub(super) fn is_spent(&self) -> bool {
        self.0 == 0
    }
}
