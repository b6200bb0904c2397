//! Chooses the side of each value. Independent of the syntax of a format.

use std::rc::Rc;

use elevo_engine::lines::Work;

use super::lists;
use super::node::{Container, Finder, Item, Node, Side};
use super::order;
use super::plan::{Conflict, Docs, Frame, Join, Joined, Plan, Planned};
use super::render::Style;

/// The state of planning.
#[derive(Debug)]
pub(crate) struct Planner<'a> {
    pub(crate) style: Style,
    path: Vec<Rc<str>>,
    conflicts: Vec<Conflict<'a>>,
    refused: bool,
    /// Remaining work for comparisons of lists: of the base with ours, and of
    /// the base with theirs. If both comparisons shared one limit, the result
    /// would depend on the order of the sides.
    pub(crate) work: [Work; 2],
}

/// A merged container, before its items are known.
#[derive(Debug)]
pub(crate) struct Open<'t, 'a> {
    base: Option<&'t Container<'a>>,
    ours: &'t Container<'a>,
    theirs: &'t Container<'a>,
    head: Side,
}

impl<'a> Planner<'a> {
    pub(crate) fn new(style: Style) -> Self {
        Self {
            style,
            path: Vec::new(),
            conflicts: Vec::new(),
            refused: false,
            work: [Work::of_one_diff(), Work::of_one_diff()],
        }
    }

    /// Plans a file; `root` plans its values.
    pub(crate) fn plan<'t>(
        mut self,
        docs: &Docs<'t, 'a>,
        root: impl FnOnce(&mut Self) -> Option<Plan<'t, 'a>>,
    ) -> Option<Planned<'t, 'a>> {
        let Docs { base, ours, theirs } = docs;
        let mut head = self.gap(base.map(|doc| doc.head), ours.head, theirs.head);
        let root = root(&mut self)?;
        if let Plan::Take(side, _) = root
            && self.are_white([ours.head, theirs.head])
        {
            head = side;
        }
        let tail = self.gap(base.map(|doc| doc.tail), ours.tail, theirs.tail);
        Some(Planned {
            head,
            root,
            tail,
            conflicts: self.conflicts,
            refused: self.refused,
        })
    }

    /// Plans a value: takes a change of one side, and merges changes of both
    /// sides part by part.
    pub(crate) fn node<'t>(
        &mut self,
        base: Option<&'t Node<'a>>,
        ours: &'t Node<'a>,
        theirs: &'t Node<'a>,
    ) -> Plan<'t, 'a> {
        if ours.same(theirs) {
            return Plan::Same(ours);
        }
        if let Some(base) = base {
            if base.same(ours) {
                return Plan::Take(Side::Theirs, theirs);
            }
            if base.same(theirs) {
                return Plan::Take(Side::Ours, ours);
            }
        }
        self.refused |= mixed(base, ours, theirs);
        if let (Some(ours), Some(theirs)) = (ours.as_map(), theirs.as_map()) {
            match base.map(Node::as_map) {
                None => return self.map(None, ours, theirs),
                Some(Some(base)) => return self.map(Some(base), ours, theirs),
                Some(None) => {}
            }
        }
        if let (Some(base), Some(our_list), Some(their_list)) =
            (base, ours.as_list(), theirs.as_list())
            && let Some(base_list) = base.as_list()
        {
            return lists::merge(self, base_list, our_list, their_list)
                .unwrap_or_else(|| self.disputed(Some(base), ours, theirs));
        }
        self.whole(base, ours, theirs)
    }

    /// Plans a value that has no parts to merge.
    fn whole<'t>(
        &mut self,
        base: Option<&'t Node<'a>>,
        ours: &'t Node<'a>,
        theirs: &'t Node<'a>,
    ) -> Plan<'t, 'a> {
        let was = base.map(|base| base.meaning);
        if ours.meaning == theirs.meaning || was == Some(theirs.meaning) {
            Plan::Take(Side::Ours, ours)
        } else if was == Some(ours.meaning) {
            Plan::Take(Side::Theirs, theirs)
        } else {
            self.disputed(base, ours, theirs)
        }
    }

    fn disputed<'t>(
        &mut self,
        base: Option<&'t Node<'a>>,
        ours: &'t Node<'a>,
        theirs: &'t Node<'a>,
    ) -> Plan<'t, 'a> {
        self.conflict(
            base.map(|node| node.text),
            Some(ours.text),
            Some(theirs.text),
        );
        Plan::Take(Side::Theirs, theirs)
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
        let open = self.open(base, ours, theirs);
        let mut items = Vec::with_capacity(order.names.len());
        for name in order.names {
            let versions = finders.each_mut().map(|finder| finder.find(name));
            items.extend(self.within(name.into(), |planner| planner.item(versions)));
        }
        self.close(open, false, items)
    }

    /// Begins a container with parts of both sides.
    pub(crate) fn open<'t>(
        &mut self,
        base: Option<&'t Container<'a>>,
        ours: &'t Container<'a>,
        theirs: &'t Container<'a>,
    ) -> Open<'t, 'a> {
        Open {
            base,
            ours,
            theirs,
            head: self.gap(base.map(|base| base.head), ours.head, theirs.head),
        }
    }

    /// Ends a container with parts of both sides.
    pub(crate) fn close<'t>(
        &mut self,
        open: Open<'t, 'a>,
        ordered: bool,
        items: Vec<Joined<'t, 'a>>,
    ) -> Plan<'t, 'a> {
        let Open {
            base,
            ours,
            theirs,
            head,
        } = open;
        let tail = self.gap(base.map(|base| base.tail), ours.tail, theirs.tail);
        Plan::Join(Box::new(Join {
            ordered,
            base,
            ours,
            theirs,
            head,
            items,
            tail,
        }))
    }

    /// Runs `act` one step deeper in the path.
    pub(crate) fn within<T>(&mut self, step: Rc<str>, act: impl FnOnce(&mut Self) -> T) -> T {
        self.enter(step);
        let done = act(self);
        self.leave();
        done
    }

    pub(crate) fn enter(&mut self, step: Rc<str>) {
        self.path.push(step);
    }

    pub(crate) fn leave(&mut self) {
        self.path.pop();
    }

    /// The path of the current value.
    pub(crate) fn path(&self) -> &[Rc<str>] {
        &self.path
    }

    /// Plans an item in base, ours and theirs; `None` if it is removed.
    pub(crate) fn item<'t>(
        &mut self,
        [base, ours, theirs]: [Option<&'t Item<'a>>; 3],
    ) -> Option<Joined<'t, 'a>> {
        let (side, kept) = match (ours, theirs) {
            (Some(ours), Some(theirs)) => {
                let plan = |planner: &mut Self| {
                    planner.node(base.map(|item| &item.value), &ours.value, &theirs.value)
                };
                return Some(self.both(base, ours, theirs, plan));
            }
            (Some(ours), None) => (Side::Ours, ours),
            (None, Some(theirs)) => (Side::Theirs, theirs),
            (None, None) => return None,
        };
        if let Some(base) = base {
            if base.value.meaning == kept.value.meaning {
                return None;
            }
            let text = |item: Option<&'t Item<'a>>| item.map(|item| item.value.text);
            self.conflict(Some(base.value.text), text(ours), text(theirs));
            if side == Side::Ours {
                return None;
            }
        }
        Some(Joined::only(side, kept))
    }

    /// Plans an item that both sides have.
    pub(crate) fn both<'t>(
        &mut self,
        base: Option<&'t Item<'a>>,
        ours: &'t Item<'a>,
        theirs: &'t Item<'a>,
        plan: impl FnOnce(&mut Self) -> Plan<'t, 'a>,
    ) -> Joined<'t, 'a> {
        let lead = self.gap(base.map(|item| item.lead), ours.lead, theirs.lead);
        let label = match base {
            Some(base) if base.label == ours.label => Side::Theirs,
            _ => Side::Ours,
        };
        let mut sep = self.gap(base.map(|item| item.sep), ours.sep, theirs.sep);
        let plan = plan(self);
        if let Plan::Take(side, _) = plan
            && self.are_white([ours.sep, theirs.sep])
            && unlike(ours, theirs)
        {
            sep = side;
        }
        let mid = self.gap(base.map(|item| item.mid), ours.mid, theirs.mid);
        let trail = self.gap(base.map(|item| item.trail), ours.trail, theirs.trail);
        Joined {
            ours: Some(ours),
            theirs: Some(theirs),
            frame: Frame {
                lead,
                label,
                sep,
                mid,
                trail,
            },
            plan,
        }
    }

    /// Whether the gaps have no comments, in a format where white space has
    /// meaning. A value then needs the gap of the side that it comes from.
    fn are_white(&self, gaps: [&str; 2]) -> bool {
        self.style.dashes && !gaps.iter().any(|gap| self.style.comments.has_any(gap))
    }

    fn gap(&mut self, base: Option<&'a str>, ours: &'a str, theirs: &'a str) -> Side {
        let (side, disputed) = self.style.comments.choose(base, ours, theirs);
        if disputed && self.style.comments_conflict {
            let text = |gap: &'a str| Some(gap.trim()).filter(|text| !text.is_empty());
            self.conflicts.push(Conflict {
                pointer: self.pointer(),
                comment: true,
                base: base.and_then(text),
                ours: text(ours),
                theirs: text(theirs),
            });
        }
        side
    }

    fn conflict(&mut self, base: Option<&'a str>, ours: Option<&'a str>, theirs: Option<&'a str>) {
        self.conflicts.push(Conflict {
            pointer: self.pointer(),
            comment: false,
            base,
            ours,
            theirs,
        });
    }

    /// The current path as a JSON pointer (RFC 6901).
    fn pointer(&self) -> String {
        let mut pointer = String::new();
        for step in &self.path {
            if !self.style.paths {
                pointer.push('/');
                pointer.push_str(&step.replace('~', "~0").replace('/', "~1"));
            } else if !step.is_empty() {
                pointer.push('/');
                pointer.push_str(step);
            }
        }
        pointer
    }

    pub(crate) fn is_clean(&self) -> bool {
        self.conflicts.is_empty()
    }
}

/// Whether a container to be merged has commas on one side and not on the
/// other.
fn mixed(base: Option<&Node<'_>>, ours: &Node<'_>, theirs: &Node<'_>) -> bool {
    let commas = |node: &Node<'_>| node.as_map().or(node.as_list()).map(|inside| inside.commas);
    let alike = ours.as_map().is_some() == theirs.as_map().is_some();
    let parts = base.is_none_or(|base| commas(base).is_some());
    match (commas(ours), commas(theirs)) {
        (Some(ours), Some(theirs)) => alike && parts && ours != theirs,
        _ => false,
    }
}

/// Whether the values differ in kind or layout (on the line of the key or below
/// it, or empty), so that the separator of one does not fit the other.
fn unlike(ours: &Item<'_>, theirs: &Item<'_>) -> bool {
    let way = |item: &Item<'_>| {
        let list = item.value.as_list().is_some();
        (item.sep.contains('\n'), item.value.text.is_empty(), list)
    };
    way(ours) != way(theirs)
}
