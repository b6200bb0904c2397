//! Traces the lines of a text back to an earlier version, to find the author of
//! each.

use elevo_engine::lines::{TwoTexts, Work};
use elevo_engine::{LineBudget, Result};

/// Returns, for each line of `after`, the index of the same line in `before`,
/// or `None` if the line is new. `budget` limits the total time of all calls
/// that share it.
pub fn carried_lines(
    before: &[u8],
    after: &[u8],
    budget: &mut LineBudget,
) -> Result<Vec<Option<u32>>> {
    budget.compare(before, after, |work| carried(before, after, work))
}

fn carried(before: &[u8], after: &[u8], work: &mut Work) -> Vec<Option<u32>> {
    let texts = TwoTexts::new(before, after);
    let count = texts.after().len();
    let mut carried = Vec::with_capacity(count);
    let (mut old, mut new) = (0, 0);
    let same = |old: usize, lines: usize| (old..old + lines).map(|line| Some(line as u32));
    for change in texts.changes(work) {
        carried.extend(same(old, change.after.start - new));
        carried.extend(change.after.clone().map(|_| None));
        (old, new) = (change.before.end, change.after.end);
    }
    carried.extend(same(old, count - new));
    carried
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_carried_around_additions_and_removals() {
        let carried_lines = |before: &[u8], after: &[u8]| {
            carried_lines(before, after, &mut LineBudget::of_one_answer()).unwrap()
        };
        let carried = carried_lines(b"a\nb\nc\nd\n", b"new\na\nc\nother\nd\n");
        assert_eq!(carried, [None, Some(0), Some(2), None, Some(3)]);
        assert_eq!(carried_lines(b"", b"a\n"), [None]);
        assert_eq!(carried_lines(b"a\n", b""), []);
    }
}
