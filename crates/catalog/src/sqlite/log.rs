//! The log of a project.

use elevo_objects::SnapshotId;
use sqlx::SqliteExecutor;
use sqlx::sqlite::SqliteRow;

use super::database::Database;
use super::{failure, rows};
use crate::bounds;
use crate::error::Result;
use crate::records::{LandedStep, LogEntry};

macro_rules! columns {
    () => {
        "project, sequence, snapshot, parent, kind, agent, workspace, api_key, message, request, \
         counts, created"
    };
}
pub(super) use columns;

/// The columns, and the time at which the content was dropped.
macro_rules! selected {
    () => {
        concat!(
            columns!(),
            ", (SELECT dropped FROM dropped_versions one WHERE one.project = landings.project \
             AND one.snapshot = landings.snapshot) AS dropped"
        )
    };
}

const SELECT_ONE: &str = concat!(
    "SELECT ",
    selected!(),
    " FROM landings WHERE project = ? AND sequence = ?"
);

pub(super) const SELECT_BY_SNAPSHOT: &str = concat!(
    "SELECT ",
    selected!(),
    " FROM landings INDEXED BY landings_by_snapshot \
      WHERE project = ? AND snapshot = ? ORDER BY sequence DESC LIMIT 1"
);

pub(super) const SELECT_PAGE: &str = concat!(
    "SELECT ",
    selected!(),
    " FROM landings WHERE project = ? AND sequence < ? ORDER BY sequence DESC LIMIT ?"
);

/// At most one of the two tables has the request.
pub(super) const SELECT_BY_REQUEST: &str = "SELECT sequence, snapshot FROM landings WHERE project = ?1 AND request = ?2 \
     UNION ALL SELECT NULL, head FROM held_requests WHERE project = ?1 AND request = ?2";

/// Returns a bound to compare sequence numbers with; a number that does not fit
/// is above all.
pub(super) fn bound(sequence: Option<u64>) -> i64 {
    sequence.map_or(i64::MAX, |it| i64::try_from(it).unwrap_or(i64::MAX))
}

pub(super) async fn get(
    database: &Database,
    project: &str,
    sequence: u64,
) -> Result<Option<LogEntry>> {
    let row = sqlx::query(SELECT_ONE)
        .bind(project)
        .bind(bound(Some(sequence)))
        .fetch_optional(database.readers())
        .await
        .map_err(failure::of)?;
    row.as_ref().map(rows::log_entry).transpose()
}

pub(super) async fn of_snapshot(
    database: &Database,
    project: &str,
    snapshot: SnapshotId,
) -> Result<Option<LogEntry>> {
    let row = sqlx::query(SELECT_BY_SNAPSHOT)
        .bind(project)
        .bind(&snapshot.0.as_bytes()[..])
        .fetch_optional(database.readers())
        .await
        .map_err(failure::of)?;
    row.as_ref().map(rows::log_entry).transpose()
}

pub(super) async fn page(
    database: &Database,
    project: &str,
    before: Option<u64>,
    limit: u32,
) -> Result<Vec<LogEntry>> {
    bounds::limit(limit)?;
    let rows = sqlx::query(SELECT_PAGE)
        .bind(project)
        .bind(bound(before))
        .bind(limit)
        .fetch_all(database.readers())
        .await
        .map_err(failure::of)?;
    rows::all(&rows, rows::log_entry)
}

pub(super) async fn by_request(
    executor: impl SqliteExecutor<'_>,
    project: &str,
    request: &str,
) -> Result<Option<LandedStep>> {
    let row = sqlx::query(SELECT_BY_REQUEST)
        .bind(project)
        .bind(request)
        .fetch_optional(executor)
        .await
        .map_err(failure::of)?;
    row.as_ref().map(landed).transpose()
}

fn landed(row: &SqliteRow) -> Result<LandedStep> {
    let sequence: Option<i64> = rows::get(row, "sequence")?;
    Ok(LandedStep {
        sequence: sequence
            .map(|_| rows::number(row, "sequence"))
            .transpose()?,
        head: rows::snapshot(row, "snapshot")?,
    })
}
