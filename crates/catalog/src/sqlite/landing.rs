//! Landings: moves of a project's head.

use elevo_objects::SnapshotId;
use serde_json::json;
use sqlx::SqliteConnection;

use super::database::Database;
use super::{events, failure, log, retention, reviews, rows, unsettled, versions, workspaces};
use crate::bounds::{self, MAX_COUNTS_BYTES, micros};
use crate::error::{Error, Kind, Result};
use crate::records::{EventKind, Landed, LandedStep, Landing, NewEvent, ReviewStep, Step};

const INSERT: &str = concat!(
    "INSERT INTO landings (",
    log::columns!(),
    ") VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
);

/// Number of changed paths above which a landing is a large change.
const LARGE: usize = 5000;

const MOVE_HEAD: &str = "UPDATE projects SET head = ?, sequence = ?, updated = ? WHERE id = ?";

/// Runs in one transaction, with no concurrent writer.
pub(super) async fn land(database: &Database, landing: &Landing) -> Result<Landed> {
    bounds::landing(landing)?;
    let changes = landing.steps.iter().map(|step| step.changes.len());
    // Before the turn: a large change that waits for another one must not make
    // small changes wait.
    let _large = match changes.sum::<usize>() > LARGE {
        true => Some(database.large().await?),
        false => None,
    };
    let mut transaction = database.write().await?;
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
        carry_out(&mut transaction, landing, step, head, landed).await?;
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

/// Returns the number of landings, if the checks of the project allow another
/// one.
async fn check(connection: &mut SqliteConnection, landing: &Landing) -> Result<u64> {
    let what = Kind::Project;
    let select = "SELECT head, sequence, policy_version, removing FROM projects \
                  WHERE tenant = ? AND id = ?";
    let row = sqlx::query(select)
        .bind(&landing.tenant.as_bytes()[..])
        .bind(&landing.project)
        .fetch_optional(&mut *connection)
        .await
        .map_err(failure::of)?;
    let row = row.ok_or(Error::NotFound { what })?;
    // Check for a repeated request before the head: a retry expects a head that
    // has since moved.
    check_requests(connection, landing).await?;
    if rows::get(&row, "removing")? {
        return Err(Error::BeingRemoved { what });
    }
    let head = rows::snapshot(&row, "head")?;
    let sequence = rows::number(&row, "sequence")?;
    if head != landing.expected_head {
        return Err(Error::HeadMoved { head, sequence });
    }
    let version = rows::number(&row, "policy_version")?;
    if version != landing.expected_policy {
        return Err(Error::PolicyMoved { version });
    }
    // A retention run may have dropped a snapshot since the merge was computed.
    let needed = landing.steps.iter().flat_map(needed_by);
    retention::check_kept(connection, &landing.project, needed).await?;
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
        let known = log::by_request(&mut *connection, &landing.project, request).await?;
        if let Some(landed) = known {
            return Err(Error::Repeated {
                request: request.clone(),
                landed,
            });
        }
    }
    Ok(())
}

async fn carry_out(
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
                subject: project.clone(),
                at: landing.now,
                data: json!({ "projectId": project, "sequence": sequence }),
            };
            events::insert(connection, &event).await?;
        }
        None => note_held(connection, landing, step).await?,
    }
    // First the changes, which may close reviews: a new review may be for the
    // same path.
    for ReviewStep { id, change } in &step.reviews {
        let review = reviews::held(connection, id).await?;
        if (review.tenant, &review.project) != (landing.tenant, &landing.project) {
            let what = Kind::Review;
            return Err(Error::NotFound { what });
        }
        reviews::apply(connection, id, change, landing.now).await?;
    }
    for review in &step.opens {
        reviews::insert(connection, review).await?;
        let opened = EventKind::ReviewOpened;
        reviews::tell(connection, review, opened, landing.now).await?;
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
        .bind(&landing.project)
        .bind(sequence as i64)
        .bind(&step.snapshot.0.as_bytes()[..])
        .bind(&parent.0.as_bytes()[..])
        .bind(rows::to_word(step.kind))
        .bind(&step.agent)
        .bind(&step.workspace)
        .bind(&step.key)
        .bind(&step.message)
        .bind(&step.request)
        .bind(bounds::json("counts", &step.counts, MAX_COUNTS_BYTES)?)
        .bind(micros(landing.now)?)
        .execute(connection)
        .await
        .map_err(failure::of)?;
    Ok(())
}

async fn note_held(
    connection: &mut SqliteConnection,
    landing: &Landing,
    step: &Step,
) -> Result<()> {
    let Some(request) = &step.request else {
        return Ok(());
    };
    // The step has no entry in the log, where a retry would find its request.
    sqlx::query("INSERT INTO held_requests (project, request, head) VALUES (?, ?, ?)")
        .bind(&landing.project)
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
    let workspace = workspaces::held(connection, landing.tenant, id).await?;
    if workspace.project.as_ref() != Some(&landing.project) {
        let what = Kind::Workspace;
        return Err(Error::NotFound { what });
    }
    unsettled::remove(connection, id, &moved.settled).await?;
    workspaces::update(connection, &moved.apply(workspace, landing.now)?).await
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
        .bind(&landing.project)
        .execute(connection)
        .await
        .map_err(failure::of)?;
    Ok(())
}
