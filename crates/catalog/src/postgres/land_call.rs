//! The call of `land_1`, which lands all steps of a landing or none.

use std::collections::{BTreeSet, HashMap};

use elevo_core::ReviewId;
use elevo_objects::{Hash, SnapshotId};
use elevo_postgres::Pool;
use serde::{Deserialize, Serialize};

use super::land_review::{self, KnownReview, ReviewRow};
use super::{failure, reviews};
use crate::bounds::{self, micros};
use crate::error::{Error, Kind, Result};
use crate::limits::MAX_COUNTS_BYTES;
use crate::records::{BaseMove, LandedStep, Landing, PathChange, Step};
use crate::stored;

const LAND: &str = "SELECT land_1($1, $2, $3, $4, $5, $6, $7::jsonb)";

/// A landing in the form of the parameters of `land_1`.
pub(super) struct Call<'a> {
    landing: &'a Landing,
    /// The snapshots that records need after the landing.
    needed: BTreeSet<SnapshotId>,
    steps: Vec<StepRow<'a>>,
    /// The reason why a review cannot be changed.
    refused: Option<Error>,
}

/// The result of a call.
pub(super) enum Outcome {
    /// All steps have landed; the sequence number of the head.
    Landed(u64),
    /// A review was changed after it was read. Nothing has landed.
    ReviewMoved,
}

#[derive(Serialize)]
struct StepRow<'a> {
    snapshot: String,
    kind: &'static str,
    agent: Option<&'a str>,
    workspace: Option<&'a str>,
    key: &'a str,
    message: &'a str,
    request: Option<&'a str>,
    counts: String,
    changes: Vec<ChangeRow<'a>>,
    reviews: Vec<ReviewRow>,
    base: Option<BaseRow>,
}

#[derive(Serialize)]
struct ChangeRow<'a> {
    path: String,
    kind: &'static str,
    origin: Option<String>,
    before: Option<String>,
    after: Option<String>,
    files: u64,
    whole: bool,
    algorithm: &'a str,
}

#[derive(Serialize)]
struct BaseRow {
    expected: String,
    base: String,
    synced: String,
    settled: Vec<String>,
}

impl<'a> Call<'a> {
    /// Prepares a call, and reads the reviews that it changes.
    pub(super) async fn prepare(landing: &'a Landing, pool: &Pool) -> Result<Self> {
        let mut known = reviews::to_land(pool, landing).await?;
        let mut call = Self {
            landing,
            needed: landing.steps.iter().flat_map(needed_by).collect(),
            steps: Vec::with_capacity(landing.steps.len()),
            refused: None,
        };
        for step in &landing.steps {
            let row = call.row(step, &mut known)?;
            call.steps.push(row);
        }
        Ok(call)
    }

    fn row(
        &mut self,
        step: &'a Step,
        known: &mut HashMap<ReviewId, KnownReview>,
    ) -> Result<StepRow<'a>> {
        let rows = land_review::rows(self.landing, step, known, &mut self.needed);
        let reviews = rows.or_else(|error| match error {
            Error::Failed(_) => Err(error),
            // The landing is still checked: a moved head has precedence.
            refused => {
                self.refused.get_or_insert(refused);
                Ok(Vec::new())
            }
        })?;
        let mut changes: Vec<_> = step.changes.iter().collect();
        // Neighbours in the index are inserted together.
        changes.sort_unstable_by(|one, other| one.path.cmp(&other.path));
        Ok(StepRow {
            snapshot: hex_of(step.snapshot),
            kind: step.kind.into(),
            agent: step.agent.as_deref(),
            workspace: step.workspace.as_deref(),
            key: step.key.as_str(),
            message: &step.message,
            request: step.request.as_deref(),
            counts: bounds::json("counts", &step.counts, MAX_COUNTS_BYTES)?,
            changes: changes.into_iter().map(ChangeRow::of).collect(),
            reviews,
            base: step.base.as_ref().map(BaseRow::of),
        })
    }

    /// Lands all steps, or none.
    pub(super) async fn run(self, pool: &Pool) -> Result<Outcome> {
        let landing = self.landing;
        let steps = match self.refused {
            Some(_) => "[]".to_owned(),
            None => to_json(&self.steps)?,
        };
        let needed: Vec<Vec<u8>> = self
            .needed
            .iter()
            .map(|one| one.0.as_bytes().to_vec())
            .collect();
        let called: sqlx::Result<i64> = sqlx::query_scalar(LAND)
            .bind(&landing.tenant.as_bytes()[..])
            .bind(landing.project.as_str())
            .bind(&landing.expected_head.0.as_bytes()[..])
            .bind(i64::try_from(landing.expected_policy).unwrap_or(i64::MAX))
            .bind(micros(landing.now)?)
            .bind(needed)
            .bind(steps)
            .fetch_one(pool)
            .await;
        match (called, self.refused) {
            (Ok(_), Some(refused)) => Err(refused),
            (Ok(sequence), None) => Ok(Outcome::Landed(sequence as u64)),
            (Err(error), _) => refusal(error),
        }
    }
}

impl<'a> ChangeRow<'a> {
    fn of(change: &'a PathChange) -> Self {
        Self {
            path: hex(&stored::path(&change.path)),
            kind: change.kind.into(),
            origin: change.from.as_ref().map(|path| hex(&stored::path(path))),
            before: change
                .before
                .as_ref()
                .map(|entry| hex(&stored::entry(entry))),
            after: change
                .after
                .as_ref()
                .map(|entry| hex(&stored::entry(entry))),
            files: change.files,
            whole: change.is_whole(),
            algorithm: &change.algorithm,
        }
    }
}

impl BaseRow {
    fn of(moved: &BaseMove) -> Self {
        let settled = moved.settled.iter();
        Self {
            expected: hex_of(moved.expected),
            base: hex_of(moved.base),
            synced: hex_of(moved.synced),
            settled: settled.map(|path| hex(&stored::path(path))).collect(),
        }
    }
}

/// Returns the snapshots that records need after a step, except those of the
/// reviews that it changes.
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

/// Converts an error of `land_1`.
fn refusal(error: sqlx::Error) -> Result<Outcome> {
    let inner = error.as_database_error();
    let code = inner.and_then(|inner| inner.code()).unwrap_or_default();
    let detail = inner
        .and_then(|inner| inner.try_downcast_ref::<sqlx::postgres::PgDatabaseError>())
        .and_then(|inner| inner.detail())
        .unwrap_or_default();
    Err(match &*code {
        "EL001" => Error::NotFound {
            what: Kind::Project,
        },
        "EL002" => {
            let (request, head, sequence): (String, String, Option<u64>) = values(detail)?;
            let head = snapshot(&head)?;
            let landed = LandedStep { sequence, head };
            Error::Repeated { request, landed }
        }
        "EL003" => Error::BeingRemoved {
            what: Kind::Project,
        },
        "EL004" => {
            let (head, sequence): (String, u64) = values(detail)?;
            let head = snapshot(&head)?;
            Error::HeadMoved { head, sequence }
        }
        "EL005" => {
            let (version,): (u64,) = values(detail)?;
            Error::PolicyMoved { version }
        }
        "EL006" => {
            let (dropped,): (String,) = values(detail)?;
            let snapshot = snapshot(&dropped)?;
            Error::Dropped { snapshot }
        }
        "EL007" => Error::NotFound {
            what: Kind::Workspace,
        },
        "EL008" => Error::Changed {
            what: Kind::Workspace,
        },
        "EL009" => return Ok(Outcome::ReviewMoved),
        _ => failure::of_adding(Kind::Review)(error),
    })
}

fn values<'a, T: Deserialize<'a>>(detail: &'a str) -> Result<T> {
    serde_json::from_str(detail).map_err(|error| Error::Failed(Box::new(error)))
}

fn snapshot(text: &str) -> Result<SnapshotId> {
    let hash: Option<Hash> = text.parse().ok();
    let hash = hash.ok_or_else(|| Error::Damaged("a snapshot".into()))?;
    Ok(SnapshotId(hash))
}

fn to_json(value: &impl Serialize) -> Result<String> {
    serde_json::to_string(value).map_err(|error| Error::Failed(Box::new(error)))
}

fn hex_of(snapshot: SnapshotId) -> String {
    hex(snapshot.0.as_bytes())
}

/// Returns bytes in hexadecimal.
pub(super) fn hex(bytes: &[u8]) -> String {
    bytes
        .iter()
        .fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
            for digit in [byte >> 4, byte & 15] {
                text.push(char::from_digit(digit.into(), 16).unwrap_or_default());
            }
            text
        })
}
