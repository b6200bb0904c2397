//! Merges lists by the names of their elements, or by their order if not all
//! elements have names.

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::rc::Rc;

use elevo_engine::lines::{Change, Line, Work, diff};

use super::node::{Container, Item, Kind, Meaning, Side};
use super::order;
use super::plan::{Joined, Plan};
use super::planner::Planner;

/// Keys that may name an element.
const NAMES: [&str; 3] = ["id", "key", "name"];

/// Merges a list that the base has; `None` if both sides changed the same part.
pub(crate) fn merge<'t, 'a>(
    planner: &mut Planner<'a>,
    base: &'t Container<'a>,
    ours: &'t Container<'a>,
    theirs: &'t Container<'a>,
) -> Option<Plan<'t, 'a>> {
    match named([base, ours, theirs], planner.style.paths) {
        Some(named) => by_name(planner, base, ours, theirs, named),
        None => by_order(planner, base, ours, theirs),
    }
}

/// Returns the names of the elements of each list, if every element is a map
/// with a scalar under the same key and names are unique within a list. With
/// `paths`, the scalars of a map are in an inner map of statements named "".
pub(crate) fn named<'t, const N: usize>(
    lists: [&'t Container<'_>; N],
    paths: bool,
) -> Option<[Vec<&'t str>; N]> {
    NAMES.into_iter().find_map(|key| {
        let mut named = [const { Vec::new() }; N];
        for (list, names) in lists.into_iter().zip(&mut named) {
            let mut seen = HashSet::new();
            for item in &list.items {
                let name = name_of(item, key, paths).filter(|name| seen.insert(*name))?;
                names.push(name);
            }
        }
        Some(named)
    })
}

fn name_of<'t>(item: &'t Item<'_>, key: &str, paths: bool) -> Option<&'t str> {
    let map = item.value.as_map()?;
    let statements = || map.get("")?.value.as_map()?.get(key);
    let named = if paths { statements() } else { map.get(key) }?;
    match &named.value.kind {
        Kind::Scalar(name) => Some(name),
        Kind::Map(_) | Kind::List(_) => None,
    }
}

fn by_name<'t, 'a>(
    planner: &mut Planner<'a>,
    base: &'t Container<'a>,
    ours: &'t Container<'a>,
    theirs: &'t Container<'a>,
    [in_base, in_ours, in_theirs]: [Vec<&'t str>; 3],
) -> Option<Plan<'t, 'a>> {
    let order = order::merge(&in_base, &in_ours, &in_theirs);
    if order.disputed {
        return None;
    }
    let places = [in_base, in_ours, in_theirs].map(|names| {
        let places = names.into_iter().enumerate();
        places
            .map(|(at, name)| (name, at))
            .collect::<HashMap<_, _>>()
    });
    let open = planner.open(Some(base), ours, theirs);
    let mut items = Vec::with_capacity(order.names.len());
    for name in order.names {
        let [was, our, their] = [0, 1, 2].map(|side: usize| places[side].get(name).copied());
        let versions = [
            was.map(|at| &base.items[at]),
            our.map(|at| &ours.items[at]),
            their.map(|at| &theirs.items[at]),
        ];
        let step = our.or(their).unwrap_or_default().to_string().into();
        items.extend(planner.within(step, |planner| planner.item(versions)));
    }
    Some(planner.close(open, true, items))
}

fn by_order<'t, 'a>(
    planner: &mut Planner<'a>,
    base: &'t Container<'a>,
    ours: &'t Container<'a>,
    theirs: &'t Container<'a>,
) -> Option<Plan<'t, 'a>> {
    let lists = [base, ours, theirs].map(meanings);
    let runs = diff3(lists.each_ref().map(Vec::as_slice), &mut planner.work)?;
    let open = planner.open(Some(base), ours, theirs);
    let mut items = Vec::with_capacity(ours.items.len() + theirs.items.len());
    for run in runs {
        match run {
            Run::Only(Side::Ours, range) => {
                let range = ours.items[range].iter();
                items.extend(range.map(|item| Joined::only(Side::Ours, item)));
            }
            Run::Only(Side::Theirs, range) => {
                let range = theirs.items[range].iter();
                items.extend(range.map(|item| Joined::only(Side::Theirs, item)));
            }
            Run::Both {
                base: was,
                ours: our,
                theirs: their,
            } => {
                for (offset, at) in our.enumerate() {
                    let was = was.as_ref().map(|was| &base.items[was.start + offset]);
                    let (one, other) = (&ours.items[at], &theirs.items[their.start + offset]);
                    let step: Rc<str> = at.to_string().into();
                    let joined =
                        planner.within(step, |planner| planner.item([was, Some(one), Some(other)]));
                    items.extend(joined);
                }
            }
        }
    }
    Some(planner.close(open, true, items))
}

fn meanings(list: &Container<'_>) -> Vec<Meaning> {
    list.items.iter().map(|item| item.value.meaning).collect()
}

/// A part of a merged list.
#[derive(Debug, PartialEq, Eq)]
enum Run {
    /// The part as one side changed it.
    Only(Side, Range<usize>),
    /// Elements that both sides have, kept from the base or added by both.
    Both {
        base: Option<Range<usize>>,
        ours: Range<usize>,
        theirs: Range<usize>,
    },
}

/// Returns the parts of the merged list; `None` if changes of both sides
/// overlap. `work` limits the comparison of the base with ours, and that with
/// theirs.
fn diff3([base, ours, theirs]: [&[Meaning]; 3], work: &mut [Work; 2]) -> Option<Vec<Run>> {
    // One table for all three lists, so that equal elements have equal numbers.
    let mut dense = HashMap::new();
    let [base_lines, our_lines, their_lines] = [base, ours, theirs].map(|list| {
        let lines = list.iter().map(|meaning| {
            let next = dense.len() as u32;
            Line::from(*dense.entry(*meaning).or_insert(next))
        });
        lines.collect::<Vec<_>>()
    });
    let [our_work, their_work] = work;
    let our_changes = diff(dense.len(), &base_lines, &our_lines, our_work);
    let their_changes = diff(dense.len(), &base_lines, &their_lines, their_work);
    let mut our_changes = our_changes.into_iter().peekable();
    let mut their_changes = their_changes.into_iter().peekable();

    let mut runs = Vec::new();
    let mut done = [0, 0, 0];
    loop {
        let (our, their) = match (our_changes.peek(), their_changes.peek()) {
            (None, None) => break,
            (Some(_), None) => (our_changes.next(), None),
            (None, Some(_)) => (None, their_changes.next()),
            (Some(our), Some(their)) if meet(our, their) => {
                // Both sides may have made the same change; it is then taken
                // once.
                if our.before != their.before
                    || ours[our.after.clone()] != theirs[their.after.clone()]
                {
                    return None;
                }
                (our_changes.next(), their_changes.next())
            }
            (Some(our), Some(their)) if our.before.start < their.before.start => {
                (our_changes.next(), None)
            }
            _ => (None, their_changes.next()),
        };
        let Some(was) = our
            .as_ref()
            .or(their.as_ref())
            .map(|change| change.before.clone())
        else {
            break;
        };
        keep(&mut runs, &mut done, was.start);
        done[0] = was.end;
        // A side that did not change this part still has all its elements.
        done[1] = our
            .as_ref()
            .map_or(done[1] + was.len(), |change| change.after.end);
        done[2] = their
            .as_ref()
            .map_or(done[2] + was.len(), |change| change.after.end);
        runs.push(match (our, their) {
            (Some(our), Some(their)) => Run::Both {
                base: None,
                ours: our.after,
                theirs: their.after,
            },
            (Some(our), None) => Run::Only(Side::Ours, our.after),
            (_, their) => Run::Only(Side::Theirs, their.map_or(0..0, |change| change.after)),
        });
    }
    keep(&mut runs, &mut done, base.len());
    Some(runs)
}

/// Keeps the unchanged elements up to `end` in the base.
fn keep(runs: &mut Vec<Run>, done: &mut [usize; 3], end: usize) {
    let length = end - done[0];
    if length > 0 {
        let [base, ours, theirs] = done.map(|from| from..from + length);
        runs.push(Run::Both {
            base: Some(base),
            ours,
            theirs,
        });
        *done = done.map(|from| from + length);
    }
}

/// Whether two changes touch the same part. An insertion next to a change
/// counts, because their order is unknown.
fn meet(one: &Change, other: &Change) -> bool {
    if one.before.is_empty() || other.before.is_empty() {
        one.before.start <= other.before.end && other.before.start <= one.before.end
    } else {
        one.before.start < other.before.end && other.before.start < one.before.end
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::structured::node::Meanings;

    #[test]
    fn lists_with_many_equal_elements_cost_a_bounded_amount_of_work() {
        const LENGTH: usize = 50_000;
        let mut meanings = Meanings::default();
        let mut list = |changed: usize| -> Vec<_> {
            let elements = (0..LENGTH).map(|at| match at % 3 == changed {
                true => 1_000 + at,
                false => at % 60,
            });
            let elements = elements.map(|number| meanings.scalar(&number.to_string()).0);
            elements.collect()
        };
        let (base, ours, theirs) = (list(3), list(0), list(1));
        let mut work = [(); 2].map(|()| Work::of_one_diff());
        // A second list of the same file gets only the work that is left.
        for _ in 0..2 {
            diff3([&base, &ours, &theirs], &mut work);
        }
        // The limit, plus one search that began before the limit was reached,
        // plus a coarse comparison of both lists.
        let most = Work::ONE_DIFF + 2 * 128 * 2 * LENGTH as u64;
        for work in work {
            assert!(work.done() <= most, "{}", work.done());
        }
    }
}
