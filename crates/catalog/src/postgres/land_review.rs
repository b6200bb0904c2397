//! The rows of reviews that a landing changes or opens.

use std::collections::{BTreeSet, HashMap};

use elevo_core::ReviewId;
use elevo_objects::{Entry, SnapshotId};
use serde::Serialize;

use super::land_call::hex;
use super::reviews;
use crate::bounds::{self, micros};
use crate::error::{Error, Kind, Result};
use crate::records::{EventKind, Landing, Review, ReviewState, Step};
use crate::stored;

/// A review as it was read, or as an earlier step of the landing has changed
/// it.
#[derive(sqlx::FromRow)]
pub(super) struct KnownReview {
    #[sqlx(flatten)]
    pub(super) review: Review,
    /// Version of the row; `None` if the landing has changed it.
    pub(super) seen: Option<String>,
}

/// A review in the form of the parameters of `land_1`.
#[derive(Serialize)]
pub(super) struct ReviewRow {
    is_new: bool,
    seen: Option<String>,
    id: String,
    workspace: Option<String>,
    agent: Option<String>,
    path: String,
    kind: String,
    base: Option<String>,
    ours: Option<String>,
    theirs: Option<String>,
    base_snapshot: String,
    ours_snapshot: String,
    theirs_snapshot: String,
    algorithm: String,
    state: &'static str,
    detail: String,
    created: i64,
    expires: Option<i64>,
    closed: Option<i64>,
    closed_by: Option<String>,
    resolution: Option<String>,
    successor: Option<String>,
    reopened: u32,
    event: Option<&'static str>,
    data: Option<String>,
}

/// Returns the rows of the reviews that a step changes, then of those that it
/// opens. Adds the snapshots that changed reviews come to need.
pub(super) fn rows(
    landing: &Landing,
    step: &Step,
    known: &mut HashMap<ReviewId, KnownReview>,
    needed: &mut BTreeSet<SnapshotId>,
) -> Result<Vec<ReviewRow>> {
    let mut rows = Vec::with_capacity(step.reviews.len() + step.opens.len());
    for change in &step.reviews {
        let what = Kind::Review;
        let found = known.get_mut(&change.id).ok_or(Error::NotFound { what })?;
        let was = found.review.state;
        found.review = change.change.apply(found.review.clone(), landing.now)?;
        if found.review.state == ReviewState::Open {
            needed.extend(found.review.sides.snapshots());
        }
        let event = reviews::event_of_change(was, found.review.state);
        let mut row = ReviewRow::of(&found.review, event)?;
        row.seen = found.seen.take();
        rows.push(row);
    }
    for review in &step.opens {
        let mut row = ReviewRow::of(review, Some(EventKind::ReviewOpened))?;
        row.is_new = true;
        rows.push(row);
    }
    Ok(rows)
}

impl ReviewRow {
    fn of(review: &Review, event: Option<EventKind>) -> Result<Self> {
        let (detail, resolution) = bounds::review_texts(review)?;
        let sides = &review.sides;
        let entry = |entry: &Option<Entry>| entry.as_ref().map(|one| hex(&stored::entry(one)));
        let snapshot = |snapshot: SnapshotId| hex(snapshot.0.as_bytes());
        Ok(Self {
            is_new: false,
            seen: None,
            id: review.id.to_string(),
            workspace: review.workspace.as_ref().map(ToString::to_string),
            agent: review.agent.as_ref().map(ToString::to_string),
            path: hex(&stored::path(&review.path)),
            kind: review.kind.clone(),
            base: entry(&sides.base),
            ours: entry(&sides.ours),
            theirs: entry(&sides.theirs),
            base_snapshot: snapshot(sides.base_snapshot),
            ours_snapshot: snapshot(sides.ours_snapshot),
            theirs_snapshot: snapshot(sides.theirs_snapshot),
            algorithm: review.algorithm.clone(),
            state: review.state.into(),
            detail,
            created: micros(review.created)?,
            expires: review.expires.map(micros).transpose()?,
            closed: review.closed.map(micros).transpose()?,
            closed_by: review.closed_by.clone(),
            resolution,
            successor: review.successor.as_ref().map(ToString::to_string),
            reopened: review.reopened,
            event: event.map(EventKind::name),
            data: event.map(|_| reviews::event_data(review).to_string()),
        })
    }
}
