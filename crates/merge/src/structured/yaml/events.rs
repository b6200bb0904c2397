//! The events of a YAML file, with byte ranges.

use std::borrow::Cow;
use std::ops::Range;

use saphyr_parser::{Event, Parser, ScalarStyle, Tag};

use crate::structured::node::{MAX_DEPTH, MAX_NODES};

/// An event of a file without anchors, aliases and tags.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum YamlEvent<'a> {
    Scalar(Cow<'a, str>, ScalarStyle),
    MapStart,
    MapEnd,
    ListStart,
    ListEnd,
}

#[derive(Debug)]
pub(super) struct Events<'a> {
    /// The end of the text before the document: a directive and `---`, if any.
    pub(super) start: usize,
    pub(super) all: Vec<(YamlEvent<'a>, Range<usize>)>,
}

/// Reads the events of a file with exactly one document.
pub(super) fn read(text: &str) -> Option<Events<'_>> {
    let offsets = Offsets::of(text);
    let mut events = Events {
        start: 0,
        all: Vec::new(),
    };
    let (mut documents, mut depth) = (0, 0usize);
    let mut parser = Parser::new_from_str(text);
    while let Some(event) = parser.next_event() {
        let (event, span) = event.ok()?;
        let at = offsets.byte(span.start.index())?..offsets.byte(span.end.index())?;
        let what = match event {
            Event::Nothing | Event::StreamStart | Event::StreamEnd | Event::DocumentEnd => continue,
            Event::DocumentStart(explicit) => {
                documents += 1;
                events.start = if explicit { at.end } else { 0 };
                continue;
            }
            Event::Scalar(value, style, anchor, tag) => {
                unadorned(anchor, tag)?;
                YamlEvent::Scalar(value, style)
            }
            Event::SequenceStart(anchor, tag) => {
                unadorned(anchor, tag)?;
                YamlEvent::ListStart
            }
            Event::MappingStart(anchor, tag) => {
                unadorned(anchor, tag)?;
                YamlEvent::MapStart
            }
            Event::SequenceEnd => YamlEvent::ListEnd,
            Event::MappingEnd => YamlEvent::MapEnd,
            Event::Alias(_) => return None,
        };
        match what {
            YamlEvent::MapStart | YamlEvent::ListStart => depth += 1,
            YamlEvent::MapEnd | YamlEvent::ListEnd => depth = depth.saturating_sub(1),
            YamlEvent::Scalar(..) => {}
        }
        if depth > MAX_DEPTH || events.all.len() > 2 * MAX_NODES {
            return None;
        }
        events.all.push((what, at));
    }
    (documents == 1).then_some(events)
}

fn unadorned(anchor: usize, tag: Option<Cow<'_, Tag>>) -> Option<()> {
    (anchor == 0 && tag.is_none()).then_some(())
}

/// Converts the positions of the parser, which counts characters, into byte
/// offsets.
enum Offsets {
    /// Every character is one byte.
    Ascii(usize),
    Of(Vec<u32>),
}

impl Offsets {
    fn of(text: &str) -> Self {
        if text.is_ascii() {
            return Offsets::Ascii(text.len());
        }
        let starts = text.char_indices().map(|(at, _)| at as u32);
        Offsets::Of(starts.chain([text.len() as u32]).collect())
    }

    fn byte(&self, character: usize) -> Option<usize> {
        match self {
            Offsets::Ascii(length) => Some(character).filter(|at| at <= length),
            Offsets::Of(starts) => starts.get(character).map(|at| *at as usize),
        }
    }
}
