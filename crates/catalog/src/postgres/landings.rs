//! Landings: moves of a project's head, and the log of them.

use async_trait::async_trait;
use elevo_core::{ProjectId, TenantId};
use elevo_objects::SnapshotId;
use sqlx::PgExecutor;

use super::land_call::{Call, Outcome};
use super::values::searched;
use super::{PostgresCatalog, failure, projects, steps};
use crate::bounds;
use crate::catalog::Landings;
use crate::error::{Error, Result};
use crate::records::{Landed, LandedStep, Landing, LogEntry};
use crate::sqlite::values::sequence_bound;

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
    " AND sequence = $3"
);

pub(super) const SELECT_BY_SNAPSHOT: &str = concat!(
    "SELECT ",
    selected!(),
    " FROM landings WHERE project = ",
    projects::own!(),
    " AND snapshot = $3 ORDER BY sequence DESC LIMIT 1"
);

pub(super) const SELECT_PAGE: &str = concat!(
    "SELECT ",
    selected!(),
    " FROM landings WHERE project = ",
    projects::own!(),
    " AND sequence < $3 ORDER BY sequence DESC LIMIT $4"
);

/// Selects at most one row, since a request is in only one of the two tables.
pub(super) const SELECT_BY_REQUEST: &str = concat!(
    "WITH own (id) AS ",
    projects::own!(),
    " SELECT sequence, snapshot FROM landings WHERE project = (SELECT id FROM own) \
     AND request = $3 UNION ALL SELECT NULL, head FROM held_requests \
     WHERE project = (SELECT id FROM own) AND request = $3"
);

/// Maximum number of times that a landing is computed again because a review
/// that it changes was changed.
const MAX_ATTEMPTS: u32 = 16;

#[async_trait]
impl Landings for PostgresCatalog {
    // One call of a function that is its own transaction, and one to read the
    // reviews that the landing changes.
    async fn land(&self, landing: &Landing) -> Result<Landed> {
        bounds::landing(landing)?;
        for _ in 0..MAX_ATTEMPTS {
            let call = Call::prepare(landing, self.database.pool()).await?;
            match call.run(self.database.pool()).await? {
                Outcome::Landed(sequence) => {
                    self.database.follower().note_change();
                    return Ok(landed(landing, sequence));
                }
                Outcome::ReviewMoved => {}
            }
        }
        Err(Error::Busy)
    }

    async fn landing_by_request(
        &self,
        tenant: TenantId,
        project: &ProjectId,
        request: &str,
    ) -> Result<Option<LandedStep>> {
        by_request(self.database.pool(), tenant, project, request).await
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
            .fetch_optional(self.database.pool())
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
            .fetch_optional(self.database.pool())
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
            .bind(i64::from(limit))
            .fetch_all(self.database.pool())
            .await
            .map_err(failure::of)
    }
}

/// Returns the result of a landing that moved the head up to this number.
fn landed(landing: &Landing, sequence: u64) -> Landed {
    let mut head = landing.expected_head;
    let moves = landing.steps.iter().map(|step| {
        let moves = step.snapshot != head;
        head = step.snapshot;
        moves
    });
    let moves: Vec<bool> = moves.collect();
    let mut reached = sequence - moves.iter().filter(|&&moves| moves).count() as u64;
    let steps = landing.steps.iter().zip(moves).map(|(step, moves)| {
        reached += u64::from(moves);
        LandedStep {
            sequence: moves.then_some(reached),
            head: step.snapshot,
        }
    });
    let steps = steps.collect();
    Landed {
        head,
        sequence,
        steps,
    }
}

async fn by_request(
    executor: impl PgExecutor<'_>,
    tenant: TenantId,
    project: &ProjectId,
    request: &str,
) -> Result<Option<LandedStep>> {
    sqlx::query_as(SELECT_BY_REQUEST)
        .bind(&tenant.as_bytes()[..])
        .bind(project.as_str())
        .bind(searched(request))
        .fetch_optional(executor)
        .await
        .map_err(failure::of)
}
