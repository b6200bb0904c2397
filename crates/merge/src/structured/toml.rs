//! Merges TOML by key.

mod lines;
mod sections;

use toml::{Table, Value};

use super::gaps::Comments;
use super::node::{Builder, Container, Doc, Item, Meanings, Node};
use super::plan::Plan;
use super::planner::Planner;
use super::render::Style;
use super::{Format, Texts, extension, merge_by_key};
use crate::driver::{Driver, Merged, Versions};

/// Merges TOML by key, as [`Json`](crate::Json) does for JSON: by moving pieces
/// of text, comments included.
///
/// Tables are compared as written: a table is identified by its header, and a
/// statement by its table and its key. The result is then parsed as TOML, and
/// rejected if its value differs from a merge of the values by key, which can
/// happen where one side wrote a table in another style. Files of more than 1
/// MiB are rejected as well.
#[derive(Clone, Copy, Debug, Default)]
pub struct Toml;

const MAX_BYTES: usize = 1 << 20;

impl Driver for Toml {
    fn name(&self) -> &'static str {
        "toml"
    }

    fn claims(&self, file_name: &[u8]) -> bool {
        extension(file_name, "toml")
    }

    fn merge(&self, versions: &Versions<'_>) -> Merged {
        merge_by_key(self, versions)
    }
}

impl Format for Toml {
    const STYLE: Style = Style {
        comments: Comments::Hash,
        reindents: false,
        dashes: false,
        paths: true,
        comments_conflict: true,
    };

    fn parse<'a>(text: &'a str, meanings: &mut Meanings) -> Option<Doc<'a>> {
        if text.len() > MAX_BYTES {
            return None;
        }
        let mut builder = Builder::new(meanings);
        let lines = lines::read(text, &mut builder)?;
        sections::document(text, lines, &mut builder)
    }

    fn confirms(texts: &Texts<'_>, merged: &str, clean: bool) -> bool {
        confirmed(texts, merged, clean).unwrap_or(false)
    }

    fn disputes(texts: &Texts<'_>) -> bool {
        let mut meanings = Meanings::default();
        Values::read(texts, &mut meanings).is_some_and(|values| !values.merge().1)
    }
}

/// The versions as values, without their texts.
struct Values {
    base: Option<Node<'static>>,
    ours: Node<'static>,
    theirs: Node<'static>,
}

impl Values {
    fn read(texts: &Texts<'_>, meanings: &mut Meanings) -> Option<Self> {
        let base = match texts.base {
            Some(text) => Some(read(text, meanings)?),
            None => None,
        };
        Some(Self {
            base,
            ours: read(texts.ours, meanings)?,
            theirs: read(texts.theirs, meanings)?,
        })
    }

    /// Returns the merged value, and whether it is free of conflicts.
    fn merge(&self) -> (Plan<'_, 'static>, bool) {
        let mut planner = Planner::new(Style {
            paths: false,
            ..Toml::STYLE
        });
        let plan = planner.node(self.base.as_ref(), &self.ours, &self.theirs);
        (plan, planner.is_clean())
    }
}

/// Whether the value of the merged text equals the merge of the values.
fn confirmed(texts: &Texts<'_>, merged: &str, clean: bool) -> Option<bool> {
    let mut meanings = Meanings::default();
    let values = Values::read(texts, &mut meanings)?;
    let merged = read(merged, &mut meanings)?.meaning;
    let (plan, agreed) = values.merge();
    Some((agreed || !clean) && plan.meaning(&mut meanings)? == merged)
}

fn read(text: &str, meanings: &mut Meanings) -> Option<Node<'static>> {
    let table: Table = text.parse().ok()?;
    value(&Value::Table(table), &mut Builder::new(meanings))
}

/// Converts a value, without its text.
fn value(value: &Value, builder: &mut Builder<'_>) -> Option<Node<'static>> {
    let container = |items| Container {
        head: "",
        items,
        tail: "",
        commas: false,
    };
    match value {
        Value::String(text) => builder.scalar("", &format!("s{text}")),
        Value::Integer(number) => builder.scalar("", &format!("i{number}")),
        Value::Float(number) => builder.scalar("", &format!("f{number:?}")),
        Value::Boolean(truth) => builder.scalar("", &format!("b{truth}")),
        Value::Datetime(time) => builder.scalar("", &format!("d{time}")),
        Value::Array(list) => {
            let items: Option<_> = list.iter().map(|inner| item("", inner, builder)).collect();
            builder.list("", container(items?))
        }
        Value::Table(table) => {
            let entries = table.iter();
            let items: Option<_> = entries
                .map(|(key, inner)| item(key, inner, builder))
                .collect();
            builder.map("", container(items?))
        }
    }
}

fn item(key: &str, inner: &Value, builder: &mut Builder<'_>) -> Option<Item<'static>> {
    Some(Item {
        lead: "",
        label: "",
        name: key.into(),
        sep: "",
        value: value(inner, builder)?,
        mid: "",
        comma: false,
        trail: "",
    })
}
