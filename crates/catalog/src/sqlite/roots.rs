//! Which snapshots must stay.

use elevo_core::TenantId;
use elevo_objects::SnapshotId;
use sqlx::sqlite::SqliteRow;

use super::database::{self, Database};
use super::{failure, rows};
use crate::bounds;
use crate::error::Result;
use crate::roots::{Place, RootPlace, Roots};

pub(super) const SELECT_HEADS: &str =
    "SELECT id, head FROM projects WHERE tenant = ? AND id > ? ORDER BY id LIMIT ?";

/// The rest of the project that was read last.
pub(super) const SELECT_LANDINGS: &str = "SELECT project, landings.sequence, snapshot, parent FROM projects \
     CROSS JOIN landings ON project = id \
     WHERE tenant = ? AND id = ? AND landings.sequence > ? ORDER BY landings.sequence LIMIT ?";

/// Those of the projects that come after it.
pub(super) const SELECT_MORE_LANDINGS: &str = "SELECT project, landings.sequence, snapshot, parent FROM projects \
     CROSS JOIN landings ON project = id \
     WHERE tenant = ? AND id > ? ORDER BY id, landings.sequence LIMIT ?";

pub(super) const SELECT_WORKSPACES: &str =
    "SELECT id, base, synced FROM workspaces WHERE tenant = ? AND id > ? ORDER BY id LIMIT ?";

pub(super) const SELECT_REVIEWS: &str = "SELECT id, base_snapshot, ours_snapshot, theirs_snapshot FROM reviews \
     WHERE state = 'open' AND tenant = ? AND id > ? ORDER BY id LIMIT ?";

pub(super) async fn page(
    database: &Database,
    tenant: TenantId,
    after: Option<&RootPlace>,
    limit: u32,
) -> Result<Roots> {
    bounds::limit(limit)?;
    let first = || Place::Heads {
        after: String::new(),
    };
    match after.map_or_else(first, |place| place.0.clone()) {
        Place::Heads { after } => {
            let rows = by_id(database, SELECT_HEADS, tenant, &after, limit).await?;
            let then = Place::Landings {
                project: String::new(),
                sequence: 0,
            };
            let here = |after| Place::Heads { after };
            roots(&rows, &["head"], limit, here, Some(then))
        }
        Place::Landings { project, sequence } => {
            landings(database, tenant, &project, sequence, limit).await
        }
        Place::Workspaces { after } => {
            let rows = by_id(database, SELECT_WORKSPACES, tenant, &after, limit).await?;
            let then = Place::Reviews {
                after: String::new(),
            };
            let here = |after| Place::Workspaces { after };
            roots(&rows, &["base", "synced"], limit, here, Some(then))
        }
        Place::Reviews { after } => {
            let rows = by_id(database, SELECT_REVIEWS, tenant, &after, limit).await?;
            let sides = ["base_snapshot", "ours_snapshot", "theirs_snapshot"];
            roots(&rows, &sides, limit, |after| Place::Reviews { after }, None)
        }
    }
}

async fn by_id(
    database: &Database,
    select: &'static str,
    tenant: TenantId,
    after: &str,
    limit: u32,
) -> Result<Vec<SqliteRow>> {
    sqlx::query(select)
        .bind(&tenant.as_bytes()[..])
        .bind(after)
        .bind(limit)
        .fetch_all(database.readers())
        .await
        .map_err(failure::of)
}

/// The snapshots in some columns. If there may be more of them, the walk goes
/// on here, otherwise it goes on then.
fn roots(
    rows: &[SqliteRow],
    columns: &[&str],
    limit: u32,
    here: impl Fn(String) -> Place,
    then: Option<Place>,
) -> Result<Roots> {
    let mut snapshots = Vec::with_capacity(rows.len() * columns.len());
    for row in rows {
        for column in columns {
            snapshots.push(rows::snapshot(row, column)?);
        }
    }
    let next = match rows.last() {
        Some(last) if rows.len() == limit as usize => Some(here(rows::get(last, "id")?)),
        _ => then,
    };
    Ok(Roots {
        snapshots,
        next: next.map(RootPlace),
    })
}

async fn landings(
    database: &Database,
    tenant: TenantId,
    project: &str,
    sequence: u64,
    limit: u32,
) -> Result<Roots> {
    let mut transaction = database.readers().begin().await.map_err(failure::of)?;
    let mut rows = sqlx::query(SELECT_LANDINGS)
        .bind(&tenant.as_bytes()[..])
        .bind(project)
        .bind(sequence as i64)
        .bind(limit)
        .fetch_all(&mut *transaction)
        .await
        .map_err(failure::of)?;
    let more = sqlx::query(SELECT_MORE_LANDINGS)
        .bind(&tenant.as_bytes()[..])
        .bind(project)
        .bind(limit - rows.len() as u32)
        .fetch_all(&mut *transaction)
        .await
        .map_err(failure::of)?;
    database::commit(transaction).await?;
    rows.extend(more);
    let next = match rows.last() {
        Some(last) if rows.len() == limit as usize => Place::Landings {
            project: rows::get(last, "project")?,
            sequence: rows::number(last, "sequence")?,
        },
        _ => Place::Workspaces {
            after: String::new(),
        },
    };
    let mut snapshots = Vec::with_capacity(rows.len() + 1);
    for row in &rows {
        snapshots.extend(of_landing(row)?);
    }
    Ok(Roots {
        snapshots,
        next: Some(RootPlace(next)),
    })
}

/// Every parent is the snapshot of the landing before, but for the first one.
fn of_landing(row: &SqliteRow) -> Result<impl Iterator<Item = SnapshotId>> {
    let is_first = rows::number(row, "sequence")? == 1;
    let parent = rows::snapshot(row, "parent")?;
    let snapshot = rows::snapshot(row, "snapshot")?;
    Ok([Some(snapshot), is_first.then_some(parent)]
        .into_iter()
        .flatten())
}
