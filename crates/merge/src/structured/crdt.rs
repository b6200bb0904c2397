//! JSON whose parts merge without conflicts.

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

/// Merges JSON that many write at once, such as a list of tasks: there is never
/// a conflict.
///
/// - *Maps* merge key by key. A key that one side removed goes, unless the other
///   changed what is there.
/// - *Lists* are united. What was there keeps its order, and goes if a side
///   removed it. What is new is there once, however many sides added it, behind
///   what it was put behind; several at one place are sorted, by the `at` that
///   they may have, then by name or value. Elements that are objects with a different
///   `id` (or `key`, or `name`) each are merged like the entries of a map.
/// - *Sets* are lists in which nothing is there twice.
/// - *Counters* add what both sides added.
/// - *Registers*, which is any other value: the one side that changed it; if
///   both did, the one with the larger `at` if they are written as
///   `{"value": …, "at": …}`, and theirs, which lands later, if not. An `at` is
///   a number, or a time such as `2026-01-31T12:00:00Z`, always in one format.
///
/// A file says what its fields are, by JSON pointer with `*` for any key;
/// without that, objects are maps, arrays are lists, and the rest is registers:
///
/// ```json
/// {"$crdt": {"types": {"/runs": "counter", "/tags": "set", "/users/*/seen": "counter"}}}
/// ```
///
/// Promises, for branches of one base that are merged one after the other:
///
/// - *Any order gives the same value* for maps, sets, lists that have nothing
///   twice and whose elements no branch moved, counters that no branch removed,
///   and registers with an `at`; of elements with an `id`, if none is removed
///   by one branch and changed by another. All of them declared in the base.
/// - Otherwise the later writer wins where two disagree: registers without an
///   `at`, values that changed their kind, elements that were moved.
/// - *A branch that was merged changes nothing* when it is merged again from
///   the state that was merged.
///
/// White space and comments are treated as [`Json`] does, except that theirs
/// stays where both changed a comment. Refused: what [`Json`] refuses, and more
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
        quarrels: false,
        ..Json::STYLE
    };

    fn parse<'a>(text: &'a str, meanings: &mut Meanings) -> Option<Doc<'a>> {
        Json::parse(text, meanings)
    }
}

/// What is known while merging.
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

    /// An item in base, ours and theirs; nothing if it is to go.
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

    /// Nothing if these are no numbers, or too large to add exactly.
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

    /// Nothing if these are no lists.
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

/// The side that changed it; if both did, the one with the larger `at`, or else
/// theirs.
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
    // Of one moment, any that both orders of merging agree on.
    let order = order.then_with(|| lists::rank(ours).cmp(&lists::rank(theirs)));
    if order.is_gt() {
        Side::Ours
    } else {
        Side::Theirs
    }
}

/// When a register of the form `{"value": …, "at": …}` was written.
fn stamp(node: &Node<'_>) -> Option<Stamp> {
    let map = node.as_map()?;
    map.get("value")?;
    if map.items.len() != 2 {
        return None;
    }
    at_of(map)
}

/// Numbers are before times.
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
