//! Landings: moves of a project's head, and the log of them.

use async_trait::async_trait;
use elevo_core::{ProjectId, TenantId};
use elevo_objects::SnapshotId;
use sqlx::{SqliteConnection, SqliteExecutor};

use super::values::sequence_bound;
use super::{SqliteCatalog, failure, projects, retention, steps};
use crate::bounds::{self, micros};
use crate::catalog::Landings;
use crate::columns::Column;
use crate::error::{Error, Kind, Result};
use crate::records::{Landed, LandedStep, Landing, LogEntry, Step};

/// The columns of an entry of the log, and the time at which its content was
/// dropped.
macro_rules! selected {
    () => {
        concat!(
            steps::columns!(),
            ", (SELECT dropped FROM dropped_versions one WHERE one.project = landings.project \
             AND one.snapshot = landings.snapshot) AS dropped"
        )
    };
}

const SELECT_ONE: &str = concat!(
    "SELECT ",
    selected!(),
    " FROM landings WHERE project = ",
    projects::own!(),
    " AND sequence = ?"
);

pub(super) const SELECT_BY_SNAPSHOT: &str = concat!(
    "SELECT ",
    selected!(),
    " FROM landings INDEXED BY landings_by_snapshot WHERE project = ",
    projects::own!(),
    " AND snapshot = ? ORDER BY sequence DESC LIMIT 1"
);

pub(super) const SELECT_PAGE: &str = concat!(
    "SELECT ",
    selected!(),
    " FROM landings WHERE project = ",
    projects::own!(),
    " AND sequence < ? ORDER BY sequence DESC LIMIT ?"
);

/// Selects at most one row, since a request is in only one of the two tables.
pub(super) const SELECT_BY_REQUEST: &str = concat!(
    "WITH own (id) AS ",
    projects::own!(),
    " SELECT sequence, snapshot FROM landings WHERE project = (SELECT id FROM own) \
     AND request = ?3 UNION ALL SELECT NULL, head FROM held_requests \
     WHERE project = (SELECT id FROM own) AND request = ?3"
);

/// Number of changed paths above which a landing is a large change.
const LARGE: usize = 5000;

const MOVE_HEAD: &str = "UPDATE projects SET head = ?, sequence = ?, updated = ? WHERE id = ?";

/// The columns of a project that a landing is compared with.
#[derive(sqlx::FromRow)]
struct ProjectState {
    #[sqlx(try_from = "Column<SnapshotId>")]
    head: SnapshotId,
    #[sqlx(try_from = "Column<u64>")]
    sequence: u64,
    #[sqlx(try_from = "Column<u64>")]
    policy_version: u64,
    removing: bool,
}

#[async_trait]
impl Landings for SqliteCatalog {
    // Runs in one transaction, with no concurrent writer.
    async fn land(&self, landing: &Landing) -> Result<Landed> {
        bounds::landing(landing)?;
        let changes = landing.steps.iter().map(|step| step.changes.len());
        // Waits for other large changes before `write`, so that small changes
        // need not wait for them meanwhile.
        let _large = if changes.sum::<usize>() > LARGE {
            Some(self.database.large().await?)
        } else {
            None
        };
        let mut transaction = self.database.write().await?;
        let mut sequence = check(&mut transaction, landing).await?;
        let mut head = landing.expected_head;
        let mut steps = Vec::with_capacity(landing.steps.len());
        for step in &landing.steps {
            let moves = step.snapshot != head;
            sequence += u64::from(moves);
            let landed = LandedStep {
                sequence: moves.then_some(sequence),
                head: step.snapshot,
            };
            steps::carry_out(&mut transaction, landing, step, head, landed).await?;
            head = step.snapshot;
            steps.push(landed);
        }
        if steps.iter().any(|step| step.sequence.is_some()) {
            move_head(&mut transaction, landing, head, sequence).await?;
        }
        transaction.commit().await?;
        Ok(Landed {
            head,
            sequence,
            steps,
        })
    }

    async fn landing_by_request(
        &self,
        tenant: TenantId,
        project: &ProjectId,
        request: &str,
    ) -> Result<Option<LandedStep>> {
        by_request(self.database.readers(), tenant, project, request).await
    }

    async fn landing(
        &self,
        tenant: TenantId,
        project: &ProjectId,
        sequence: u64,
    ) -> Result<Option<LogEntry>> {
        sqlx::query_as(SELECT_ONE)
            .bind(&tenant.as_bytes()[..])
            .bind(project.as_str())
            .bind(sequence_bound(Some(sequence)))
            .fetch_optional(self.database.readers())
            .await
            .map_err(failure::of)
    }

    async fn landing_of_snapshot(
        &self,
        tenant: TenantId,
        project: &ProjectId,
        snapshot: SnapshotId,
    ) -> Result<Option<LogEntry>> {
        sqlx::query_as(SELECT_BY_SNAPSHOT)
            .bind(&tenant.as_bytes()[..])
            .bind(project.as_str())
            .bind(&snapshot.0.as_bytes()[..])
            .fetch_optional(self.database.readers())
            .await
            .map_err(failure::of)
    }

    async fn log(
        &self,
        tenant: TenantId,
        project: &ProjectId,
        before: Option<u64>,
        limit: u32,
    ) -> Result<Vec<LogEntry>> {
        bounds::limit(limit)?;
        sqlx::query_as(SELECT_PAGE)
            .bind(&tenant.as_bytes()[..])
            .bind(project.as_str())
            .bind(sequence_bound(before))
            .bind(limit)
            .fetch_all(self.database.readers())
            .await
            .map_err(failure::of)
    }
}

/// Checks whether the project accepts the landing. Returns the number of
/// landings before it.
async fn check(connection: &mut SqliteConnection, landing: &Landing) -> Result<u64> {
    let what = Kind::Project;
    let select = "SELECT head, sequence, policy_version, removing FROM projects \
                  WHERE tenant = ? AND id = ?";
    let found: Option<ProjectState> = sqlx::query_as(select)
        .bind(&landing.tenant.as_bytes()[..])
        .bind(landing.project.as_str())
        .fetch_optional(&mut *connection)
        .await
        .map_err(failure::of)?;
    let project = found.ok_or(Error::NotFound { what })?;
    // Check for a repeated request before the head: a retry expects a head that
    // has since moved.
    check_requests(connection, landing).await?;
    if project.removing {
        return Err(Error::BeingRemoved { what });
    }
    let ProjectState { head, sequence, .. } = project;
    if head != landing.expected_head {
        return Err(Error::HeadMoved { head, sequence });
    }
    let version = project.policy_version;
    if version != landing.expected_policy {
        return Err(Error::PolicyMoved { version });
    }
    // A retention run may have dropped a snapshot since the merge was computed.
    let needed = landing.steps.iter().flat_map(needed_by);
    retention::check_not_dropped(connection, &landing.project, needed).await?;
    Ok(sequence)
}

/// Returns the snapshots that records need after a step.
fn needed_by(step: &Step) -> impl Iterator<Item = SnapshotId> {
    let base = step
        .base
        .iter()
        .flat_map(|moved| [moved.base, moved.synced]);
    let opened = step
        .opens
        .iter()
        .flat_map(|review| review.sides.snapshots());
    [step.snapshot].into_iter().chain(base).chain(opened)
}

async fn check_requests(connection: &mut SqliteConnection, landing: &Landing) -> Result<()> {
    for request in landing
        .steps
        .iter()
        .filter_map(|step| step.request.as_ref())
    {
        let Landing {
            tenant, project, ..
        } = landing;
        let known = by_request(&mut *connection, *tenant, project, request).await?;
        if let Some(landed) = known {
            return Err(Error::Repeated {
                request: request.clone(),
                landed,
            });
        }
    }
    Ok(())
}

async fn move_head(
    connection: &mut SqliteConnection,
    landing: &Landing,
    head: SnapshotId,
    sequence: u64,
) -> Result<()> {
    sqlx::query(MOVE_HEAD)
        .bind(&head.0.as_bytes()[..])
        .bind(sequence as i64)
        .bind(micros(landing.now)?)
        .bind(landing.project.as_str())
        .execute(connection)
        .await
        .map_err(failure::of)?;
    Ok(())
}

async fn by_request(
    executor: impl SqliteExecutor<'_>,
    tenant: TenantId,
    project: &ProjectId,
    request: &str,
) -> Result<Option<LandedStep>> {
    sqlx::query_as(SELECT_BY_REQUEST)
        .bind(&tenant.as_bytes()[..])
        .bind(project.as_str())
        .bind(request)
        .fetch_optional(executor)
        .await
        .map_err(failure::of)
}
