//! Snapshots that must be kept.

use async_trait::async_trait;
use elevo_core::TenantId;
use elevo_objects::SnapshotId;
use sqlx::postgres::{PgArguments, PgRow};
use sqlx::query::QueryAs;
use sqlx::{FromRow, Postgres};

use super::database::Database;
use super::{PostgresCatalog, failure};
use crate::bounds;
use crate::catalog::SnapshotRoots;
use crate::columns::{Column, Optional};
use crate::error::Result;
use crate::records::{RootPlace, Roots, WalkPart};

pub(super) const SELECT_HEADS: &str =
    "SELECT id, head FROM projects WHERE tenant = $1 AND id > $2 ORDER BY id LIMIT $3";

macro_rules! landings {
    () => {
        "SELECT landings.project, landings.sequence, landings.snapshot, parent, \
         EXISTS (SELECT 1 FROM dropped_versions gone WHERE gone.project = id \
          AND gone.snapshot = landings.snapshot) AS dropped, \
         EXISTS (SELECT 1 FROM dropped_versions gone WHERE gone.project = id \
          AND gone.snapshot = parent) AS parent_dropped \
         FROM projects JOIN landings ON project = id "
    };
}

/// The remaining landings of the project that was read last.
pub(super) const SELECT_LANDINGS: &str = concat!(
    landings!(),
    "WHERE tenant = $1 AND id = $2 AND landings.sequence > $3 ORDER BY landings.sequence LIMIT $4"
);

/// The landings of the projects after the one that was read last.
pub(super) const SELECT_MORE_LANDINGS: &str = concat!(
    landings!(),
    "WHERE tenant = $1 AND id > $2 ORDER BY id, landings.sequence LIMIT $3"
);

macro_rules! tags {
    () => {
        "SELECT project, tags.name, snapshot FROM projects JOIN tags ON project = id "
    };
}

/// The remaining tags of the project that was read last.
pub(super) const SELECT_TAGS: &str = concat!(
    tags!(),
    "WHERE tenant = $1 AND id = $2 AND tags.name > $3 ORDER BY tags.name LIMIT $4"
);

/// The tags of the projects after the one that was read last.
pub(super) const SELECT_MORE_TAGS: &str = concat!(
    tags!(),
    "WHERE tenant = $1 AND id > $2 ORDER BY id, tags.name LIMIT $3"
);

pub(super) const SELECT_WORKSPACES: &str = "SELECT id, base, synced, files_origin, files_base, files_home \
     FROM workspaces WHERE tenant = $1 AND id > $2 ORDER BY id LIMIT $3";

pub(super) const SELECT_REVIEWS: &str = "SELECT id, base_snapshot, ours_snapshot, theirs_snapshot FROM reviews \
     WHERE state = 'open' AND tenant = $1 AND id > $2 ORDER BY id LIMIT $3";

pub(super) const SELECT_NAMED: &str =
    "SELECT name, id FROM snapshots WHERE tenant = $1 AND name > $2 ORDER BY name LIMIT $3";

#[derive(sqlx::FromRow)]
struct NamedRow {
    name: String,
    #[sqlx(try_from = "Column<SnapshotId>")]
    id: SnapshotId,
}

#[derive(sqlx::FromRow)]
struct HeadRow {
    id: String,
    #[sqlx(try_from = "Column<SnapshotId>")]
    head: SnapshotId,
}

#[derive(sqlx::FromRow)]
struct LandingRow {
    project: String,
    #[sqlx(try_from = "Column<u64>")]
    sequence: u64,
    #[sqlx(try_from = "Column<SnapshotId>")]
    snapshot: SnapshotId,
    #[sqlx(try_from = "Column<SnapshotId>")]
    parent: SnapshotId,
    dropped: bool,
    parent_dropped: bool,
}

#[derive(sqlx::FromRow)]
struct TagRow {
    project: String,
    name: String,
    #[sqlx(try_from = "Column<SnapshotId>")]
    snapshot: SnapshotId,
}

#[derive(sqlx::FromRow)]
struct WorkspaceRow {
    id: String,
    #[sqlx(try_from = "Column<SnapshotId>")]
    base: SnapshotId,
    #[sqlx(try_from = "Column<SnapshotId>")]
    synced: SnapshotId,
    #[sqlx(try_from = "Optional<SnapshotId>")]
    files_origin: Option<SnapshotId>,
    #[sqlx(try_from = "Optional<SnapshotId>")]
    files_base: Option<SnapshotId>,
    #[sqlx(try_from = "Optional<SnapshotId>")]
    files_home: Option<SnapshotId>,
}

#[derive(sqlx::FromRow)]
struct ReviewRow {
    id: String,
    #[sqlx(try_from = "Column<SnapshotId>")]
    base_snapshot: SnapshotId,
    #[sqlx(try_from = "Column<SnapshotId>")]
    ours_snapshot: SnapshotId,
    #[sqlx(try_from = "Column<SnapshotId>")]
    theirs_snapshot: SnapshotId,
}

#[async_trait]
impl SnapshotRoots for PostgresCatalog {
    async fn roots(
        &self,
        tenant: TenantId,
        after: Option<&RootPlace>,
        limit: u32,
    ) -> Result<Roots> {
        bounds::limit(limit)?;
        let database = &self.database;
        match after.map_or_else(WalkPart::first, |place| place.0.clone()) {
            WalkPart::Heads { after } => {
                let rows = by_id(database, SELECT_HEADS, tenant, &after, limit).await?;
                Ok(heads(&rows, limit))
            }
            WalkPart::Landings { project, sequence } => {
                landings(database, tenant, &project, sequence, limit).await
            }
            WalkPart::Tags { project, name } => {
                tags(database, tenant, &project, &name, limit).await
            }
            WalkPart::Workspaces { after } => {
                let rows = by_id(database, SELECT_WORKSPACES, tenant, &after, limit).await?;
                Ok(workspaces(&rows, limit))
            }
            WalkPart::Reviews { after } => {
                let rows = by_id(database, SELECT_REVIEWS, tenant, &after, limit).await?;
                Ok(reviews(&rows, limit))
            }
            WalkPart::Named { after } => {
                let rows = by_id(database, SELECT_NAMED, tenant, &after, limit).await?;
                Ok(named(&rows, limit))
            }
        }
    }
}

async fn by_id<T>(
    database: &Database,
    select: &'static str,
    tenant: TenantId,
    after: &str,
    limit: u32,
) -> Result<Vec<T>>
where
    T: for<'r> FromRow<'r, PgRow> + Send + Unpin,
{
    sqlx::query_as(select)
        .bind(&tenant.as_bytes()[..])
        .bind(after)
        .bind(i64::from(limit))
        .fetch_all(database.pool())
        .await
        .map_err(failure::of)
}

fn heads(rows: &[HeadRow], limit: u32) -> Roots {
    let next = match last_if_more(rows, limit) {
        Some(last) => WalkPart::Heads {
            after: last.id.clone(),
        },
        None => WalkPart::Landings {
            project: String::new(),
            sequence: 0,
        },
    };
    Roots {
        snapshots: rows.iter().map(|row| row.head).collect(),
        versions: false,
        next: Some(RootPlace(next)),
    }
}

fn workspaces(rows: &[WorkspaceRow], limit: u32) -> Roots {
    let next = match last_if_more(rows, limit) {
        Some(last) => WalkPart::Workspaces {
            after: last.id.clone(),
        },
        None => WalkPart::Reviews {
            after: String::new(),
        },
    };
    let needed = |row: &WorkspaceRow| {
        let always = [row.base, row.synced].map(Some);
        let parked = [row.files_origin, row.files_base, row.files_home];
        always.into_iter().chain(parked).flatten()
    };
    Roots {
        snapshots: rows.iter().flat_map(needed).collect(),
        versions: false,
        next: Some(RootPlace(next)),
    }
}

fn reviews(rows: &[ReviewRow], limit: u32) -> Roots {
    let next = match last_if_more(rows, limit) {
        Some(last) => WalkPart::Reviews {
            after: last.id.clone(),
        },
        None => WalkPart::Named {
            after: String::new(),
        },
    };
    let sides = |row: &ReviewRow| [row.base_snapshot, row.ours_snapshot, row.theirs_snapshot];
    Roots {
        snapshots: rows.iter().flat_map(sides).collect(),
        versions: false,
        next: Some(RootPlace(next)),
    }
}

fn named(rows: &[NamedRow], limit: u32) -> Roots {
    let next = last_if_more(rows, limit).map(|last| WalkPart::Named {
        after: last.name.clone(),
    });
    Roots {
        snapshots: rows.iter().map(|row| row.id).collect(),
        versions: false,
        next: next.map(RootPlace),
    }
}

/// Returns the last row if the page is full: there may be more rows after it.
fn last_if_more<T>(rows: &[T], limit: u32) -> Option<&T> {
    rows.last().filter(|_| rows.len() == limit as usize)
}

async fn landings(
    database: &Database,
    tenant: TenantId,
    project: &str,
    sequence: u64,
    limit: u32,
) -> Result<Roots> {
    let rest = sqlx::query_as(SELECT_LANDINGS)
        .bind(&tenant.as_bytes()[..])
        .bind(project)
        .bind(sequence as i64);
    let more = sqlx::query_as(SELECT_MORE_LANDINGS)
        .bind(&tenant.as_bytes()[..])
        .bind(project);
    let rows: Vec<LandingRow> = of_projects(database, rest, more, limit).await?;
    let next = match last_if_more(&rows, limit) {
        Some(last) => WalkPart::Landings {
            project: last.project.clone(),
            sequence: last.sequence,
        },
        None => WalkPart::Tags {
            project: String::new(),
            name: String::new(),
        },
    };
    Ok(Roots {
        snapshots: rows.iter().flat_map(LandingRow::roots).collect(),
        versions: true,
        next: Some(RootPlace(next)),
    })
}

impl LandingRow {
    /// Returns the snapshots of a landing that were not dropped. Includes the
    /// parent only for the first landing: every other parent is the snapshot of
    /// the landing before.
    fn roots(&self) -> impl Iterator<Item = SnapshotId> {
        let is_first = self.sequence == 1;
        let roots = [
            (!self.dropped).then_some(self.snapshot),
            (is_first && !self.parent_dropped).then_some(self.parent),
        ];
        roots.into_iter().flatten()
    }
}

async fn tags(
    database: &Database,
    tenant: TenantId,
    project: &str,
    name: &str,
    limit: u32,
) -> Result<Roots> {
    let rest = sqlx::query_as(SELECT_TAGS)
        .bind(&tenant.as_bytes()[..])
        .bind(project)
        .bind(name);
    let more = sqlx::query_as(SELECT_MORE_TAGS)
        .bind(&tenant.as_bytes()[..])
        .bind(project);
    let rows: Vec<TagRow> = of_projects(database, rest, more, limit).await?;
    let next = match last_if_more(&rows, limit) {
        Some(last) => WalkPart::Tags {
            project: last.project.clone(),
            name: last.name.clone(),
        },
        None => WalkPart::Workspaces {
            after: String::new(),
        },
    };
    Ok(Roots {
        snapshots: rows.iter().map(|row| row.snapshot).collect(),
        versions: false,
        next: Some(RootPlace(next)),
    })
}

type Select<'q, T> = QueryAs<'q, Postgres, T, PgArguments>;

/// Reads the remaining rows of one project, and then rows of the projects after
/// it, as of one moment.
async fn of_projects<T>(
    database: &Database,
    rest: Select<'_, T>,
    more: Select<'_, T>,
    limit: u32,
) -> Result<Vec<T>>
where
    T: for<'r> FromRow<'r, PgRow> + Send + Unpin,
{
    let mut transaction = database.moment().await?;
    let rest = rest
        .bind(i64::from(limit))
        .fetch_all(&mut *transaction)
        .await;
    let mut rows = rest.map_err(failure::of)?;
    let left = limit - rows.len() as u32;
    let more = more
        .bind(i64::from(left))
        .fetch_all(&mut *transaction)
        .await;
    rows.extend(more.map_err(failure::of)?);
    database.commit(transaction).await?;
    Ok(rows)
}
