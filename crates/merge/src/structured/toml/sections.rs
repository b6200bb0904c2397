//! The tables of a TOML file, as written.
//!
//! ```text
//! a = 1          the statements before the first header: a map named ""
//! [b.c]          a map named "b/c"
//! d = 1
//! [[e]]          a list named "e", whose elements are maps:
//! f = 1            of statements, named "", …
//! [e.g]            … and of tables, named by the rest of the path after "e"
//! ```

use std::rc::Rc;

use super::lines::{Line, LineKind};
use crate::structured::node::{Builder, Container, Doc, Item, MAX_DEPTH, Node};

pub(super) fn document<'a>(
    text: &'a str,
    lines: Vec<Line<'a>>,
    builder: &mut Builder<'_>,
) -> Option<Doc<'a>> {
    let mut reader = Reader {
        text,
        lines: lines.into_iter().peekable(),
        end: 0,
        builder,
    };
    let mut items = vec![reader.statements(0)?];
    reader.tables(&[], &mut items)?;
    let end = reader.end;
    let root = builder.map(&text[..end], lines_of(items, ""))?;
    Some(Doc {
        head: "",
        root,
        tail: &text[end..],
    })
}

fn lines_of<'a>(items: Vec<Item<'a>>, head: &'a str) -> Container<'a> {
    Container {
        head,
        items,
        tail: "",
        commas: false,
    }
}

struct Reader<'a, 'b, 'm, I: Iterator<Item = Line<'a>>> {
    text: &'a str,
    lines: std::iter::Peekable<I>,
    /// The end of the last line that was read.
    end: usize,
    builder: &'b mut Builder<'m>,
}

impl<'a, I: Iterator<Item = Line<'a>>> Reader<'a, '_, '_, I> {
    fn next_if(&mut self, wanted: impl FnOnce(&Line<'a>) -> bool) -> Option<Line<'a>> {
        let line = self.lines.next_if(wanted)?;
        self.end = line.to;
        Some(line)
    }

    /// Reads the statements up to a header, as an item without a name.
    fn statements(&mut self, start: usize) -> Option<Item<'a>> {
        let mut items = Vec::new();
        while let Some(line) = self.next_if(|line| matches!(line.kind, LineKind::Statement(..))) {
            items.push(self.statement(line)?);
        }
        let value = self
            .builder
            .map(&self.text[start..self.end], lines_of(items, ""))?;
        Some(item("", "", "".into(), value))
    }

    fn statement(&self, line: Line<'a>) -> Option<Item<'a>> {
        let LineKind::Statement(value, start) = line.kind else {
            return None;
        };
        Some(Item {
            lead: &self.text[line.from..line.label.start],
            label: &self.text[line.label.clone()],
            name: line.path.join("/").into(),
            sep: &self.text[line.label.end..start],
            value,
            mid: "",
            comma: false,
            trail: &self.text[line.end..line.to],
        })
    }

    /// Reads the tables within `prefix`.
    fn tables(&mut self, prefix: &[Rc<str>], items: &mut Vec<Item<'a>>) -> Option<()> {
        if prefix.len() > MAX_DEPTH {
            return None;
        }
        let within =
            |line: &Line<'a>| line.path.len() > prefix.len() && line.path.starts_with(prefix);
        while let Some(line) = self.lines.next_if(within) {
            self.end = line.to;
            let lead = &self.text[line.from..line.label.start];
            let name: Rc<str> = line.path[prefix.len()..].join("/").into();
            items.push(match line.kind {
                LineKind::Table => {
                    let label = &self.text[line.label.clone()];
                    item(lead, label, name, self.table(&line)?)
                }
                LineKind::Element => item(lead, "", name, self.elements(line)?),
                LineKind::Statement(..) => return None,
            });
        }
        Some(())
    }

    fn table(&mut self, header: &Line<'a>) -> Option<Node<'a>> {
        let mut items = Vec::new();
        while let Some(line) = self.next_if(|line| matches!(line.kind, LineKind::Statement(..))) {
            items.push(self.statement(line)?);
        }
        let text = &self.text[header.end..self.end];
        let head = &self.text[header.end..header.to];
        self.builder.map(text, lines_of(items, head))
    }

    /// Reads consecutive elements of an array of tables.
    fn elements(&mut self, first: Line<'a>) -> Option<Node<'a>> {
        let start = first.label.start;
        let path = first.path.clone();
        let mut items = Vec::new();
        let mut next = Some(first);
        while let Some(header) = next {
            let lead = if items.is_empty() {
                header.label.start
            } else {
                header.from
            };
            let lead = &self.text[lead..header.label.start];
            let label = &self.text[header.label.clone()];
            items.push(item(lead, label, "".into(), self.element(&header)?));
            next = self.next_if(|line| matches!(line.kind, LineKind::Element) && line.path == path);
        }
        self.builder
            .list(&self.text[start..self.end], lines_of(items, ""))
    }

    fn element(&mut self, header: &Line<'a>) -> Option<Node<'a>> {
        let mut items = vec![self.statements(header.to)?];
        self.tables(&header.path, &mut items)?;
        let text = &self.text[header.end..self.end];
        let head = &self.text[header.end..header.to];
        self.builder.map(text, lines_of(items, head))
    }
}

fn item<'a>(lead: &'a str, label: &'a str, name: Rc<str>, value: Node<'a>) -> Item<'a> {
    Item {
        lead,
        label,
        name,
        sep: "",
        value,
        mid: "",
        comma: false,
        trail: "",
    }
}
