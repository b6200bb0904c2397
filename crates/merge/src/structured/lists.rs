//! Merging lists: by the names of their elements, or else by their order.

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::rc::Rc;

use gix_imara_diff::{Algorithm, Diff, Token};

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
    let runs = diff3(&meanings(base), &meanings(ours), &meanings(theirs))?;
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

/// A change of one side, as a range of the base and its replacement.
#[derive(Clone, Debug)]
struct Change {
    was: Range<usize>,
    is: Range<usize>,
}

/// The parts of the merged list; `None` if changes of both sides overlap.
fn diff3(base: &[Meaning], ours: &[Meaning], theirs: &[Meaning]) -> Option<Vec<Run>> {
    // One table for all three lists, so that equal elements have equal tokens.
    let mut dense = HashMap::new();
    let [base_tokens, our_tokens, their_tokens] = [base, ours, theirs].map(|list| {
        let tokens = list.iter().map(|meaning| {
            let next = dense.len() as u32;
            Token(*dense.entry(*meaning).or_insert(next))
        });
        tokens.collect::<Vec<_>>()
    });
    let count = dense.len() as u32;
    let mut our_changes = changes(&base_tokens, &our_tokens, count)
        .into_iter()
        .peekable();
    let mut their_changes = changes(&base_tokens, &their_tokens, count)
        .into_iter()
        .peekable();

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
                if our.was != their.was || ours[our.is.clone()] != theirs[their.is.clone()] {
                    return None;
                }
                (our_changes.next(), their_changes.next())
            }
            (Some(our), Some(their)) if our.was.start < their.was.start => {
                (our_changes.next(), None)
            }
            _ => (None, their_changes.next()),
        };
        let Some(was) = our
            .as_ref()
            .or(their.as_ref())
            .map(|change| change.was.clone())
        else {
            break;
        };
        keep(&mut runs, &mut done, was.start);
        done[0] = was.end;
        // A side that left this part alone still has it.
        done[1] = our
            .as_ref()
            .map_or(done[1] + was.len(), |change| change.is.end);
        done[2] = their
            .as_ref()
            .map_or(done[2] + was.len(), |change| change.is.end);
        runs.push(match (our, their) {
            (Some(our), Some(their)) => Run::Both {
                base: None,
                ours: our.is,
                theirs: their.is,
            },
            (Some(our), None) => Run::Only(Side::Ours, our.is),
            (_, their) => Run::Only(Side::Theirs, their.map_or(0..0, |change| change.is)),
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
    if one.was.is_empty() || other.was.is_empty() {
        one.was.start <= other.was.end && other.was.start <= one.was.end
    } else {
        one.was.start < other.was.end && other.was.start < one.was.end
    }
}

fn changes(before: &[Token], after: &[Token], tokens: u32) -> Vec<Change> {
    let mut diff = Diff::default();
    diff.compute_with(Algorithm::Histogram, before, after, tokens);
    let range = |range: Range<u32>| range.start as usize..range.end as usize;
    diff.hunks()
        .map(|hunk| Change {
            was: range(hunk.before),
            is: range(hunk.after),
        })
        .collect()
}
