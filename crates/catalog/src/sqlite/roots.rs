//! Snapshots that must be kept.

use async_trait::async_trait;
use elevo_core::TenantId;
use elevo_objects::SnapshotId;
use sqlx::sqlite::SqliteRow;

use super::database::{Database, Statement};
use super::{SqliteCatalog, failure, rows};
use crate::bounds;
use crate::catalog::SnapshotRoots;
use crate::error::Result;
use crate::records::{Place, RootPlace, Roots};

pub(super) const SELECT_HEADS: &str =
    "SELECT id, head FROM projects WHERE tenant = ? AND id > ? ORDER BY id LIMIT ?";

macro_rules! landings {
    () => {
        "SELECT landings.project, landings.sequence, landings.snapshot, parent, \
         EXISTS (SELECT 1 FROM dropped_versions gone WHERE gone.project = id \
          AND gone.snapshot = landings.snapshot) AS dropped, \
         EXISTS (SELECT 1 FROM dropped_versions gone WHERE gone.project = id \
          AND gone.snapshot = parent) AS parent_dropped \
         FROM projects CROSS JOIN landings ON project = id "
    };
}

/// The remaining landings of the project that was read last.
pub(super) const SELECT_LANDINGS: &str = concat!(
    landings!(),
    "WHERE tenant = ? AND id = ? AND landings.sequence > ? ORDER BY landings.sequence LIMIT ?"
);

/// The landings of the projects after it.
pub(super) const SELECT_MORE_LANDINGS: &str = concat!(
    landings!(),
    "WHERE tenant = ? AND id > ? ORDER BY id, landings.sequence LIMIT ?"
);

macro_rules! tags {
    () => {
        "SELECT project, tags.name, snapshot FROM projects CROSS JOIN tags ON project = id "
    };
}

/// The remaining tags of the project that was read last.
pub(super) const SELECT_TAGS: &str = concat!(
    tags!(),
    "WHERE tenant = ? AND id = ? AND tags.name > ? ORDER BY tags.name LIMIT ?"
);

/// The tags of the projects after it.
pub(super) const SELECT_MORE_TAGS: &str = concat!(
    tags!(),
    "WHERE tenant = ? AND id > ? ORDER BY id, tags.name LIMIT ?"
);

pub(super) const SELECT_WORKSPACES: &str =
    "SELECT id, base, synced FROM workspaces WHERE tenant = ? AND id > ? ORDER BY id LIMIT ?";

pub(super) const SELECT_REVIEWS: &str = "SELECT id, base_snapshot, ours_snapshot, theirs_snapshot FROM reviews \
     WHERE state = 'open' AND tenant = ? AND id > ? ORDER BY id LIMIT ?";

#[async_trait]
impl SnapshotRoots for SqliteCatalog {
    async fn roots(
        &self,
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
                let rows = by_id(&self.database, SELECT_HEADS, tenant, &after, limit).await?;
                let then = Place::Landings {
                    project: String::new(),
                    sequence: 0,
                };
                let here = |after| Place::Heads { after };
                roots(&rows, &["head"], limit, here, Some(then))
            }
            Place::Landings { project, sequence } => {
                landings(&self.database, tenant, &project, sequence, limit).await
            }
            Place::Tags { project, name } => {
                tags(&self.database, tenant, &project, &name, limit).await
            }
            Place::Workspaces { after } => {
                let rows = by_id(&self.database, SELECT_WORKSPACES, tenant, &after, limit).await?;
                let then = Place::Reviews {
                    after: String::new(),
                };
                let here = |after| Place::Workspaces { after };
                roots(&rows, &["base", "synced"], limit, here, Some(then))
            }
            Place::Reviews { after } => {
                let rows = by_id(&self.database, SELECT_REVIEWS, tenant, &after, limit).await?;
                let sides = ["base_snapshot", "ours_snapshot", "theirs_snapshot"];
                roots(&rows, &sides, limit, |after| Place::Reviews { after }, None)
            }
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

/// Returns the snapshots in some columns. The walk continues at `here` if there
/// may be more rows, otherwise at `then`.
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
        versions: false,
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
    let rest = sqlx::query(SELECT_LANDINGS)
        .bind(&tenant.as_bytes()[..])
        .bind(project)
        .bind(sequence as i64);
    let more = sqlx::query(SELECT_MORE_LANDINGS)
        .bind(&tenant.as_bytes()[..])
        .bind(project);
    let rows = of_projects(database, rest, more, limit).await?;
    let next = match rows.last() {
        Some(last) if rows.len() == limit as usize => Place::Landings {
            project: rows::get(last, "project")?,
            sequence: rows::number(last, "sequence")?,
        },
        _ => Place::Tags {
            project: String::new(),
            name: String::new(),
        },
    };
    let mut snapshots = Vec::with_capacity(rows.len() + 1);
    for row in &rows {
        snapshots.extend(of_landing(row)?);
    }
    Ok(Roots {
        snapshots,
        versions: true,
        next: Some(RootPlace(next)),
    })
}

async fn tags(
    database: &Database,
    tenant: TenantId,
    project: &str,
    name: &str,
    limit: u32,
) -> Result<Roots> {
    let rest = sqlx::query(SELECT_TAGS)
        .bind(&tenant.as_bytes()[..])
        .bind(project)
        .bind(name);
    let more = sqlx::query(SELECT_MORE_TAGS)
        .bind(&tenant.as_bytes()[..])
        .bind(project);
    let rows = of_projects(database, rest, more, limit).await?;
    let next = match rows.last() {
        Some(last) if rows.len() == limit as usize => Place::Tags {
            project: rows::get(last, "project")?,
            name: rows::get(last, "name")?,
        },
        _ => Place::Workspaces {
            after: String::new(),
        },
    };
    let snapshots = rows.iter().map(|row| rows::snapshot(row, "snapshot"));
    Ok(Roots {
        snapshots: snapshots.collect::<Result<_>>()?,
        versions: false,
        next: Some(RootPlace(next)),
    })
}

/// Reads the rest of one project, and the projects after it, at one moment.
async fn of_projects(
    database: &Database,
    rest: Statement<'_>,
    more: Statement<'_>,
    limit: u32,
) -> Result<Vec<SqliteRow>> {
    let mut transaction = database.readers().begin().await.map_err(failure::of)?;
    let rest = rest.bind(limit).fetch_all(&mut *transaction).await;
    let mut rows = rest.map_err(failure::of)?;
    let left = limit - rows.len() as u32;
    let more = more.bind(left).fetch_all(&mut *transaction).await;
    rows.extend(more.map_err(failure::of)?);
    transaction.commit().await.map_err(failure::of)?;
    Ok(rows)
}

/// Returns the parent only for the first landing: every other parent is the
/// snapshot of the landing before.
fn of_landing(row: &SqliteRow) -> Result<impl Iterator<Item = SnapshotId>> {
    let is_first = rows::number(row, "sequence")? == 1;
    let is_dropped: bool = rows::get(row, "dropped")?;
    let is_parent_dropped: bool = rows::get(row, "parent_dropped")?;
    let snapshot = rows::snapshot(row, "snapshot")?;
    let parent = rows::snapshot(row, "parent")?;
    let roots = [
        (!is_dropped).then_some(snapshot),
        (is_first && !is_parent_dropped).then_some(parent),
    ];
    Ok(roots.into_iter().flatten())
}
