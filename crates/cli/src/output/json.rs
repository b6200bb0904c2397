//! JSON that more than one command prints. `docs/cli.md` describes it; a field
//! is never renamed or removed, only added.

use std::collections::BTreeMap;

use base64::prelude::{BASE64_STANDARD, Engine};
use elevo_engine::{EntryKind, Stat};
use elevo_objects::{Content, Entry, Mode, Snapshot, SnapshotId};
use serde::Serialize;

use crate::output::format;

/// A path. If it is not UTF-8, `path` is an approximation and `path_base64`
/// has its bytes.
#[derive(Debug, Serialize)]
pub(crate) struct PathShape {
    path: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    path_base64: Option<String>,
}

impl PathShape {
    pub(crate) fn new(path: &[u8]) -> Self {
        let (path, path_base64) = text(path);
        Self { path, path_base64 }
    }
}

/// Bytes as text, and as base64 if they are not UTF-8.
pub(crate) fn text(bytes: &[u8]) -> (String, Option<String>) {
    match std::str::from_utf8(bytes) {
        Ok(text) => (text.to_owned(), None),
        Err(_) => (
            String::from_utf8_lossy(bytes).into_owned(),
            Some(base64(bytes)),
        ),
    }
}

pub(crate) fn base64(bytes: &[u8]) -> String {
    BASE64_STANDARD.encode(bytes)
}

/// A snapshot.
#[derive(Debug, Serialize)]
pub(crate) struct SnapshotShape<'a> {
    pub(crate) snapshot: String,
    tree: Option<String>,
    times: Option<String>,
    parents: Vec<String>,
    author: &'a str,
    message: &'a str,
    created: String,
    labels: &'a BTreeMap<String, String>,
    entries: u64,
    bytes: u64,
    references: &'a [String],
}

impl<'a> SnapshotShape<'a> {
    pub(crate) fn new(id: SnapshotId, snapshot: &'a Snapshot, references: &'a [String]) -> Self {
        Self {
            snapshot: id.to_string(),
            tree: snapshot.tree.root.map(|root| root.to_string()),
            times: snapshot.times.map(|root| root.to_string()),
            parents: snapshot.parents.iter().map(SnapshotId::to_string).collect(),
            author: &snapshot.author,
            message: &snapshot.message,
            created: format::rfc3339(snapshot.created),
            labels: &snapshot.labels,
            entries: snapshot.tree.count,
            bytes: snapshot.tree.bytes,
            references,
        }
    }
}

/// The entry at a path on one side of a change.
#[derive(Debug, Serialize)]
pub(crate) struct EntryShape {
    kind: &'static str,
    mode: String,
    size: u64,
}

impl EntryShape {
    pub(crate) fn of(entry: &Entry) -> Self {
        let (mode, size) = match entry {
            Entry::File { mode, content } => (*mode, Content::size(content)),
            Entry::Directory { mode, .. } => (*mode, 0),
            Entry::Link(link) => (Mode::from_bits(0o777), link.size),
        };
        Self {
            kind: format::kind(EntryKind::of(entry)),
            mode: format::mode(mode),
            size,
        }
    }
}

/// A line of `ls`.
#[derive(Debug, Serialize)]
pub(crate) struct ListedShape {
    #[serde(flatten)]
    path: PathShape,
    kind: &'static str,
    mode: String,
    size: u64,
    modified: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    target: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    target_base64: Option<String>,
}

impl ListedShape {
    pub(crate) fn new(path: &[u8], stat: &Stat, target: Option<&[u8]>) -> Self {
        let (target, target_base64) = match target.map(text) {
            Some((target, exact)) => (Some(target), exact),
            None => (None, None),
        };
        Self {
            path: PathShape::new(path),
            kind: format::kind(stat.kind),
            mode: format::mode(stat.mode),
            size: stat.size,
            modified: stat.modified.map(format::rfc3339),
            target,
            target_base64,
        }
    }
}
