//! Merging by structure: files whose values have names.
//!
//! A version is read into a tree that keeps every byte ([`node`]); two sides
//! are compared with their base value by value ([`plan`]); and the result is
//! put together from pieces of both texts ([`render`]), read again, and refused
//! if it does not mean what was planned. Nothing is ever written anew, so that
//! what nobody changed keeps its spelling.

mod commas;
mod gaps;
mod json;
mod lists;
mod node;
mod order;
mod plan;
mod render;

pub use json::Json;

use std::str::from_utf8;

use crate::driver::{Conflicted, Hunk, Merged, Place, Versions};
use node::{Doc, Meanings};
use plan::{Conflict, Docs, Plan, Planned, Planner};
use render::{Style, render};

/// A way to write values that have names.
trait Format {
    const STYLE: Style;

    /// Reads a file; nothing if it is not in this format or beyond its limits.
    fn parse<'a>(text: &'a str, meanings: &mut Meanings) -> Option<Doc<'a>>;

    /// Whether the merged text means what it should where the tree does not
    /// show it.
    fn confirms(_texts: &Texts<'_>, _merged: &str, _clean: bool) -> bool {
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

/// The other side, if one is unchanged.
fn one_changed(versions: &Versions<'_>) -> Option<Merged> {
    if versions.base == Some(versions.ours) {
        Some(Merged::Clean(versions.theirs.to_vec()))
    } else if versions.base == Some(versions.theirs) {
        Some(Merged::Clean(versions.ours.to_vec()))
    } else {
        None
    }
}

/// Merges a file of a format key by key.
fn merge_by_key<F: Format>(_format: &F, versions: &Versions<'_>) -> Merged {
    if versions.ours == versions.theirs {
        return Merged::Clean(versions.ours.to_vec());
    }
    merge_with::<F>(versions, |planner, docs, _| {
        let base = docs.base.map(|base| &base.root);
        planner.node(base, &docs.ours.root, &docs.theirs.root)
    })
}

/// Merges a file of a format, the values by `root`.
fn merge_with<F: Format>(
    versions: &Versions<'_>,
    root: impl for<'t, 'a> FnOnce(&mut Planner<'a>, &Docs<'t, 'a>, &mut Meanings) -> Plan<'t, 'a>,
) -> Merged {
    one_changed(versions)
        .or_else(|| merge_changed::<F>(&Texts::of(versions)?, root))
        .unwrap_or(Merged::NotMine)
}

fn merge_changed<F: Format>(
    texts: &Texts<'_>,
    root: impl for<'t, 'a> FnOnce(&mut Planner<'a>, &Docs<'t, 'a>, &mut Meanings) -> Plan<'t, 'a>,
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
        Planner::new(F::STYLE.comments).plan(&docs, |planner| root(planner, &docs, &mut meanings));
    let merged = render(&docs, &planned, F::STYLE);

    let wanted = planned.root.meaning(&mut meanings)?;
    let read = F::parse(&merged, &mut meanings)?;
    let confirmed = F::confirms(texts, &merged, planned.conflicts.is_empty());
    (read.root.meaning == wanted && confirmed).then(|| finish(planned, merged))
}

fn finish(planned: Planned<'_, '_>, merged: String) -> Merged {
    if planned.conflicts.is_empty() {
        return Merged::Clean(merged.into_bytes());
    }
    Merged::Conflict(Conflicted {
        hunks: planned.conflicts.iter().map(hunk).collect(),
        suggestion: merged.into_bytes(),
        reason: "takes theirs where both sides changed the same value",
    })
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

/// Whether a file's name ends in a dot and this.
fn extension(file_name: &[u8], extension: &str) -> bool {
    let Some(at) = file_name.len().checked_sub(extension.len() + 1) else {
        return false;
    };
    file_name[at] == b'.' && file_name[at + 1..].eq_ignore_ascii_case(extension.as_bytes())
}
