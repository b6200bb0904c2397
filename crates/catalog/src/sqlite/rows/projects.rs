//! Rows of projects and their records.

use std::str::FromStr;

use elevo_core::TreePath;
use elevo_objects::{Entry, Hash, SnapshotId};
use sqlx::sqlite::SqliteRow;

use super::{bytes, damaged, get, json, number, optional_time, tenant_id, time};
use crate::error::Result;
use crate::records::{
    FileVersion, LogEntry, PathChange, Project, ProjectPolicy, Retention, Review, Sides, Tag,
    Unsettled, Workspace,
};
use crate::stored;

pub(in crate::sqlite) fn project(row: &SqliteRow) -> Result<Project> {
    Ok(Project {
        id: get(row, "id")?,
        tenant: tenant_id(row, "tenant")?,
        name: get(row, "name")?,
        description: get(row, "description")?,
        head: snapshot(row, "head")?,
        sequence: number(row, "sequence")?,
        policy_version: number(row, "policy_version")?,
        retention: retention(row)?,
        created: time(row, "created")?,
        updated: time(row, "updated")?,
        removing: get(row, "removing")?,
    })
}

fn retention(row: &SqliteRow) -> Result<Retention> {
    let count: Option<u32> = get(row, "retention_count")?;
    match (get(row, "retention")?, count) {
        ("all", None) => Ok(Retention::All),
        ("last", Some(count)) => Ok(Retention::Last(count)),
        ("daily", Some(days)) => Ok(Retention::Daily(days)),
        ("named", None) => Ok(Retention::Named),
        _ => Err(damaged("retention")),
    }
}

/// The inverse of [`retention`].
pub(in crate::sqlite) const fn retention_as_kept(
    retention: Retention,
) -> (&'static str, Option<u32>) {
    match retention {
        Retention::All => ("all", None),
        Retention::Last(count) => ("last", Some(count)),
        Retention::Daily(days) => ("daily", Some(days)),
        Retention::Named => ("named", None),
    }
}

pub(in crate::sqlite) fn tag(row: &SqliteRow) -> Result<Tag> {
    Ok(Tag {
        project: get(row, "project")?,
        name: get(row, "name")?,
        snapshot: snapshot(row, "snapshot")?,
        key: get(row, "api_key")?,
        agent: get(row, "agent")?,
        message: get(row, "message")?,
        created: time(row, "created")?,
    })
}

pub(in crate::sqlite) fn policy(row: &SqliteRow) -> Result<ProjectPolicy> {
    Ok(ProjectPolicy {
        version: number(row, "policy_version")?,
        policy: json(row, "policy")?,
    })
}

pub(in crate::sqlite) fn workspace(row: &SqliteRow) -> Result<Workspace> {
    Ok(Workspace {
        id: get(row, "id")?,
        tenant: tenant_id(row, "tenant")?,
        project: get(row, "project")?,
        agent: get(row, "agent")?,
        key: get(row, "api_key")?,
        name: get(row, "name")?,
        base: snapshot(row, "base")?,
        synced: snapshot(row, "synced")?,
        merges: number(row, "merges")?,
        sync: json(row, "sync")?,
        read_only: get(row, "read_only")?,
        follows: get(row, "follows")?,
        state: word(row, "state")?,
        last_merge: optional_time(row, "last_merge")?,
        expires: optional_time(row, "expires")?,
        created: time(row, "created")?,
        updated: time(row, "updated")?,
    })
}

pub(in crate::sqlite) fn unsettled(row: &SqliteRow) -> Result<Unsettled> {
    Ok(Unsettled {
        path: path(row, "path")?,
        seen: entry(row, "seen")?,
        left: entry(row, "entry_left")?,
        marked: get(row, "marked")?,
    })
}

pub(in crate::sqlite) fn log_entry(row: &SqliteRow) -> Result<LogEntry> {
    Ok(LogEntry {
        project: get(row, "project")?,
        sequence: number(row, "sequence")?,
        snapshot: snapshot(row, "snapshot")?,
        parent: snapshot(row, "parent")?,
        kind: word(row, "kind")?,
        agent: get(row, "agent")?,
        workspace: get(row, "workspace")?,
        key: get(row, "api_key")?,
        message: get(row, "message")?,
        request: get(row, "request")?,
        counts: json(row, "counts")?,
        created: time(row, "created")?,
        dropped: optional_time(row, "dropped")?,
    })
}

/// Reads a version joined with its landing.
pub(in crate::sqlite) fn version(row: &SqliteRow) -> Result<FileVersion> {
    let origin: Option<&[u8]> = get(row, "origin")?;
    let from = origin.map(|kept| stored::read_path(kept).ok_or_else(|| damaged("origin")));
    let change = PathChange {
        path: path(row, "path")?,
        kind: word(row, "kind")?,
        from: from.transpose()?,
        before: entry(row, "entry_before")?,
        after: entry(row, "entry_after")?,
        files: number(row, "files")?,
        algorithm: get(row, "algorithm")?,
    };
    Ok(FileVersion {
        sequence: number(row, "sequence")?,
        snapshot: snapshot(row, "snapshot")?,
        change,
        agent: get(row, "agent")?,
        workspace: get(row, "workspace")?,
        created: time(row, "created")?,
    })
}

pub(in crate::sqlite) fn review(row: &SqliteRow) -> Result<Review> {
    Ok(Review {
        id: get(row, "id")?,
        tenant: tenant_id(row, "tenant")?,
        project: get(row, "project")?,
        workspace: get(row, "workspace")?,
        agent: get(row, "agent")?,
        path: path(row, "path")?,
        kind: get(row, "kind")?,
        sides: sides(row)?,
        algorithm: get(row, "algorithm")?,
        state: word(row, "state")?,
        detail: json(row, "detail")?,
        created: time(row, "created")?,
        expires: optional_time(row, "expires")?,
        closed: optional_time(row, "closed")?,
        closed_by: get(row, "closed_by")?,
        resolution: match get::<Option<&str>>(row, "resolution")? {
            Some(_) => Some(json(row, "resolution")?),
            None => None,
        },
        successor: get(row, "successor")?,
        reopened: get(row, "reopened")?,
    })
}

fn sides(row: &SqliteRow) -> Result<Sides> {
    Ok(Sides {
        base: entry(row, "base")?,
        ours: entry(row, "ours")?,
        theirs: entry(row, "theirs")?,
        base_snapshot: snapshot(row, "base_snapshot")?,
        ours_snapshot: snapshot(row, "ours_snapshot")?,
        theirs_snapshot: snapshot(row, "theirs_snapshot")?,
    })
}

pub(in crate::sqlite) fn snapshot(row: &SqliteRow, column: &str) -> Result<SnapshotId> {
    Ok(SnapshotId(Hash::from_bytes(bytes(row, column)?)))
}

/// Reads a value of an enum, stored by name.
fn word<T: FromStr>(row: &SqliteRow, column: &str) -> Result<T> {
    let name: &str = get(row, column)?;
    name.parse().map_err(|_| damaged(column))
}

/// The inverse of [`word`].
pub(in crate::sqlite) fn to_word(word: impl Into<&'static str>) -> &'static str {
    word.into()
}

fn path(row: &SqliteRow, column: &str) -> Result<TreePath> {
    stored::read_path(get(row, column)?).ok_or_else(|| damaged(column))
}

fn entry(row: &SqliteRow, column: &str) -> Result<Option<Entry>> {
    let kept: Option<&[u8]> = get(row, column)?;
    let entry = kept.map(|kept| stored::read_entry(kept).ok_or_else(|| damaged(column)));
    entry.transpose()
}
