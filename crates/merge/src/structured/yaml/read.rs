//! The values of a YAML file and the text that belongs to each.

use std::ops::Range;
use std::vec::IntoIter;

use saphyr_parser::ScalarStyle;

use super::events::{Events, YamlEvent};
use crate::structured::commas::{self, Read};
use crate::structured::gaps::Comments;
use crate::structured::node::{Builder, Container, Doc, Item, Node};

pub(super) fn document<'a>(
    text: &'a str,
    events: Events<'a>,
    builder: Builder<'_>,
) -> Option<Doc<'a>> {
    let start = events.start;
    let mut reader = Reader {
        text,
        events: events.all.into_iter(),
        builder,
    };
    let (root, at) = reader.value(start)?;
    Some(Doc {
        head: &text[..at.start],
        root,
        tail: &text[at.end..],
    })
}

/// A value and its range. The range of a block includes the comment after its
/// last item.
type Placed<'a> = (Node<'a>, Range<usize>);

struct Reader<'a, 'm> {
    text: &'a str,
    events: IntoIter<(YamlEvent<'a>, Range<usize>)>,
    builder: Builder<'m>,
}

impl<'a> Reader<'a, '_> {
    /// Reads the next value, which starts at or after `after`.
    fn value(&mut self, after: usize) -> Option<Placed<'a>> {
        let (what, at) = self.events.next()?;
        let (node, at) = match what {
            YamlEvent::Scalar(value, style) => self.scalar(&value, style, after, at)?,
            YamlEvent::MapStart if self.text[at.clone()].starts_with('{') => {
                self.flow_map(at.start)?
            }
            YamlEvent::ListStart if self.text[at.clone()].starts_with('[') => {
                self.flow_list(at.start)?
            }
            YamlEvent::MapStart => self.block_map()?,
            YamlEvent::ListStart => self.block_list(after)?,
            YamlEvent::MapEnd | YamlEvent::ListEnd => return None,
        };
        Comments::Hash
            .is_gap(self.text.get(after..at.start)?)
            .then_some((node, at))
    }

    fn scalar(
        &mut self,
        value: &str,
        style: ScalarStyle,
        after: usize,
        at: Range<usize>,
    ) -> Option<Placed<'a>> {
        let (at, kind) = match style {
            ScalarStyle::Plain if at.is_empty() => (after..after, 'p'),
            ScalarStyle::Plain => (at, 'p'),
            ScalarStyle::SingleQuoted | ScalarStyle::DoubleQuoted => (self.quoted(at)?, 's'),
            ScalarStyle::Literal | ScalarStyle::Folded => (self.block(after, at)?, 's'),
        };
        let text = self.text.get(at.clone())?;
        Some((self.builder.scalar(text, &format!("{kind}{value}"))?, at))
    }

    /// Finds the end of a quoted scalar; the parser's range may include the
    /// comment after it.
    fn quoted(&self, at: Range<usize>) -> Option<Range<usize>> {
        let bytes = self.text.as_bytes();
        let quote = bytes[at.start];
        let mut end = at.start + 1;
        while end < at.end {
            match bytes[end] {
                b'\\' if quote == b'"' => end += 2,
                byte if byte != quote => end += 1,
                _ if quote == b'\'' && bytes.get(end + 1) == Some(&quote) => end += 2,
                _ => return Some(at.start..end + 1),
            }
        }
        None
    }

    /// The range of a block scalar from its `|` or `>` to its last character;
    /// the parser's range starts at the content.
    fn block(&self, after: usize, at: Range<usize>) -> Option<Range<usize>> {
        let behind = self.text.get(after..)?;
        let start = after + (behind.len() - behind.trim_start_matches(' ').len());
        let header = self.text[start..].lines().next()?;
        let keeps = header.split('#').next()?.contains('+');
        if !header.starts_with(['|', '>']) || keeps {
            return None;
        }
        let content = self.text.get(start..at.end)?.trim_end();
        Some(start..start + content.len().max(header.trim_end().len()))
    }

    fn block_map(&mut self) -> Option<Placed<'a>> {
        let mut items: Vec<Item<'a>> = Vec::new();
        let (mut start, mut end) = (None, 0);
        loop {
            let (what, at) = self.events.next()?;
            let (name, style) = match what {
                YamlEvent::MapEnd => break,
                YamlEvent::Scalar(name, style) if !at.is_empty() => (name, style),
                _ => return None,
            };
            let label = match style {
                ScalarStyle::Plain => at,
                ScalarStyle::SingleQuoted | ScalarStyle::DoubleQuoted => self.quoted(at)?,
                ScalarStyle::Literal | ScalarStyle::Folded => return None,
            };
            let lead = match start {
                Some(_) => self.line_gap(end..label.start)?,
                None => "",
            };
            start = start.or(Some(label.start));
            let behind = &self.text[label.end..];
            let colon = behind
                .find(|c| c != ' ')
                .filter(|at| behind[*at..].starts_with(':'))?;
            let item = self.item(lead, label.clone(), label.end + colon + 1)?;
            end = item.1;
            items.push(Item {
                name: name.as_ref().into(),
                ..item.0
            });
        }
        let at = start?..end;
        let node = self.builder.map(&self.text[at.clone()], block(items))?;
        Some((node, at))
    }

    fn block_list(&mut self, after: usize) -> Option<Placed<'a>> {
        let mut items: Vec<Item<'a>> = Vec::new();
        let (mut start, mut end) = (None, after);
        while !matches!(self.events.as_slice().first()?.0, YamlEvent::ListEnd) {
            let dash = self.dash(end)?;
            let lead = match start {
                Some(_) => self.line_gap(end..dash)?,
                None => "",
            };
            start = start.or(Some(dash));
            let (item, to) = self.item(lead, dash..dash + 1, dash + 1)?;
            items.push(item);
            end = to;
        }
        self.events.next()?;
        let at = start?..end;
        let node = self.builder.list(&self.text[at.clone()], block(items))?;
        Some((node, at))
    }

    /// Reads an item whose value follows `after`, and returns it with its end.
    fn item(
        &mut self,
        lead: &'a str,
        label: Range<usize>,
        after: usize,
    ) -> Option<(Item<'a>, usize)> {
        let (value, at) = self.value(after)?;
        let line = self.text[at.end..]
            .find('\n')
            .map_or(self.text.len(), |length| at.end + length + 1);
        let (trail, _) = Comments::Hash.split_trail(&self.text[at.end..line]);
        let end = at.end + trail.len();
        let item = Item {
            lead,
            label: &self.text[label.clone()],
            name: "".into(),
            sep: &self.text[label.end..at.start],
            value,
            mid: "",
            comma: false,
            trail,
        };
        Some((item, end))
    }

    /// Finds the next dash after white space and comments.
    fn dash(&self, after: usize) -> Option<usize> {
        let mut at = after;
        loop {
            let behind = self.text.get(at..)?;
            at += behind.find(|c| !matches!(c, ' ' | '\r' | '\n'))?;
            match self.text.as_bytes()[at] {
                b'-' => return Some(at),
                b'#' => at += self.text[at..].find('\n')?,
                _ => return None,
            }
        }
    }

    fn line_gap(&self, at: Range<usize>) -> Option<&'a str> {
        let gap = self.text.get(at)?;
        (gap.contains('\n') && Comments::Hash.is_gap(gap)).then_some(gap)
    }

    fn flow_map(&mut self, start: usize) -> Option<Placed<'a>> {
        let mut read = Vec::new();
        loop {
            let (what, at) = self.events.next()?;
            let (name, style) = match what {
                YamlEvent::MapEnd => {
                    let (inside, at) = self.flow(start, at.start, '}', read)?;
                    return Some((self.builder.map(&self.text[at.clone()], inside)?, at));
                }
                YamlEvent::Scalar(name, style) if !at.is_empty() => (name, style),
                _ => return None,
            };
            let label = match style {
                ScalarStyle::Plain => at,
                _ => self.quoted(at)?,
            };
            let behind = &self.text[label.end..];
            let colon = behind
                .find(|c| c != ' ')
                .filter(|at| behind[*at..].starts_with(':'))?;
            let after = label.end + colon + 1;
            let (value, at) = self.value(after)?;
            if at.is_empty() {
                return None;
            }
            read.push(Read {
                label,
                name: name.as_ref().into(),
                value,
                at,
            });
        }
    }

    fn flow_list(&mut self, start: usize) -> Option<Placed<'a>> {
        let mut read: Vec<Read<'a>> = Vec::new();
        loop {
            let (what, at) = self.events.as_slice().first()?;
            if *what == YamlEvent::ListEnd {
                let end = at.start;
                self.events.next()?;
                let (inside, at) = self.flow(start, end, ']', read)?;
                return Some((self.builder.list(&self.text[at.clone()], inside)?, at));
            }
            // Pairs without braces have an empty range.
            if at.is_empty() {
                return None;
            }
            let (value, at) = self.value(at.start)?;
            read.push(Read {
                label: at.start..at.start,
                name: "".into(),
                value,
                at,
            });
        }
    }

    fn flow(
        &self,
        start: usize,
        end: usize,
        close: char,
        read: Vec<Read<'a>>,
    ) -> Option<(Container<'a>, Range<usize>)> {
        if !self.text[end..].starts_with(close) {
            return None;
        }
        let inside = commas::container(self.text, Comments::Hash, start..end + 1, read);
        let gaps = inside.items.iter().all(|item| {
            [item.lead, item.mid, item.trail]
                .into_iter()
                .all(|gap| Comments::Hash.is_gap(gap))
        });
        gaps.then_some((inside, start..end + 1))
    }
}

fn block(items: Vec<Item<'_>>) -> Container<'_> {
    Container {
        head: "",
        items,
        tail: "",
        commas: false,
    }
}
