//! Combines the changes of both sides.

use std::ops::Range;

use super::lines::{Line, Texts};
use elevo_engine::lines::Change;

/// A place that at least one side changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Region {
    pub(super) base: Range<usize>,
    pub(super) ours: Range<usize>,
    pub(super) theirs: Range<usize>,
    pub(super) outcome: Outcome,
}

/// The side whose lines replace a region, or a conflict between the sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Ours,
    Theirs,
    Conflict,
}

/// Returns all regions, in order. Between two regions is at least one line that
/// all three versions have.
pub(super) fn combine(texts: &Texts<'_>, ours: &[Change], theirs: &[Change]) -> Vec<Region> {
    let (mut ours, mut theirs) = (Side::new(ours), Side::new(theirs));
    let mut regions = Vec::new();
    while let Some(mut base) = ours.starts_before(&theirs) {
        let (our_start, their_start) = (ours.place(base.start), theirs.place(base.start));
        let (mut by_us, mut by_them) = (false, false);
        // Adjacent changes form one region even if they share no line, because
        // their order is unknown.
        loop {
            let (more_of_us, more_of_them) = (ours.join(&mut base), theirs.join(&mut base));
            by_us |= more_of_us;
            by_them |= more_of_them;
            if !more_of_us && !more_of_them {
                break;
            }
        }
        let (our_lines, their_lines) = (
            our_start..ours.place(base.end),
            their_start..theirs.place(base.end),
        );
        regions.push(Region {
            outcome: match (by_us, by_them) {
                (_, false) => Outcome::Ours,
                (false, true) => Outcome::Theirs,
                _ if texts.ours[our_lines.clone()] == texts.theirs[their_lines.clone()] => {
                    Outcome::Ours
                }
                _ => Outcome::Conflict,
            },
            base,
            ours: our_lines,
            theirs: their_lines,
        });
    }
    regions
}

/// The changes of one side that are not in a region yet.
struct Side<'a> {
    left: &'a [Change],
    /// Difference between the position of a line in this side and its position
    /// in the base, for lines after the last region.
    offset: isize,
}

impl<'a> Side<'a> {
    fn new(changes: &'a [Change]) -> Self {
        Self {
            left: changes,
            offset: 0,
        }
    }

    /// Returns the start of the earliest change of both sides that is not in a
    /// region yet, as an empty range.
    fn starts_before(&self, other: &Self) -> Option<Range<usize>> {
        let next = [self.left.first(), other.left.first()]
            .into_iter()
            .flatten();
        let start = next.map(|change| change.before.start).min()?;
        Some(start..start)
    }

    /// The position of a line of the base in this side.
    fn place(&self, line: usize) -> usize {
        line.saturating_add_signed(self.offset)
    }

    /// Adds the next change to a region, if the change touches the region.
    /// Returns whether it does.
    fn join(&mut self, region: &mut Range<usize>) -> bool {
        match self.left.split_first() {
            Some((change, left)) if change.before.start <= region.end => {
                region.end = region.end.max(change.before.end);
                self.offset += change.after.len() as isize - change.before.len() as isize;
                self.left = left;
                true
            }
            _ => false,
        }
    }
}

impl Region {
    /// A conflict without the lines at its start and end that both sides share.
    pub(super) fn narrowed(&self, texts: &Texts<'_>) -> Self {
        let (ours, theirs) = (
            &texts.ours[self.ours.clone()],
            &texts.theirs[self.theirs.clone()],
        );
        let start = common(ours.iter(), theirs.iter());
        let end = common(ours[start..].iter().rev(), theirs[start..].iter().rev());
        Self {
            ours: self.ours.start + start..self.ours.end - end,
            theirs: self.theirs.start + start..self.theirs.end - end,
            ..self.clone()
        }
    }
}

/// The number of equal lines at the start.
fn common<'a>(a: impl Iterator<Item = &'a Line>, b: impl Iterator<Item = &'a Line>) -> usize {
    a.zip(b).take_while(|(a, b)| a == b).count()
}
