//! Prints a snapshot for people, with the references that point to it.

use std::collections::HashMap;

use elevo_engine::Repository;
use elevo_objects::{Snapshot, SnapshotId};

use crate::local::revision::{HEAD, TAGS, reference_at};
use crate::local::wait::wait;
use crate::output::{IDENTITY, Output, OutputError, PLACE, format};

/// Maximum number of tags; with more, snapshots are listed without tags.
const MAX_TAGS: usize = 10_000;

/// References by the snapshot they point to.
#[derive(Debug, Default)]
pub(crate) struct SnapshotNames(HashMap<SnapshotId, Vec<String>>);

impl SnapshotNames {
    /// Loads head and all tags. Returns `None` if there are too many.
    pub(crate) fn load(repository: &Repository) -> anyhow::Result<Option<Self>> {
        let mut names = Self::default();
        if let Some(head) = reference_at(repository, HEAD)? {
            names.0.entry(head).or_default().push(HEAD.into());
        }
        let store = repository.store();
        let tags = store.list_references(repository.tenant(), TAGS, None, MAX_TAGS + 1);
        let tags = wait(tags)?;
        if tags.len() > MAX_TAGS {
            return Ok(None);
        }
        for (name, id) in tags {
            names.0.entry(id).or_default().push(name);
        }
        Ok(Some(names))
    }

    pub(crate) fn of(&self, id: SnapshotId) -> &[String] {
        self.0.get(&id).map_or(&[], Vec::as_slice)
    }
}

/// The name of a reference, without the prefix of tags.
pub(crate) fn reference_name(reference: &str) -> String {
    let name = reference.strip_prefix(TAGS).unwrap_or(reference);
    format::harmless(name).into_owned()
}

/// `(head, v1)`, with a space in front, if there are names.
fn in_brackets(output: &Output, names: &[String]) -> Vec<u8> {
    if names.is_empty() {
        return Vec::new();
    }
    let names: Vec<_> = names.iter().map(|name| reference_name(name)).collect();
    let names = output.styled(PLACE, names.join(", "));
    [b" (", &names[..], b")"].concat()
}

/// Prints a snapshot as one line.
pub(crate) fn print_snapshot_line(
    output: &mut Output,
    id: SnapshotId,
    snapshot: &Snapshot,
    names: &[String],
) -> Result<(), OutputError> {
    let mut line = output.styled(IDENTITY, format::short(id));
    line.extend(in_brackets(output, names));
    let title = format::first_line(&snapshot.message);
    if !title.is_empty() {
        line.push(b' ');
        line.extend_from_slice(title.as_bytes());
    }
    output.line(line)
}

/// Prints all properties of a snapshot.
pub(crate) fn print_snapshot(
    output: &mut Output,
    id: SnapshotId,
    snapshot: &Snapshot,
    names: &[String],
) -> Result<(), OutputError> {
    let mut line = output.styled(IDENTITY, format!("snapshot {id}"));
    line.extend(in_brackets(output, names));
    output.line(line)?;
    if snapshot.parents.len() > 1 {
        let parents: Vec<_> = snapshot
            .parents
            .iter()
            .map(|id| format::short(*id))
            .collect();
        output.line(format!("Parents: {}", parents.join(" ")))?;
    }
    output.line(format!("Author:  {}", format::first_line(&snapshot.author)))?;
    output.line(format!("Date:    {}", format::local(snapshot.created)))?;
    let totals = format::totals(snapshot.tree.count, snapshot.tree.bytes);
    output.line(format!("Holds:   {totals}"))?;
    for (name, value) in &snapshot.labels {
        let (name, value) = (format::first_line(name), format::first_line(value));
        output.line(format!("Label:   {name}={value}"))?;
    }
    let message = snapshot.message.trim_end();
    if !message.is_empty() {
        output.line("")?;
        for line in format::harmless(message).lines() {
            output.line(format!("    {line}"))?;
        }
    }
    Ok(())
}
