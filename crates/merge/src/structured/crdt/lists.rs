//! The union of lists.

use std::collections::HashMap;
use std::fmt::Write;
use std::hash::Hash;
use std::rc::Rc;

use super::number::Number;
use super::{Stamp, Union, at_of};
use crate::structured::lists::named;
use crate::structured::node::{Container, Item, Kind, Meaning, Node};
use crate::structured::plan::{Joined, Plan};

pub(super) fn merge<'t, 'a>(
    union: &mut Union<'_, 'a>,
    base: Option<&'t Container<'a>>,
    ours: &'t Container<'a>,
    theirs: &'t Container<'a>,
    set: bool,
) -> Plan<'t, 'a> {
    let open = union.planner.open(base, ours, theirs);
    let was: &'t [Item<'a>] = base.map_or(&[], |base| &base.items);
    let lists = [was, &ours.items, &theirs.items];
    let items = match names(base, ours, theirs) {
        Some(names) => {
            let keyed = std::array::from_fn(|side| {
                let names = names[side].iter().copied();
                names.zip(lists[side]).collect()
            });
            let keep = |name: &&str, versions: [Option<&'t Item<'a>>; 3]| {
                let step = name.strip_prefix('s').unwrap_or(name);
                union.item(step.into(), versions)
            };
            united(&keyed, keep, |name, node| rank_named(name, node))
        }
        None => {
            let keyed = lists.map(|items| occurrences(items, set));
            let keep = |_: &_, versions: [Option<&'t Item<'a>>; 3]| union.planner.item(versions);
            united(&keyed, keep, |_, node| rank(node))
        }
    };
    union.planner.close(open, true, items)
}

/// Returns the names of the elements in base, ours and theirs, if every element
/// has a name.
fn names<'t>(
    base: Option<&'t Container<'_>>,
    ours: &'t Container<'_>,
    theirs: &'t Container<'_>,
) -> Option<[Vec<&'t str>; 3]> {
    match base {
        Some(base) => named([base, ours, theirs], false),
        None => named([ours, theirs], false).map(|[ours, theirs]| [Vec::new(), ours, theirs]),
    }
}

type Keyed<'t, 'a, K> = Vec<(K, &'t Item<'a>)>;

/// Returns the elements with their keys: the value of an element, and the
/// number of equal elements before it. Of equal elements of a set, only the
/// first is returned.
fn occurrences<'t, 'a>(items: &'t [Item<'a>], set: bool) -> Keyed<'t, 'a, (Meaning, u32)> {
    let mut seen: HashMap<Meaning, u32> = HashMap::new();
    let mut keyed = Vec::with_capacity(items.len());
    for item in items {
        let before = seen.entry(item.value.meaning).or_default();
        if !set || *before == 0 {
            keyed.push(((item.value.meaning, *before), item));
        }
        *before += 1;
    }
    keyed
}

/// Returns the elements of the base that stay, in their order. Each is followed
/// by the new elements at this place, sorted by `rank`.
///
/// `keep` merges the versions of an element in base, ours and theirs. A new
/// element goes after the nearest preceding element of the base that stays, so
/// that branches that remove and add elements can be merged in any order.
fn united<'t, 'a, K: Copy + Ord + Hash>(
    [base, ours, theirs]: &[Keyed<'t, 'a, K>; 3],
    mut keep: impl FnMut(&K, [Option<&'t Item<'a>>; 3]) -> Option<Joined<'t, 'a>>,
    rank: impl Fn(&K, &Node<'a>) -> Rank,
) -> Vec<Joined<'t, 'a>> {
    let index = |keyed: &Keyed<'t, 'a, K>| keyed.iter().copied().collect::<HashMap<K, _>>();
    let (in_ours, in_theirs) = (index(ours), index(theirs));
    let mut places = HashMap::new();
    let mut stays = Vec::with_capacity(base.len());
    for (at, (key, item)) in base.iter().enumerate() {
        let versions = [
            Some(*item),
            in_ours.get(key).copied(),
            in_theirs.get(key).copied(),
        ];
        let joined = keep(key, versions);
        places.insert(*key, joined.is_some().then_some(at + 1));
        stays.push(joined);
    }

    let mut gaps: HashMap<K, usize> = HashMap::new();
    for side in [ours, theirs] {
        let mut gap = 0;
        for (key, _) in side {
            match places.get(key) {
                Some(place) => gap = place.unwrap_or(gap),
                None => {
                    let least = gaps.entry(*key).or_insert(gap);
                    *least = gap.min(*least);
                }
            }
        }
    }
    let mut new: Vec<Vec<_>> = Vec::new();
    new.resize_with(base.len() + 1, Vec::new);
    for (key, gap) in gaps {
        let versions = [
            None,
            in_ours.get(&key).copied(),
            in_theirs.get(&key).copied(),
        ];
        let items = versions.iter().flatten();
        let rank = items.map(|item| rank(&key, &item.value)).min();
        new[gap].extend(keep(&key, versions).map(|joined| ((rank, key), joined)));
    }

    let mut items = Vec::with_capacity(ours.len() + theirs.len());
    for (mut new, stays) in new.into_iter().zip([None].into_iter().chain(stays)) {
        items.extend(stays);
        new.sort_by(|one, other| one.0.cmp(&other.0));
        items.extend(new.into_iter().map(|(_, joined)| joined));
    }
    items
}

/// Sort key of new elements at one place: their `at`, then their value.
pub(super) type Rank = (Option<Stamp>, Option<Number>, String);

pub(super) fn rank(node: &Node<'_>) -> Rank {
    let mut text = String::new();
    spell(node, &mut text);
    (node.as_map().and_then(at_of), Number::of(node), text)
}

/// The rank of a named element: by its `at`, then by its name.
fn rank_named(name: &str, node: &Node<'_>) -> Rank {
    let number = name.strip_prefix('n').and_then(Number::read);
    (node.as_map().and_then(at_of), number, name.to_owned())
}

/// Writes a value in a canonical spelling.
fn spell(node: &Node<'_>, text: &mut String) {
    match &node.kind {
        Kind::Scalar(value) => {
            // Writing to a string cannot fail.
            let _ = write!(text, "{value:?}");
        }
        Kind::List(list) => {
            text.push('[');
            for item in &list.items {
                spell(&item.value, text);
                text.push(',');
            }
            text.push(']');
        }
        Kind::Map(map) => {
            let mut items: Vec<(&Rc<str>, &Node<'_>)> = map
                .items
                .iter()
                .map(|item| (&item.name, &item.value))
                .collect();
            items.sort_by_key(|(name, _)| Rc::clone(name));
            text.push('{');
            for (name, value) in items {
                let _ = write!(text, "{name:?}:");
                spell(value, text);
                text.push(',');
            }
            text.push('}');
        }
    }
}
