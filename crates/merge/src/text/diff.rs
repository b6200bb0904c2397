//! What changed between two texts, in the same places as git sees it.

use std::ops::Range;

use super::histogram::Histogram;
use super::lines::{Line, Texts};
use super::slide::slide;
use super::work::Work;

/// Lines of one text that stand where lines of another stood. Between two
/// changes is at least one line that both texts have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Change {
    pub(super) before: Range<usize>,
    pub(super) after: Range<usize>,
}

/// Which lines are not common to both texts.
pub(super) struct Changed {
    pub(super) before: Vec<bool>,
    pub(super) after: Vec<bool>,
}

/// The changes that turn `before` into `after`.
pub(super) fn diff(
    texts: &Texts<'_>,
    before: &[Line],
    after: &[Line],
    work: &mut Work,
) -> Vec<Change> {
    let mut changed = Histogram::new(texts.distinct(), before, after).run(work);
    slide(before, &mut changed.before, &changed.after, work);
    slide(after, &mut changed.after, &changed.before, work);
    changes(&changed)
}

fn changes(changed: &Changed) -> Vec<Change> {
    let mut changes = Vec::new();
    let (mut before, mut after) = (0, 0);
    loop {
        let before_end = end_of_run(&changed.before, before);
        let after_end = end_of_run(&changed.after, after);
        if before_end > before || after_end > after {
            changes.push(Change {
                before: before..before_end,
                after: after..after_end,
            });
        }
        if before_end == changed.before.len() {
            return changes;
        }
        (before, after) = (before_end + 1, after_end + 1);
    }
}

/// The first line from `start` on that did not change.
fn end_of_run(changed: &[bool], start: usize) -> usize {
    let rest = changed.get(start..).unwrap_or_default();
    start + rest.iter().take_while(|&&changed| changed).count()
}
