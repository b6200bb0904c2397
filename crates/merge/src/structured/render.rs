//! Writes a merged file out of the bytes of both sides.

use std::borrow::Cow;

use super::gaps::{Comments, Shift, indent};
use super::node::{Container, Doc, Item, Kind, Side};
use super::plan::{Docs, Join, Joined, Plan, Planned};

/// The syntax of a format, beyond the content of its nodes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Style {
    pub(crate) comments: Comments,
    /// Whether moved text may be reindented; false for TOML, whose strings may
    /// span lines.
    pub(crate) reindents: bool,
    /// Whether the items of a list begin with a dash, which indents them.
    pub(crate) dashes: bool,
    /// Whether a key is a path of any number of steps, written as a JSON
    /// pointer without its first slash.
    pub(crate) paths: bool,
    /// Whether a comment that both sides changed is a conflict.
    pub(crate) comments_conflict: bool,
}

pub(crate) fn render<'a>(docs: &Docs<'_, 'a>, planned: &Planned<'_, 'a>, style: Style) -> String {
    let habits = [docs.ours, docs.theirs].map(Habits::of);
    let length = docs.ours.root.text.len() + docs.theirs.root.text.len();
    let mut out = Out {
        text: String::with_capacity(length),
        open: false,
        style,
        habits,
    };
    let of = |side| match side {
        Side::Ours => docs.ours,
        Side::Theirs => docs.theirs,
    };
    out.gap(of(planned.head).head);
    match &planned.root {
        Plan::Take(_, node) => out.write(node.text),
        root => {
            let here = of(planned.head).head;
            out.plan(root, &Place::of([docs.ours.head, docs.theirs.head], here));
        }
    }
    out.gap(of(planned.tail).tail);
    out.text
}

/// The layout of one side.
#[derive(Clone, Copy, Debug)]
struct Habits<'a> {
    unit: &'a str,
    /// The line ending; `None` if line endings are mixed, or there are none.
    eol: Option<&'static str>,
}

impl<'a> Habits<'a> {
    fn of(doc: &Doc<'a>) -> Self {
        let lead = match &doc.root.kind {
            Kind::Map(inside) | Kind::List(inside) => inside.items.first().map(|item| item.lead),
            Kind::Scalar(_) => None,
        };
        let ends = [doc.head, doc.root.text, doc.tail].map(|text| {
            let crlf = text.matches("\r\n").count();
            (crlf, text.matches('\n').count() - crlf)
        });
        let (crlf, lf) = ends
            .into_iter()
            .fold((0, 0), |sum, end| (sum.0 + end.0, sum.1 + end.1));
        let eol = match (crlf, lf) {
            (0, 1..) => Some("\n"),
            (1.., 0) => Some("\r\n"),
            _ => None,
        };
        Self {
            unit: lead.and_then(indent).unwrap_or_default(),
            eol,
        }
    }
}

/// The indentation around the current value: in ours, in theirs, and in the
/// result, which follows the layout of one side.
#[derive(Clone, Copy, Debug)]
struct Place<'s> {
    /// The indentation in ours and in theirs; `None` where it is unknown.
    sides: [Option<&'s str>; 2],
    here: &'s str,
    like: Side,
}

impl<'s> Place<'s> {
    /// Returns the place after the heads of the files.
    fn of(heads: [&'s str; 2], here: &'s str) -> Self {
        let line = |head: &'s str| match indent(head) {
            Some(indent) => indent,
            None if head.trim_matches(' ').is_empty() => head,
            None => "",
        };
        Self {
            sides: heads.map(|head| Some(line(head))),
            here: line(here),
            like: Side::Ours,
        }
    }
}

/// The layout of the items of a merged container, taken from one side.
#[derive(Debug)]
struct Layout<'a> {
    side: Side,
    first: &'a str,
    other: &'a str,
}

struct Out<'a> {
    text: String,
    /// Whether the text ends in a line comment without its newline.
    open: bool,
    style: Style,
    habits: [Habits<'a>; 2],
}

impl<'a> Out<'a> {
    fn gap(&mut self, gap: &str) {
        if !gap.is_empty() {
            self.write(gap);
            self.open = self.style.comments.ends_open(gap);
        }
    }

    fn write(&mut self, text: &str) {
        if self.open && !text.is_empty() {
            if !text.starts_with('\n') && !text.starts_with("\r\n") {
                self.text.push_str(self.habits[0].eol.unwrap_or("\n"));
            }
            self.open = false;
        }
        self.text.push_str(text);
    }

    fn plan(&mut self, plan: &Plan<'_, 'a>, place: &Place<'_>) {
        match plan {
            Plan::Same(node) => self.write(node.text),
            Plan::Take(side, node) => {
                let moved = self.shift(*side, place).apply(node.text);
                self.write(&moved);
            }
            Plan::Made(text, _) => self.write(text),
            Plan::Join(join) => self.join(join, place),
        }
    }

    /// Returns the adjustments to text that moves from its place in one side to
    /// its place in the result.
    fn shift<'s>(&self, side: Side, place: &Place<'s>) -> Shift<'s>
    where
        'a: 's,
    {
        let (Some(from), true) = (place.sides[side as usize], self.style.reindents) else {
            return Shift::NONE;
        };
        if side == place.like && (!self.style.dashes || from == place.here) {
            return Shift::NONE;
        }
        let (there, here) = (self.habits[side as usize], self.habits[place.like as usize]);
        let unit = Some((there.unit, here.unit))
            .filter(|(there, here)| !there.is_empty() && !here.is_empty());
        Shift {
            indent: (from, place.here),
            unit: unit.unwrap_or_default(),
            eol: there.eol.zip(here.eol).unwrap_or_default(),
        }
    }

    fn join(&mut self, join: &Join<'_, 'a>, place: &Place<'_>) {
        let layout = self.layout(join);
        let trailing = trailing_comma(join);
        self.gap(join.side(join.head).head);
        let last = join.items.len().wrapping_sub(1);
        for (at, joined) in join.items.iter().enumerate() {
            let comma = join.ours.commas && (at != last || trailing);
            self.item(join, joined, at == 0, comma, &layout, place);
        }
        self.gap(join.side(join.tail).tail);
    }

    /// Takes the layout of the side that changed it; ours if both did.
    fn layout(&self, join: &Join<'_, 'a>) -> Layout<'a> {
        let way = |container: &Container<'a>| container.items.first().map(|item| indent(item.lead));
        let unchanged = join.base.is_some_and(|base| way(base) == way(join.ours));
        let side = if join.ours.items.is_empty() || (unchanged && !join.theirs.items.is_empty()) {
            Side::Theirs
        } else {
            Side::Ours
        };
        let container = join.side(side);
        let first = container.items.first().map_or("", |item| item.lead);
        // If a side has a single item, it does not show the text before a
        // second item, so the second item of the other side is used.
        let alike = if way(join.ours) == way(join.theirs) {
            [container, join.ours, join.theirs]
        } else {
            [container; 3]
        };
        let first = self.bare(first);
        let other = match alike.iter().find_map(|side| side.items.get(1)) {
            Some(item) => self.bare(item.lead),
            None => second_lead(container, first),
        };
        Layout { side, first, other }
    }

    /// A lead without its comments.
    fn bare<'g>(&self, lead: &'g str) -> &'g str {
        if !self.style.comments.has_any(lead) {
            return lead;
        }
        let line = lead.rfind('\n').unwrap_or(lead.len());
        if self.style.comments.has_any(&lead[line..]) {
            return "";
        }
        let start = if lead[..line].ends_with('\r') {
            line - 1
        } else {
            line
        };
        &lead[start..]
    }

    fn item(
        &mut self,
        join: &Join<'_, 'a>,
        joined: &Joined<'_, 'a>,
        first: bool,
        comma: bool,
        layout: &Layout<'a>,
        around: &Place<'_>,
    ) {
        let (lead, like) = self.lead(join, joined, first, layout, around);
        let label = joined
            .item(joined.frame.label)
            .map_or("", |item| item.label);
        let sides = [joined.ours, joined.theirs];
        let place = if self.is_block(join) {
            Place { like, ..*around }
        } else {
            Place {
                sides: sides.map(|item| indent(item?.lead)),
                here: indent(&lead).unwrap_or(around.here),
                like,
            }
        };
        self.gap(&lead);
        let frame = joined.frame;
        self.write(label);
        let sep = joined.item(frame.sep).map_or("", |item| item.sep);
        let sep = self.shift(frame.sep, &place).apply(sep);
        self.gap(&sep);
        let inner: [Option<String>; 2] =
            [0, 1].map(|side: usize| Some(self.inner(sides[side]?, place.sides[side]?)));
        let here = match joined.item(frame.sep) {
            Some(item) => self.inner_of(item, &sep, place.here),
            None => place.here.to_owned(),
        };
        let inside = Place {
            sides: [inner[0].as_deref(), inner[1].as_deref()],
            here: &here,
            like,
        };
        self.plan(&joined.plan, &inside);
        self.gap(joined.item(frame.mid).map_or("", |item| item.mid));
        if comma {
            self.write(",");
        }
        self.gap(joined.item(frame.trail).map_or("", |item| item.trail));
    }

    /// Returns the text before a statement or header. Adds a newline if the
    /// item would otherwise continue the line before it: the first item of a
    /// file has no newline in its lead.
    fn line_lead<'l>(&self, item: &'l Item<'a>) -> Cow<'l, str> {
        let text = if item.label.is_empty() {
            item.value.text
        } else {
            item.label
        };
        let lead = item.lead;
        if self.text.is_empty() {
            return Cow::Borrowed(lead.trim_start_matches(['\r', '\n']));
        }
        let line = lead.split('\n').next().unwrap_or_default();
        let parted = lead.contains('\n') && line.trim().is_empty();
        if parted
            || self.text.ends_with('\n')
            || text.trim_start_matches(' ').is_empty()
            || text.starts_with(['\r', '\n'])
        {
            return Cow::Borrowed(lead);
        }
        let eol = self.habits[0].eol.unwrap_or("\n");
        let blank = if text.starts_with('[') { eol } else { "" };
        Cow::Owned([eol, blank, lead].concat())
    }

    /// The indentation inside an item.
    fn inner(&self, item: &Item<'a>, around: &str) -> String {
        self.inner_of(item, item.sep, around)
    }

    fn inner_of(&self, item: &Item<'a>, sep: &str, around: &str) -> String {
        match indent(sep) {
            Some(deeper) => deeper.to_owned(),
            None if self.style.dashes && item.label == "-" => {
                let width = around.len() + item.label.len() + sep.len();
                format!("{around:width$}")
            }
            None => around.to_owned(),
        }
    }

    /// Whether indentation ends the container. All its items then have the same
    /// indentation, and the first item starts where the container starts.
    fn is_block(&self, join: &Join<'_, 'a>) -> bool {
        self.style.dashes && !join.ours.commas
    }

    fn block_lead<'l>(
        &self,
        item: &'l Item<'a>,
        side: Side,
        first: bool,
        was_first: bool,
        around: &Place<'_>,
    ) -> Cow<'l, str> {
        match (first, was_first) {
            (true, _) => Cow::Borrowed(item.lead.trim_start_matches([' ', '\r', '\n'])),
            (false, true) => {
                let eol = self.habits[side as usize].eol.unwrap_or("\n");
                Cow::Owned([eol, around.here].concat())
            }
            (false, false) => {
                let place = Place {
                    like: side,
                    ..*around
                };
                self.shift(side, &place).apply(item.lead)
            }
        }
    }

    /// Returns the text before an item, and the side whose layout it follows.
    /// The text is unchanged unless the item moved.
    fn lead<'l>(
        &self,
        join: &Join<'_, 'a>,
        joined: &Joined<'l, 'a>,
        first: bool,
        layout: &'l Layout<'a>,
        around: &Place<'_>,
    ) -> (Cow<'l, str>, Side) {
        let side = joined.frame.lead;
        let Some(item) = joined.item(side) else {
            return (Cow::Borrowed(""), around.like);
        };
        let was_first = std::ptr::eq(item, &raw const join.side(side).items[0]);
        if self.style.paths && !join.ours.commas {
            return (self.line_lead(item), side);
        }
        if self.is_block(join) {
            return (self.block_lead(item, side, first, was_first, around), side);
        }
        let alone = joined.ours.is_none() || joined.theirs.is_none();
        let foreign = alone && side != layout.side;
        let own = indent(item.lead);
        let wanted = if first { layout.first } else { layout.other };
        let misplaced = (first != was_first && (first || own.is_none()))
            || (foreign && own.is_some() != indent(wanted).is_some());
        if misplaced && !self.style.comments.has_any(item.lead) {
            // An item that is not on its own line has no known indentation.
            let known = own.is_some() || !join.ours.commas;
            return (
                Cow::Borrowed(wanted),
                if known { layout.side } else { side },
            );
        }
        let (Some(own), Some(wanted), true) = (own, indent(wanted), foreign) else {
            let like = if own.is_some() { side } else { around.like };
            return (Cow::Borrowed(item.lead), like);
        };
        let mut place = Place {
            here: wanted,
            like: layout.side,
            ..*around
        };
        place.sides[side as usize] = Some(own);
        let lead = self.shift(side, &place).apply(item.lead).into_owned();
        (Cow::Owned(lead), layout.side)
    }
}

fn trailing_comma(join: &Join<'_, '_>) -> bool {
    let ours = join.ours.ends_with_comma();
    let theirs = join.theirs.ends_with_comma();
    let base = join.base.and_then(Container::ends_with_comma);
    let chosen = if base.is_some() && ours == base {
        theirs
    } else {
        ours
    };
    chosen.or(ours).or(theirs).unwrap_or(false)
}

/// Returns the text to write before a second item of a container that has only
/// one item.
fn second_lead<'a>(container: &Container<'a>, first: &'a str) -> &'a str {
    let spaced = container
        .items
        .first()
        .is_some_and(|item| item.sep.ends_with(' ') || item.label.is_empty());
    match (indent(first), container.commas, spaced) {
        (Some(_), ..) => first,
        (None, false, _) => "\n",
        (None, true, true) => " ",
        (None, true, false) => "",
    }
}
