//! The steps of a landing.

use elevo_objects::SnapshotId;
use serde_json::json;
use sqlx::SqliteConnection;

use super::{events, failure, reviews, unsettled, values, versions, workspaces};
use crate::bounds::{self, micros};
use crate::error::{Error, Kind, Result};
use crate::limits::MAX_COUNTS_BYTES;
use crate::records::{EventKind, LandedStep, Landing, NewEvent, ReviewStep, Step};

macro_rules! columns {
    () => {
        "project, sequence, snapshot, parent, kind, agent, workspace, api_key, message, request, \
         counts, created"
    };
}
pub(super) use columns;

const INSERT: &str = concat!(
    "INSERT INTO landings (",
    columns!(),
    ") VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
);

/// Carries out one step of a landing, except the move of the head.
pub(super) async fn carry_out(
    connection: &mut SqliteConnection,
    landing: &Landing,
    step: &Step,
    parent: SnapshotId,
    landed: LandedStep,
) -> Result<()> {
    match landed.sequence {
        Some(sequence) => {
            insert(connection, landing, step, parent, sequence).await?;
            let project = &landing.project;
            versions::insert(connection, project, sequence, &step.changes).await?;
            let event = NewEvent {
                tenant: landing.tenant,
                agent: step.agent.clone(),
                kind: EventKind::ProjectLanded,
                subject: project.to_string(),
                at: landing.now,
                data: json!({ "project": project, "step": sequence }),
            };
            events::insert(connection, &event).await?;
        }
        None => record_held_request(connection, landing, step).await?,
    }
    // Changes reviews before it opens new ones: a change may close a review,
    // and a new review may be for the same path.
    for ReviewStep { id, change } in &step.reviews {
        let tenant = landing.tenant;
        let review = reviews::require(connection, tenant, id).await?;
        if review.project != landing.project {
            let what = Kind::Review;
            return Err(Error::NotFound { what });
        }
        reviews::apply(connection, tenant, id, change, landing.now).await?;
    }
    for review in &step.opens {
        reviews::insert(connection, review).await?;
        let opened = EventKind::ReviewOpened;
        reviews::record_event(connection, review, opened, landing.now).await?;
    }
    move_base(connection, landing, step).await
}

async fn insert(
    connection: &mut SqliteConnection,
    landing: &Landing,
    step: &Step,
    parent: SnapshotId,
    sequence: u64,
) -> Result<()> {
    sqlx::query(INSERT)
        .bind(landing.project.as_str())
        .bind(sequence as i64)
        .bind(&step.snapshot.0.as_bytes()[..])
        .bind(&parent.0.as_bytes()[..])
        .bind(values::to_word(step.kind))
        .bind(step.agent.as_deref())
        .bind(step.workspace.as_deref())
        .bind(step.key.as_str())
        .bind(&step.message)
        .bind(&step.request)
        .bind(bounds::json("counts", &step.counts, MAX_COUNTS_BYTES)?)
        .bind(micros(landing.now)?)
        .execute(connection)
        .await
        .map_err(failure::of)?;
    Ok(())
}

async fn record_held_request(
    connection: &mut SqliteConnection,
    landing: &Landing,
    step: &Step,
) -> Result<()> {
    let Some(request) = &step.request else {
        return Ok(());
    };
    // A held step has no entry in the log, so its request is recorded here,
    // where a retry finds it.
    sqlx::query("INSERT INTO held_requests (project, request, head) VALUES (?, ?, ?)")
        .bind(landing.project.as_str())
        .bind(request)
        .bind(&step.snapshot.0.as_bytes()[..])
        .execute(connection)
        .await
        .map_err(failure::of)?;
    Ok(())
}

async fn move_base(
    connection: &mut SqliteConnection,
    landing: &Landing,
    step: &Step,
) -> Result<()> {
    let (Some(id), Some(moved)) = (&step.workspace, &step.base) else {
        return Ok(());
    };
    let workspace = workspaces::require(connection, landing.tenant, id).await?;
    if workspace.project.as_ref() != Some(&landing.project) {
        let what = Kind::Workspace;
        return Err(Error::NotFound { what });
    }
    unsettled::remove(connection, id, &moved.settled).await?;
    workspaces::update(connection, &moved.apply(workspace, landing.now)?).await
}
