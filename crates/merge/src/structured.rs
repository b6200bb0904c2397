//! Merges files by structure, in formats whose values have names.
//!
//! ```text
//! base   ─┐ parse        plan            render         parse again
//! ours   ─┼───────► Doc ──────► Planned ────────► text ─────────────► Merged
//! theirs ─┘
//! ```
//!
//! | step | modules | result |
//! |---|---|---|
//! | parse | `json`, `yaml`, `toml`; `commas` for containers in brackets | a [`Doc`] of each version: a tree that keeps every byte of its text (`node`) |
//! | plan | `planner`; `order` for keys, `lists` for elements; `crdt` for files without conflicts | the side that each part of the result comes from, and the conflicts (`plan`) |
//! | render | `render`; `gaps` for white space and comments | a text of pieces of both sides |
//! | parse again | as in the first step | a clean result only if the text has the planned meaning; otherwise the next driver merges the file |
//!
//! Values are never reformatted, so unchanged text keeps its spelling.

mod commas;
mod crdt;
mod gaps;
mod json;
mod lists;
mod node;
mod order;
mod plan;
mod planner;
mod render;
mod toml;
mod yaml;

pub use crdt::Crdt;
pub use json::Json;
pub use toml::Toml;
pub use yaml::Yaml;

use std::str::from_utf8;

use crate::driver::{Conflicted, Hunk, Merged, Place, Versions};
use node::{Doc, Meanings};
use plan::{Conflict, Docs, Plan};
use planner::Planner;
use render::{Style, render};

/// A syntax for values that have names.
trait Format {
    const STYLE: Style;

    /// Parses a file; `None` if it is not in this format or exceeds its limits.
    fn parse<'a>(text: &'a str, meanings: &mut Meanings) -> Option<Doc<'a>>;

    /// Whether the merged text has the planned meaning, for formats in which
    /// the parsed tree alone does not show this.
    fn confirms(_texts: &Texts<'_>, _merged: &str, _clean: bool) -> bool {
        true
    }

    /// Whether the versions conflict in meaning. If not, they differ only in
    /// spelling, and the file is left to the next driver.
    fn disputes(_texts: &Texts<'_>) -> bool {
        true
    }
}

/// The versions as text.
#[derive(Clone, Copy, Debug)]
struct Texts<'a> {
    base: Option<&'a str>,
    ours: &'a str,
    theirs: &'a str,
}

impl<'a> Texts<'a> {
    fn of(versions: &Versions<'a>) -> Option<Self> {
        Some(Self {
            base: versions.base.map(from_utf8).transpose().ok()?,
            ours: from_utf8(versions.ours).ok()?,
            theirs: from_utf8(versions.theirs).ok()?,
        })
    }
}

/// Returns the other side, if one side is unchanged.
fn one_changed(versions: &Versions<'_>) -> Option<Merged> {
    if versions.base == Some(versions.ours) {
        Some(Merged::Clean(versions.theirs.to_vec()))
    } else if versions.base == Some(versions.theirs) {
        Some(Merged::Clean(versions.ours.to_vec()))
    } else {
        None
    }
}

/// Merges a file key by key.
fn merge_by_key<F: Format>(_format: &F, versions: &Versions<'_>) -> Merged {
    if versions.ours == versions.theirs {
        return Merged::Clean(versions.ours.to_vec());
    }
    merge_with::<F>(versions, |planner, docs, _| {
        let base = docs.base.map(|base| &base.root);
        Some(planner.node(base, &docs.ours.root, &docs.theirs.root))
    })
}

/// Merges a file; `root` plans the merge of the values.
fn merge_with<F: Format>(
    versions: &Versions<'_>,
    root: impl for<'t, 'a> FnOnce(
        &mut Planner<'a>,
        &Docs<'t, 'a>,
        &mut Meanings,
    ) -> Option<Plan<'t, 'a>>,
) -> Merged {
    one_changed(versions)
        .or_else(|| merge_changed::<F>(&Texts::of(versions)?, root))
        .unwrap_or(Merged::NotMine)
}

fn merge_changed<F: Format>(
    texts: &Texts<'_>,
    root: impl for<'t, 'a> FnOnce(
        &mut Planner<'a>,
        &Docs<'t, 'a>,
        &mut Meanings,
    ) -> Option<Plan<'t, 'a>>,
) -> Option<Merged> {
    let mut meanings = Meanings::default();
    let base = match texts.base {
        Some(text) => Some(F::parse(text, &mut meanings)?),
        None => None,
    };
    let ours = F::parse(texts.ours, &mut meanings)?;
    let theirs = F::parse(texts.theirs, &mut meanings)?;
    let docs = Docs {
        base: base.as_ref(),
        ours: &ours,
        theirs: &theirs,
    };
    let planned =
        Planner::new(F::STYLE).plan(&docs, |planner| root(planner, &docs, &mut meanings))?;
    if planned.refused {
        return None;
    }
    let merged = render(&docs, &planned, F::STYLE);

    let confirmed = planned.root.meaning(&mut meanings).is_some_and(|wanted| {
        let read = F::parse(&merged, &mut meanings);
        read.is_some_and(|read| read.root.meaning == wanted)
            && F::confirms(texts, &merged, planned.conflicts.is_empty())
    });
    finish::<F>(&planned.conflicts, confirmed.then_some(merged), texts)
}

/// Returns the result of a merge. Without a merged text there is no clean result,
/// and the suggestion for conflicts is the text of theirs.
fn finish<F: Format>(
    conflicts: &[Conflict<'_>],
    merged: Option<String>,
    texts: &Texts<'_>,
) -> Option<Merged> {
    if conflicts.is_empty() {
        return Some(Merged::Clean(merged?.into_bytes()));
    }
    let comments_only = conflicts.iter().all(|conflict| conflict.comment);
    if !comments_only && !F::disputes(texts) {
        return None;
    }
    let (suggestion, reason) = match merged {
        Some(merged) => (
            merged,
            "takes theirs where both sides changed the same value",
        ),
        None => (texts.theirs.to_owned(), "takes all of theirs"),
    };
    Some(Merged::Conflict(Conflicted {
        hunks: conflicts.iter().map(hunk).collect(),
        suggestion: suggestion.into_bytes(),
        reason,
    }))
}

fn hunk(conflict: &Conflict<'_>) -> Hunk {
    let bytes = |text: Option<&str>| text.map(|text| text.as_bytes().to_vec());
    Hunk {
        place: Place::Key(conflict.pointer.clone()),
        base: bytes(conflict.base),
        ours: bytes(conflict.ours),
        theirs: bytes(conflict.theirs),
    }
}

/// Whether a file's name ends in a dot and `extension`.
fn extension(file_name: &[u8], extension: &str) -> bool {
    let Some(at) = file_name.len().checked_sub(extension.len() + 1) else {
        return false;
    };
    file_name[at] == b'.' && file_name[at + 1..].eq_ignore_ascii_case(extension.as_bytes())
}
