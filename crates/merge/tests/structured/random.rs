//! Documents in unusual layouts, and edits of them.

use proptest::prelude::*;

/// An entry of an object, as written.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Entry {
    pub(crate) key: String,
    pub(crate) sep: &'static str,
    pub(crate) value: String,
}

impl Entry {
    pub(crate) fn text(&self) -> String {
        format!("\"{}\"{}{}", self.key, self.sep, self.value)
    }
}

/// The separators between the entries of a document.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout {
    open: &'static str,
    between: &'static str,
    close: &'static str,
}

impl Layout {
    pub(crate) const LINES: Layout = Layout {
        open: "{\n  ",
        between: ",\n  ",
        close: "\n}\n",
    };
}

pub(crate) fn layouts() -> impl Strategy<Value = Layout> {
    let layout = |open, between, close| Layout {
        open,
        between,
        close,
    };
    prop::sample::select(vec![
        Layout::LINES,
        layout("{", ",", "}"),
        layout("{ ", ", ", " }\n"),
        layout("\u{feff}{\r\n\t", ",\r\n\t", "\r\n}"),
        layout("\n{\n    ", "\n  , ", "}\n\n"),
        layout("{\n\n ", ",\n\n ", "\n\n}"),
    ])
}

pub(crate) fn document(entries: &[Entry], layout: Layout) -> String {
    let texts: Vec<_> = entries.iter().map(Entry::text).collect();
    format!(
        "{}{}{}",
        layout.open,
        texts.join(layout.between),
        layout.close
    )
}

/// A value in one of many spellings.
pub(crate) fn values() -> impl Strategy<Value = String> {
    let scalars = prop::sample::select(vec![
        "0",
        "-0",
        "1e5",
        "1.0",
        "0.10",
        "1E-7",
        "123456789012345678901234567890",
        "true",
        "null",
        r#""""#,
        r#""a""#,
        r#""\u0061""#,
        r#""\/ \" \\ ,{}[]""#,
        r#""\ud83d\ude00""#,
        r#""é 😀""#,
    ])
    .prop_map(str::to_owned);
    scalars.prop_recursive(3, 12, 4, |inner| {
        let gap = prop::sample::select(vec!["", " ", "\n    "]);
        let list = (prop::collection::vec(inner.clone(), 0..4), gap.clone())
            .prop_map(|(list, gap)| format!("[{gap}{}{gap}]", list.join(&format!(",{gap}"))));
        let map = (prop::collection::vec(inner, 0..4), gap).prop_map(|(values, gap)| {
            let entries: Vec<_> = values
                .into_iter()
                .enumerate()
                .map(|(at, value)| format!("{gap}\"k{at}\": {value}"))
                .collect();
            format!("{{{}{gap}}}", entries.join(","))
        });
        prop_oneof![list, map]
    })
}

pub(crate) fn entries() -> impl Strategy<Value = Vec<Entry>> {
    let sep = prop::sample::select(vec![":", ": ", " : ", ":\n      "]);
    prop::collection::btree_map("[a-f/~ é]{1,3}", (sep, values()), 0..12).prop_map(|map| {
        map.into_iter()
            .map(|(key, (sep, value))| Entry { key, sep, value })
            .collect()
    })
}

/// A change of one entry.
#[derive(Clone, Debug)]
pub(crate) enum Edit {
    Keep,
    Remove,
    Change(String),
    /// Adds an entry after this one.
    Add(String),
}

impl Edit {
    pub(crate) fn any() -> impl Strategy<Value = Edit> {
        prop_oneof![
            2 => Just(Edit::Keep),
            1 => Just(Edit::Remove),
            2 => values().prop_map(Edit::Change),
            1 => values().prop_map(Edit::Add),
        ]
    }

    /// Returns the entries that replace this one.
    pub(crate) fn apply(&self, entry: &Entry, parity: usize) -> Vec<Entry> {
        match self {
            Edit::Keep => vec![entry.clone()],
            Edit::Remove => vec![],
            Edit::Change(value) => vec![Entry {
                value: value.clone(),
                ..entry.clone()
            }],
            Edit::Add(value) => vec![
                entry.clone(),
                Entry {
                    key: format!("{}+{parity}", entry.key),
                    value: value.clone(),
                    ..entry.clone()
                },
            ],
        }
    }
}
