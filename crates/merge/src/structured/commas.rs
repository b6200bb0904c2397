//! Builds containers that have brackets, and commas between their items.

use std::ops::Range;
use std::rc::Rc;

use super::gaps::Comments;
use super::node::{Container, Item, Node};

/// A parsed item, before the text around it is assigned.
#[derive(Debug)]
pub(crate) struct Read<'a> {
    /// The range of the key. In a list, an empty range at the start of the
    /// value.
    pub(crate) label: Range<usize>,
    pub(crate) name: Rc<str>,
    pub(crate) value: Node<'a>,
    pub(crate) at: Range<usize>,
}

/// Creates a container: assigns the text between the items to one of them, or
/// to the container. `range` spans the container with its brackets.
pub(crate) fn container<'a>(
    text: &'a str,
    comments: Comments,
    range: Range<usize>,
    read: Vec<Read<'a>>,
) -> Container<'a> {
    let close = range.end - 1;
    let first = read.first().map_or(close, |item| item.label.start);
    let (_, mut lead) = comments.split_trail(&text[range.start + 1..first]);
    let head = &text[range.start..first - lead.len()];
    let mut items = Vec::with_capacity(read.len());
    let mut read = read.into_iter().peekable();
    while let Some(item) = read.next() {
        let next = read.peek().map_or(close, |next| next.label.start);
        let gap = &text[item.at.end..next];
        let (mid, comma, rest) = match comments.split_comma(gap) {
            Some((mid, rest)) => (mid, true, rest),
            None => ("", false, gap),
        };
        let (trail, after) = comments.split_trail(rest);
        items.push(Item {
            lead,
            label: &text[item.label.clone()],
            name: item.name,
            sep: &text[item.label.end..item.at.start],
            value: item.value,
            mid,
            comma,
            trail,
        });
        lead = after;
    }
    Container {
        head,
        items,
        tail: &text[close - lead.len()..range.end],
        commas: true,
    }
}
