//! Finds common lines in time that grows with the number of lines, for texts on
//! which better algorithms take too long.
//!
//! Lines that occur once in each text, in the same order in both, are common;
//! so are equal lines directly before and after them.

use super::histogram::Part;
use super::work::Work;
use super::{Changed, Line};

/// Marks the lines of a part that are not common. The sorts count as work even
/// if none is left, since the diff has to be finished.
pub(super) fn coarse(
    before: &[Line],
    after: &[Line],
    part: &Part,
    changed: &mut Changed,
    work: &mut Work,
) {
    let part = trimmed(before, after, part.clone());
    let lines = part.before.len() + part.after.len();
    work.overdraw(lines * (lines.max(2).ilog2() as usize));
    let mut rest = part.clone();
    for (at_before, at_after) in in_both_orders(single(before, after, &part)) {
        let (at_before, at_after) = (at_before as usize, at_after as usize);
        let gap = Part {
            before: rest.before.start..at_before,
            after: rest.after.start..at_after,
        };
        mark(&trimmed(before, after, gap), changed);
        rest.before.start = at_before + 1;
        rest.after.start = at_after + 1;
    }
    mark(&trimmed(before, after, rest), changed);
}

fn mark(part: &Part, changed: &mut Changed) {
    changed.before[part.before.clone()].fill(true);
    changed.after[part.after.clone()].fill(true);
}

/// Returns a part without the equal lines at its start and end.
fn trimmed(before: &[Line], after: &[Line], part: Part) -> Part {
    let (a, b) = (&before[part.before.clone()], &after[part.after.clone()]);
    let start = a.iter().zip(b).take_while(|(a, b)| a == b).count();
    let (a, b) = (&a[start..], &b[start..]);
    let end = a.iter().rev().zip(b.iter().rev());
    let end = end.take_while(|(a, b)| a == b).count();
    Part {
        before: part.before.start + start..part.before.end - end,
        after: part.after.start + start..part.after.end - end,
    }
}

/// Returns the positions of lines that occur once in both, in the order of
/// `before`.
fn single(before: &[Line], after: &[Line], part: &Part) -> Vec<(u32, u32)> {
    let once = |lines: &[Line], offset: usize| {
        let mut places: Vec<(u32, u32)> = (offset as u32..)
            .zip(lines)
            .map(|(at, line)| (line.0, at))
            .collect();
        places.sort_unstable();
        places
            .chunk_by(|(a, _), (b, _)| a == b)
            .filter_map(|same| match same {
                [one] => Some(*one),
                _ => None,
            })
            .collect::<Vec<_>>()
    };
    let in_before = once(&before[part.before.clone()], part.before.start);
    let mut in_after = once(&after[part.after.clone()], part.after.start)
        .into_iter()
        .peekable();
    let mut pairs = Vec::new();
    for (line, at_before) in in_before {
        while in_after.next_if(|&(other, _)| other < line).is_some() {}
        if let Some((_, at_after)) = in_after.next_if(|&(other, _)| other == line) {
            pairs.push((at_before, at_after));
        }
    }
    pairs.sort_unstable();
    pairs
}

/// Returns the longest subsequence of pairs that rises in both positions.
fn in_both_orders(pairs: Vec<(u32, u32)>) -> Vec<(u32, u32)> {
    // `ends` has the last pair of the best subsequence of each length;
    // `previous` has, for each pair, the one before it in its subsequence.
    let mut ends: Vec<usize> = Vec::new();
    let mut previous: Vec<Option<usize>> = Vec::with_capacity(pairs.len());
    for (i, &(_, at_after)) in pairs.iter().enumerate() {
        let shorter = ends.partition_point(|&end| pairs[end].1 < at_after);
        previous.push(shorter.checked_sub(1).map(|last| ends[last]));
        if shorter == ends.len() {
            ends.push(i);
        } else {
            ends[shorter] = i;
        }
    }
    let mut selected = Vec::with_capacity(ends.len());
    let mut at = ends.last().copied();
    while let Some(i) = at {
        selected.push(pairs[i]);
        at = previous[i];
    }
    selected.reverse();
    selected
}
