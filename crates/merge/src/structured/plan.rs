//! The sources of the parts of a merged file.

use super::node::{Container, Doc, Item, Meaning, Meanings, Node, Side};

/// The three versions of a file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Docs<'t, 'a> {
    pub(crate) base: Option<&'t Doc<'a>>,
    pub(crate) ours: &'t Doc<'a>,
    pub(crate) theirs: &'t Doc<'a>,
}

/// The source of each part of a merged file.
#[derive(Debug)]
pub(crate) struct Planned<'t, 'a> {
    pub(crate) head: Side,
    pub(crate) root: Plan<'t, 'a>,
    pub(crate) tail: Side,
    /// The conflicts, in the order of the file.
    pub(crate) conflicts: Vec<Conflict<'a>>,
    /// Whether the sides wrote a shared container in incompatible styles.
    pub(crate) refused: bool,
}

/// The source of a value.
#[derive(Debug)]
pub(crate) enum Plan<'t, 'a> {
    /// Both sides wrote the same text.
    Same(&'t Node<'a>),
    /// The value of one side.
    Take(Side, &'t Node<'a>),
    /// A scalar that neither side has: its text and its meaning.
    Made(String, Meaning),
    /// A container with parts of both sides.
    Join(Box<Join<'t, 'a>>),
}

/// A merged container with parts of both sides.
#[derive(Debug)]
pub(crate) struct Join<'t, 'a> {
    pub(crate) ordered: bool,
    pub(crate) base: Option<&'t Container<'a>>,
    pub(crate) ours: &'t Container<'a>,
    pub(crate) theirs: &'t Container<'a>,
    pub(crate) head: Side,
    pub(crate) items: Vec<Joined<'t, 'a>>,
    pub(crate) tail: Side,
}

/// An item of a merged container.
#[derive(Debug)]
pub(crate) struct Joined<'t, 'a> {
    /// The item in ours and in theirs; at least one side has the item.
    pub(crate) ours: Option<&'t Item<'a>>,
    pub(crate) theirs: Option<&'t Item<'a>>,
    pub(crate) frame: Frame,
    pub(crate) plan: Plan<'t, 'a>,
}

/// The sides that provide the white space, the comments and the spelling of the
/// key around a value.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Frame {
    pub(crate) lead: Side,
    pub(crate) label: Side,
    pub(crate) sep: Side,
    pub(crate) mid: Side,
    pub(crate) trail: Side,
}

/// A value that both sides changed.
#[derive(Debug)]
pub(crate) struct Conflict<'a> {
    pub(crate) pointer: String,
    /// Whether only a comment is in conflict.
    pub(crate) comment: bool,
    pub(crate) base: Option<&'a str>,
    pub(crate) ours: Option<&'a str>,
    pub(crate) theirs: Option<&'a str>,
}

impl<'t, 'a> Joined<'t, 'a> {
    pub(crate) fn only(side: Side, item: &'t Item<'a>) -> Self {
        let both = (Some(item), None);
        let (ours, theirs) = match side {
            Side::Ours => both,
            Side::Theirs => (both.1, both.0),
        };
        Self {
            ours,
            theirs,
            frame: Frame {
                lead: side,
                label: side,
                sep: side,
                mid: side,
                trail: side,
            },
            plan: Plan::Take(side, &item.value),
        }
    }

    pub(crate) fn item(&self, side: Side) -> Option<&'t Item<'a>> {
        match side {
            Side::Ours => self.ours,
            Side::Theirs => self.theirs,
        }
    }
}

impl<'a> Join<'_, 'a> {
    pub(crate) fn side(&self, side: Side) -> &Container<'a> {
        match side {
            Side::Ours => self.ours,
            Side::Theirs => self.theirs,
        }
    }
}

impl Plan<'_, '_> {
    /// Returns the meaning of the merged value; `None` if a key would be
    /// duplicated.
    pub(crate) fn meaning(&self, meanings: &mut Meanings) -> Option<Meaning> {
        match self {
            Plan::Same(node) | Plan::Take(_, node) => Some(node.meaning),
            Plan::Made(_, meaning) => Some(*meaning),
            Plan::Join(join) => {
                let mut pairs = Vec::with_capacity(join.items.len());
                for joined in &join.items {
                    let item = joined.ours.or(joined.theirs)?;
                    pairs.push((&item.name, joined.plan.meaning(meanings)?));
                }
                if join.ordered {
                    Some(meanings.list(pairs.into_iter().map(|pair| pair.1)))
                } else {
                    meanings.map(pairs.into_iter())
                }
            }
        }
    }
}
