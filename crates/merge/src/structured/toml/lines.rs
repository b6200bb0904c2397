//! The sequence of headers and statements of a TOML file.

use std::ops::Range;
use std::rc::Rc;

use toml_parser::decoder::ScalarKind;
use toml_parser::parser::{Event, EventKind, RecursionGuard, parse_document};
use toml_parser::{ParseError, Raw, Source};

use crate::structured::commas::{self, Read};
use crate::structured::gaps::Comments;
use crate::structured::node::{Builder, MAX_DEPTH, Node};

/// A header or a statement: `[a.b]`, `[[a.b]]` or `a.b = 1`.
#[derive(Debug)]
pub(super) struct Line<'a> {
    /// The steps of the key, escaped for a JSON pointer.
    pub(super) path: Vec<Rc<str>>,
    /// The start of the text that belongs to the line: the end of the line
    /// before.
    pub(super) from: usize,
    /// The header, or the key of the statement.
    pub(super) label: Range<usize>,
    pub(super) kind: LineKind<'a>,
    /// The end without the trailing comment (`end`), and with it (`to`).
    pub(super) end: usize,
    pub(super) to: usize,
}

#[derive(Debug)]
pub(super) enum LineKind<'a> {
    Table,
    /// An element of an array of tables.
    Element,
    /// A statement, and the start of its value.
    Statement(Node<'a>, usize),
}

/// Parses a file; `None` if it is not valid TOML.
pub(super) fn read<'a>(text: &'a str, builder: &mut Builder<'_>) -> Option<Vec<Line<'a>>> {
    let source = Source::new(text);
    let mut events = Vec::new();
    let mut error: Option<ParseError> = None;
    let mut receive = |event: Event| match event.kind() {
        EventKind::Whitespace | EventKind::Comment | EventKind::Newline => {}
        EventKind::ValueSep => {}
        _ => events.push(event),
    };
    let mut receiver = RecursionGuard::new(&mut receive, MAX_DEPTH as u32);
    parse_document(&source.lex().into_vec(), &mut receiver, &mut error);
    if error.is_some() {
        return None;
    }
    let mut reader = Reader {
        source,
        text,
        events: events.into_iter(),
        builder,
    };
    let mut lines = Vec::new();
    while let Some(event) = reader.events.next() {
        lines.push(reader.line(event)?);
    }
    finish(text, &mut lines);
    Some(lines)
}

/// Assigns the text between the lines to one of them.
fn finish(text: &str, lines: &mut [Line<'_>]) {
    let mut from = 0;
    for at in 0..lines.len() {
        let next = lines
            .get(at + 1)
            .map_or(text.len(), |next| next.label.start);
        let line = &mut lines[at];
        let (trail, _) = Comments::Hash.split_trail(&text[line.end..next]);
        line.from = from;
        line.to = line.end + trail.len();
        from = line.to;
    }
}

struct Reader<'a, 'b, 'm, I> {
    source: Source<'a>,
    text: &'a str,
    events: I,
    builder: &'b mut Builder<'m>,
}

impl<'a, I: Iterator<Item = Event>> Reader<'a, '_, '_, I> {
    fn line(&mut self, first: Event) -> Option<Line<'a>> {
        let (path, label, kind, end) = match first.kind() {
            EventKind::StdTableOpen | EventKind::ArrayTableOpen => {
                let key = self.events.next()?;
                let (path, _, close) = self.key(key)?;
                let kind = match close.kind() {
                    EventKind::StdTableClose => LineKind::Table,
                    EventKind::ArrayTableClose => LineKind::Element,
                    _ => return None,
                };
                let end = close.span().end();
                (path, first.span().start()..end, kind, end)
            }
            _ => {
                let (path, label, _) = self.key(first)?;
                let value = self.events.next()?;
                let (node, at) = self.value(value)?;
                (path, label, LineKind::Statement(node, at.start), at.end)
            }
        };
        Some(Line {
            path,
            from: 0,
            label,
            kind,
            end,
            to: end,
        })
    }

    /// Reads a key of one or more steps, and returns it with the event after
    /// it.
    fn key(&mut self, mut event: Event) -> Option<(Vec<Rc<str>>, Range<usize>, Event)> {
        let mut path = Vec::new();
        let start = event.span().start();
        loop {
            if event.kind() != EventKind::SimpleKey {
                return None;
            }
            let mut key = String::new();
            let mut error: Option<ParseError> = None;
            self.raw(event)?.decode_key(&mut key, &mut error);
            if error.is_some() || path.len() == MAX_DEPTH {
                return None;
            }
            path.push(key.replace('~', "~0").replace('/', "~1").into());
            let end = event.span().end();
            event = self.events.next()?;
            if event.kind() != EventKind::KeySep {
                return Some((path, start..end, event));
            }
            event = self.events.next()?;
        }
    }

    fn raw(&self, event: Event) -> Option<Raw<'a>> {
        self.source.get(event)
    }

    fn value(&mut self, event: Event) -> Option<(Node<'a>, Range<usize>)> {
        let start = event.span().start();
        match event.kind() {
            EventKind::Scalar => {
                let at = start..event.span().end();
                let meaning = scalar(self.raw(event)?)?;
                let node = self.builder.scalar(&self.text[at.clone()], &meaning)?;
                Some((node, at))
            }
            EventKind::ArrayOpen => {
                let mut read = Vec::new();
                loop {
                    let next = self.events.next()?;
                    if next.kind() == EventKind::ArrayClose {
                        let at = start..next.span().end();
                        let inside = commas::container(self.text, Comments::Hash, at.clone(), read);
                        let node = self.builder.list(&self.text[at.clone()], inside)?;
                        return Some((node, at));
                    }
                    let (value, at) = self.value(next)?;
                    read.push(Read {
                        label: at.start..at.start,
                        name: "".into(),
                        value,
                        at,
                    });
                }
            }
            EventKind::InlineTableOpen => {
                let mut read = Vec::new();
                loop {
                    let next = self.events.next()?;
                    if next.kind() == EventKind::InlineTableClose {
                        let at = start..next.span().end();
                        let inside = commas::container(self.text, Comments::Hash, at.clone(), read);
                        let node = self.builder.map(&self.text[at.clone()], inside)?;
                        return Some((node, at));
                    }
                    let (path, label, _) = self.key(next)?;
                    let value = self.events.next()?;
                    let (value, at) = self.value(value)?;
                    read.push(Read {
                        label,
                        name: path.join("/").into(),
                        value,
                        at,
                    });
                }
            }
            _ => None,
        }
    }
}

/// Writes a scalar in a canonical spelling.
fn scalar(raw: Raw<'_>) -> Option<String> {
    let mut text = String::new();
    let mut error: Option<ParseError> = None;
    let kind = raw.decode_scalar(&mut text, &mut error);
    if error.is_some() {
        return None;
    }
    Some(match kind {
        ScalarKind::String => format!("s{text}"),
        ScalarKind::Boolean(truth) => format!("b{truth}"),
        ScalarKind::DateTime => format!("d{text}"),
        ScalarKind::Float => format!("f{:?}", text.parse::<f64>().ok()?),
        ScalarKind::Integer(radix) => {
            format!("i{}", i64::from_str_radix(&text, radix.value()).ok()?)
        }
    })
}
