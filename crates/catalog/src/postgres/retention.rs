//! Versions that keep their content, and versions whose content was dropped.

use std::collections::{BTreeSet, HashSet};

use async_trait::async_trait;
use elevo_core::{ProjectId, TenantId, Timestamp};
use elevo_objects::SnapshotId;
use elevo_postgres::Connection;
use sqlx::PgExecutor;

use super::{PostgresCatalog, failure, projects};
use crate::bounds::{self, micros};
use crate::catalog::VersionRetention;
use crate::columns::{Column, Optional};
use crate::error::{Error, Kind, Result};
use crate::limits;
use crate::records::{Project, ReplacedVersion, Unkept, UnkeptQuery};

/// Selects the versions that are no longer the head, each with the times at
/// which it became the head and was replaced. Omits dropped versions, and
/// versions that became the head again later.
pub(super) const SELECT_REPLACED: &str = concat!(
    "SELECT sequence - 1 AS version, parent AS snapshot, created AS replaced, \
     (SELECT created FROM landings own WHERE own.project = landings.project \
      AND own.sequence = landings.sequence - 1) AS created \
     FROM landings WHERE project = ",
    projects::own!(),
    " AND sequence > $3 \
     AND NOT EXISTS (SELECT 1 FROM dropped_versions gone \
      WHERE gone.project = landings.project AND gone.snapshot = landings.parent) \
     AND NOT EXISTS (SELECT 1 FROM landings later \
      WHERE later.project = landings.project AND later.snapshot = landings.parent \
      AND later.sequence >= landings.sequence) \
     ORDER BY sequence LIMIT $4"
);

/// The versions that records of a project need, regardless of its retention.
pub(super) const SELECT_NEEDED: &str = "SELECT head AS snapshot FROM projects WHERE tenant = $1 AND id = $2 \
     UNION ALL SELECT snapshot FROM tags \
      WHERE project = (SELECT id FROM projects WHERE tenant = $1 AND id = $2) \
     UNION ALL SELECT base FROM workspaces WHERE tenant = $1 AND project = $2 \
     UNION ALL SELECT synced FROM workspaces WHERE tenant = $1 AND project = $2 \
     UNION ALL SELECT base_snapshot FROM reviews \
      WHERE state = 'open' AND tenant = $1 AND project = $2 \
     UNION ALL SELECT ours_snapshot FROM reviews \
      WHERE state = 'open' AND tenant = $1 AND project = $2 \
     UNION ALL SELECT theirs_snapshot FROM reviews \
      WHERE state = 'open' AND tenant = $1 AND project = $2";

pub(super) const SELECT_DROPPED: &str = "SELECT snapshot FROM dropped_versions WHERE project = $1 AND snapshot = ANY($2) \
     ORDER BY snapshot LIMIT 1";

/// Two transactions that need versions do not wait for one another.
const LOCK_NEED: &str = "SELECT pg_advisory_xact_lock_shared(4, hashtext($1))";

const LOCK_DROP: &str = "SELECT pg_advisory_xact_lock(4, hashtext($1))";

pub(super) const SELECT_DROPPED_FROM: &str = "SELECT id FROM dropped_versions JOIN projects ON id = project \
     WHERE snapshot = $1 AND tenant = $2";

const INSERT: &str = "INSERT INTO dropped_versions (project, snapshot, dropped) VALUES ($1, $2, $3) \
                      ON CONFLICT DO NOTHING";

#[derive(sqlx::FromRow)]
struct ReplacedRow {
    #[sqlx(try_from = "Column<u64>")]
    version: u64,
    #[sqlx(try_from = "Column<SnapshotId>")]
    snapshot: SnapshotId,
    /// `None` for the version that the project was created with.
    #[sqlx(try_from = "Optional<Timestamp>")]
    created: Option<Timestamp>,
    #[sqlx(try_from = "Column<Timestamp>")]
    replaced: Timestamp,
}

impl ReplacedRow {
    fn version(&self, project: &Project) -> ReplacedVersion {
        ReplacedVersion {
            sequence: self.version,
            created: self.created.unwrap_or(project.created),
            replaced: self.replaced,
        }
    }
}

#[async_trait]
impl VersionRetention for PostgresCatalog {
    async fn unkept_versions(&self, project: &Project, query: &UnkeptQuery) -> Result<Unkept> {
        bounds::limit(query.limit)?;
        // The landing that replaced a version has the next sequence number.
        let after = query.after.map_or(0, |version| version.saturating_add(1));
        let rows: Vec<ReplacedRow> = sqlx::query_as(SELECT_REPLACED)
            .bind(&project.tenant.as_bytes()[..])
            .bind(project.id.as_str())
            .bind(i64::try_from(after).unwrap_or(i64::MAX))
            .bind(i64::from(query.limit))
            .fetch_all(self.database.pool())
            .await
            .map_err(failure::of)?;
        let mut snapshots = Vec::new();
        for row in &rows {
            let version = row.version(project);
            let is_kept = version.created >= query.since
                || project
                    .retention
                    .keeps(version, project.sequence, query.now);
            if !is_kept {
                snapshots.push(row.snapshot);
            }
        }
        let last = rows.last().filter(|_| rows.len() == query.limit as usize);
        let next = last.map(|row| row.version);
        Ok(Unkept { snapshots, next })
    }

    async fn needed_versions(&self, project: &Project) -> Result<HashSet<SnapshotId>> {
        needed(self.database.pool(), project).await
    }

    async fn drop_versions(
        &self,
        project: &Project,
        snapshots: &[SnapshotId],
        now: Timestamp,
    ) -> Result<Vec<SnapshotId>> {
        if snapshots.len() > limits::MAX_PAGE as usize {
            let most = limits::MAX_PAGE;
            return Err(Error::Refused(format!(
                "at most {most} versions are dropped at once"
            )));
        }
        let now = micros(now)?;
        let mut transaction = self.database.write().await?;
        let found =
            projects::require_not_removing(&mut transaction, project.tenant, &project.id).await?;
        // After the row of the project, as a landing does.
        lock(&mut transaction, LOCK_DROP, &project.id).await?;
        if found.retention != project.retention {
            let what = Kind::Project;
            return Err(Error::Changed { what });
        }
        let needed = needed(&mut *transaction, project).await?;
        let mut dropped = Vec::new();
        for snapshot in snapshots.iter().filter(|one| !needed.contains(one)) {
            let done = sqlx::query(INSERT)
                .bind(project.id.as_str())
                .bind(&snapshot.0.as_bytes()[..])
                .bind(now)
                .execute(&mut *transaction)
                .await
                .map_err(failure::of)?;
            if done.rows_affected() > 0 {
                dropped.push(*snapshot);
            }
        }
        self.database.commit(transaction).await?;
        Ok(dropped)
    }

    async fn dropped_from(&self, tenant: TenantId, snapshot: SnapshotId) -> Result<Vec<ProjectId>> {
        let found: Vec<Column<ProjectId>> = sqlx::query_scalar(SELECT_DROPPED_FROM)
            .bind(&snapshot.0.as_bytes()[..])
            .bind(&tenant.as_bytes()[..])
            .fetch_all(self.database.pool())
            .await
            .map_err(failure::of)?;
        Ok(found.into_iter().map(ProjectId::from).collect())
    }
}

async fn needed(executor: impl PgExecutor<'_>, project: &Project) -> Result<HashSet<SnapshotId>> {
    let needed: Vec<Column<SnapshotId>> = sqlx::query_scalar(SELECT_NEEDED)
        .bind(&project.tenant.as_bytes()[..])
        .bind(project.id.as_str())
        .fetch_all(executor)
        .await
        .map_err(failure::of)?;
    Ok(needed.into_iter().map(SnapshotId::from).collect())
}

/// Fails if one of the snapshots was dropped. The caller must write the record
/// that needs them in the same transaction.
pub(super) async fn check_not_dropped(
    connection: &mut Connection,
    project: &ProjectId,
    snapshots: impl IntoIterator<Item = SnapshotId>,
) -> Result<()> {
    lock(connection, LOCK_NEED, project).await?;
    let snapshots: BTreeSet<_> = snapshots.into_iter().collect();
    let ids: Vec<_> = snapshots
        .iter()
        .map(|one| one.0.as_bytes().to_vec())
        .collect();
    let dropped: Option<Column<SnapshotId>> = sqlx::query_scalar(SELECT_DROPPED)
        .bind(project.as_str())
        .bind(ids)
        .fetch_optional(&mut *connection)
        .await
        .map_err(failure::of)?;
    match dropped {
        Some(Column(snapshot)) => Err(Error::Dropped { snapshot }),
        None => Ok(()),
    }
}

/// Takes the lock that orders the drop of versions of a project with records
/// that come to need them.
async fn lock(
    connection: &mut Connection,
    statement: &'static str,
    project: &ProjectId,
) -> Result<()> {
    sqlx::query(statement)
        .bind(project.as_str())
        .execute(connection)
        .await
        .map_err(failure::of)?;
    Ok(())
}
