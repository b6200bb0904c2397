//! JSON that merges without conflicts.

mod lists;
mod number;
mod types;

use std::rc::Rc;

use number::Number;
use types::{Type, Types};

use super::json::{Json, canonical_number};
use super::node::{Container, Doc, Finder, Item, Kind, Meanings, Node, Side};
use super::order;
use super::plan::{Joined, Plan};
use super::planner::Planner;
use super::render::Style;
use super::{Format, extension, merge_with};
use crate::driver::{Driver, Merged, Versions};

/// Merges JSON with many concurrent writers, such as a list of tasks, and never
/// reports a conflict.
///
/// - *Maps* merge key by key. A key that one side removed is removed, unless the
///   other side changed its value.
/// - *Lists* become their union. Existing elements keep their order, and are
///   removed if a side removed them. A new element appears once, even if both
///   sides added it, after the element that it was inserted after; several new
///   elements at one place are sorted by their optional `at`, then by name or
///   value. Elements that are objects with distinct `id`s (or `key`s, or
///   `name`s) merge like the entries of a map.
/// - *Sets* are lists without duplicates.
/// - *Counters* add the increments of both sides.
/// - *Registers* are all other values. The side that changed the value wins; if
///   both did, the larger `at` wins if both are written as
///   `{"value": …, "at": …}`, and otherwise theirs, which lands later. An `at`
///   is a number, or a time such as `2026-01-31T12:00:00Z`, always in one format.
///
/// A file declares the types of its fields, by JSON pointer with `*` for any
/// key. Without a declaration, objects are maps, arrays are lists, and all
/// other values are registers:
///
/// ```json
/// {"$crdt": {"types": {"/runs": "counter", "/tags": "set", "/users/*/seen": "counter"}}}
/// ```
///
/// Promises, for branches of one base that are merged one after the other:
///
/// - *Any order gives the same value* for maps, sets, lists without duplicates
///   whose elements no branch moved, counters that no branch removed, and
///   registers with an `at`; for elements with an `id`, if none is removed by
///   one branch and changed by another. The base must declare their types.
/// - Otherwise the later writer wins where two disagree: registers without an
///   `at`, values that changed their kind, elements that were moved.
/// - *Merging a branch again changes nothing* if the base is the state that was
///   merged.
///
/// White space and comments are treated as by [`Json`], except that theirs wins
/// where both changed a comment. Rejects files that [`Json`] rejects, and more
/// than 256 declared types.
#[derive(Clone, Copy, Debug, Default)]
pub struct Crdt;

impl Driver for Crdt {
    fn name(&self) -> &'static str {
        "crdt"
    }

    fn claims(&self, file_name: &[u8]) -> bool {
        extension(file_name, "crdt.json")
    }

    fn counts_twice(&self) -> bool {
        true
    }

    fn merge(&self, versions: &Versions<'_>) -> Merged {
        merge_with::<Self>(versions, |planner, docs, meanings| {
            let types = Types::of(docs)?;
            let mut union = Union {
                planner,
                meanings,
                types,
            };
            let base = docs.base.map(|base| &base.root);
            Some(union.node(base, &docs.ours.root, &docs.theirs.root))
        })
    }
}

impl Format for Crdt {
    const STYLE: Style = Style {
        comments_conflict: false,
        ..Json::STYLE
    };

    fn parse<'a>(text: &'a str, meanings: &mut Meanings) -> Option<Doc<'a>> {
        Json::parse(text, meanings)
    }
}

/// The state of one merge.
struct Union<'p, 'a> {
    planner: &'p mut Planner<'a>,
    meanings: &'p mut Meanings,
    types: Types,
}

impl<'a> Union<'_, 'a> {
    fn node<'t>(
        &mut self,
        base: Option<&'t Node<'a>>,
        ours: &'t Node<'a>,
        theirs: &'t Node<'a>,
    ) -> Plan<'t, 'a> {
        if let Some(base) = base {
            if base.same(ours) {
                return Plan::Take(Side::Theirs, theirs);
            }
            if base.same(theirs) {
                return Plan::Take(Side::Ours, ours);
            }
        }
        let declared = self.types.at(self.planner.path());
        let merged = match declared {
            Some(Type::Counter) => self.counter(base, ours, theirs),
            Some(Type::Register) => None,
            Some(Type::Set) => self.list(base, ours, theirs, true),
            Some(Type::List) => self.list(base, ours, theirs, false),
            None => self.undeclared(base, ours, theirs),
        };
        merged.unwrap_or_else(|| register(base, ours, theirs))
    }

    fn undeclared<'t>(
        &mut self,
        base: Option<&'t Node<'a>>,
        ours: &'t Node<'a>,
        theirs: &'t Node<'a>,
    ) -> Option<Plan<'t, 'a>> {
        let stamped = stamp(ours).is_some() && stamp(theirs).is_some();
        match (ours.as_map(), theirs.as_map()) {
            (Some(ours), Some(theirs)) if !stamped => {
                Some(self.map(base.and_then(Node::as_map), ours, theirs))
            }
            _ => self.list(base, ours, theirs, false),
        }
    }

    fn map<'t>(
        &mut self,
        base: Option<&'t Container<'a>>,
        ours: &'t Container<'a>,
        theirs: &'t Container<'a>,
    ) -> Plan<'t, 'a> {
        let mut finders = [base, Some(ours), Some(theirs)].map(Finder::new);
        let [was, our, their] = finders.each_ref().map(Finder::names);
        let order = order::merge(&was, &our, &their);
        let open = self.planner.open(base, ours, theirs);
        let mut items = Vec::with_capacity(order.names.len());
        for name in order.names {
            let versions = finders.each_mut().map(|finder| finder.find(name));
            items.extend(self.item(name.into(), versions));
        }
        self.planner.close(open, false, items)
    }

    /// Merges an item in base, ours and theirs; `None` if it is removed.
    fn item<'t>(
        &mut self,
        step: Rc<str>,
        [base, ours, theirs]: [Option<&'t Item<'a>>; 3],
    ) -> Option<Joined<'t, 'a>> {
        let (side, kept) = match (ours, theirs) {
            (Some(ours), Some(theirs)) => {
                self.planner.enter(step);
                let was = base.map(|item| &item.value);
                let plan = self.node(was, &ours.value, &theirs.value);
                let joined = self.planner.both(base, ours, theirs, |_| plan);
                self.planner.leave();
                return Some(joined);
            }
            (Some(ours), None) => (Side::Ours, ours),
            (None, Some(theirs)) => (Side::Theirs, theirs),
            (None, None) => return None,
        };
        let unchanged = base.is_some_and(|base| base.value.meaning == kept.value.meaning);
        (!unchanged).then(|| Joined::only(side, kept))
    }

    /// Adds the increments of both sides to a counter. Returns `None` if a
    /// version is not a number, or too large to add exactly.
    fn counter<'t>(
        &mut self,
        base: Option<&'t Node<'a>>,
        ours: &'t Node<'a>,
        theirs: &'t Node<'a>,
    ) -> Option<Plan<'t, 'a>> {
        let was = match base {
            Some(base) => Number::of(base)?,
            None => Number::zero(),
        };
        let sum = Number::of(ours)?.plus(&Number::of(theirs)?)?.minus(&was)?;
        let text = sum.text()?;
        let (meaning, _) = self
            .meanings
            .scalar(&format!("n{}", canonical_number(&text)));
        Some(if meaning == ours.meaning {
            Plan::Take(Side::Ours, ours)
        } else if meaning == theirs.meaning {
            Plan::Take(Side::Theirs, theirs)
        } else {
            Plan::Made(text, meaning)
        })
    }

    /// Merges two lists. Returns `None` if ours or theirs is not a list.
    fn list<'t>(
        &mut self,
        base: Option<&'t Node<'a>>,
        ours: &'t Node<'a>,
        theirs: &'t Node<'a>,
        set: bool,
    ) -> Option<Plan<'t, 'a>> {
        let (our_list, their_list) = (ours.as_list()?, theirs.as_list()?);
        if let Some(base) = base {
            if base.meaning == ours.meaning {
                return Some(Plan::Take(Side::Theirs, theirs));
            }
            if base.meaning == theirs.meaning {
                return Some(Plan::Take(Side::Ours, ours));
            }
        }
        Some(lists::merge(
            self,
            base.and_then(Node::as_list),
            our_list,
            their_list,
            set,
        ))
    }
}

/// Takes the side that changed the value; if both did, the side with the larger
/// `at`, or else theirs.
fn register<'t, 'a>(
    base: Option<&'t Node<'a>>,
    ours: &'t Node<'a>,
    theirs: &'t Node<'a>,
) -> Plan<'t, 'a> {
    let was = base.map(|base| base.meaning);
    let side = if ours.same(theirs) {
        return Plan::Same(ours);
    } else if ours.meaning == theirs.meaning || was == Some(theirs.meaning) {
        Side::Ours
    } else if was == Some(ours.meaning) {
        Side::Theirs
    } else {
        later(ours, theirs)
    };
    match side {
        Side::Ours => Plan::Take(side, ours),
        Side::Theirs => Plan::Take(side, theirs),
    }
}

fn later(ours: &Node<'_>, theirs: &Node<'_>) -> Side {
    let (Some(our_stamp), Some(their_stamp)) = (stamp(ours), stamp(theirs)) else {
        return Side::Theirs;
    };
    let order = our_stamp.cmp(&their_stamp);
    // Equal times need a choice that does not depend on the order of merges.
    let order = order.then_with(|| lists::rank(ours).cmp(&lists::rank(theirs)));
    if order.is_gt() {
        Side::Ours
    } else {
        Side::Theirs
    }
}

/// The time of a register of the form `{"value": …, "at": …}`.
fn stamp(node: &Node<'_>) -> Option<Stamp> {
    let map = node.as_map()?;
    map.get("value")?;
    if map.items.len() != 2 {
        return None;
    }
    at_of(map)
}

/// Numbers sort before times.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Stamp {
    Number(Number),
    Time(Rc<str>),
}

fn at_of(map: &Container<'_>) -> Option<Stamp> {
    let at = &map.get("at")?.value;
    match &at.kind {
        Kind::Scalar(text) if text.starts_with('s') => Some(Stamp::Time(Rc::clone(text))),
        Kind::Scalar(_) => Some(Stamp::Number(Number::of(at)?)),
        Kind::Map(_) | Kind::List(_) => None,
    }
}
