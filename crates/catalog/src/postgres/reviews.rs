//! Statements on reviews.

use std::collections::HashMap;

use async_trait::async_trait;
use elevo_core::{ReviewId, TenantId, Timestamp, TreePath, WorkspaceId};
use elevo_objects::Entry;
use elevo_postgres::{Connection, Pool};
use serde_json::{Value, json};
use sqlx::{Postgres, QueryBuilder};

use super::land_review::KnownReview;
use super::{PostgresCatalog, events, failure, pages, retention};
use crate::bounds::{self, micros};
use crate::catalog::Reviews;
use crate::error::{Error, Kind, Result};
use crate::query::Page;
use crate::records::{
    EventKind, Landing, NewEvent, Review, ReviewChange, ReviewQuery, ReviewState,
};
use crate::sqlite::values;
use crate::stored;

macro_rules! columns {
    () => {
        "id, tenant, project, workspace, agent, path, kind, base, ours, theirs, base_snapshot, \
         ours_snapshot, theirs_snapshot, algorithm, state, detail, created, expires, closed, \
         closed_by, resolution, successor, reopened"
    };
}

const SELECT_ONE: &str = concat!(
    "SELECT ",
    columns!(),
    " FROM reviews WHERE id = $1 AND tenant = $2"
);

/// Selects a review and locks its row.
const SELECT_FOR_CHANGE: &str = concat!(
    "SELECT ",
    columns!(),
    " FROM reviews WHERE id = $1 AND tenant = $2 FOR NO KEY UPDATE"
);

pub(super) const SELECT_OPEN_OF: &str = concat!(
    "SELECT ",
    columns!(),
    " FROM reviews WHERE state = 'open' AND tenant = $1 AND workspace = $2 AND path >= $3 \
     ORDER BY path LIMIT $4"
);

pub(super) const SELECT_EXPIRED: &str = concat!(
    "SELECT ",
    columns!(),
    " FROM reviews WHERE state = 'open' AND expires <= $1 ORDER BY expires, id LIMIT $2"
);

/// Selects reviews of a project with the versions of their rows.
const SELECT_TO_LAND: &str = concat!(
    "SELECT ",
    columns!(),
    ", xmin::text AS seen FROM reviews WHERE tenant = $1 AND project = $2 AND id = ANY($3)"
);

/// Sets the columns that a change can set.
const UPDATE: &str = "UPDATE reviews SET base = $1, ours = $2, theirs = $3, base_snapshot = $4, \
                      ours_snapshot = $5, theirs_snapshot = $6, state = $7, detail = $8, \
                      expires = $9, closed = $10, closed_by = $11, resolution = $12, successor = $13, \
                      reopened = $14 WHERE id = $15";

#[async_trait]
impl Reviews for PostgresCatalog {
    async fn review(&self, tenant: TenantId, id: &ReviewId) -> Result<Option<Review>> {
        sqlx::query_as(SELECT_ONE)
            .bind(id.as_str())
            .bind(&tenant.as_bytes()[..])
            .fetch_optional(self.database.pool())
            .await
            .map_err(failure::of)
    }

    async fn reviews(&self, query: &ReviewQuery) -> Result<Page<Review>> {
        bounds::limit(query.limit)?;
        let mut count = QueryBuilder::new("SELECT count(*)");
        push_filtered(&mut count, query);
        let select = select_page(query)?;
        pages::page(&self.database, count, select).await
    }

    async fn open_reviews_of(
        &self,
        tenant: TenantId,
        workspace: &WorkspaceId,
        after: Option<&TreePath>,
        limit: u32,
    ) -> Result<Vec<Review>> {
        bounds::limit(limit)?;
        sqlx::query_as(SELECT_OPEN_OF)
            .bind(&tenant.as_bytes()[..])
            .bind(workspace.as_str())
            .bind(stored::path_after(after))
            .bind(i64::from(limit))
            .fetch_all(self.database.pool())
            .await
            .map_err(failure::of)
    }

    async fn expired_reviews_of_all_tenants(
        &self,
        now: Timestamp,
        limit: u32,
    ) -> Result<Vec<Review>> {
        bounds::limit(limit)?;
        sqlx::query_as(SELECT_EXPIRED)
            .bind(micros(now)?)
            .bind(i64::from(limit))
            .fetch_all(self.database.pool())
            .await
            .map_err(failure::of)
    }

    async fn change_review(
        &self,
        tenant: TenantId,
        id: &ReviewId,
        change: &ReviewChange,
        now: Timestamp,
    ) -> Result<Review> {
        let mut transaction = self.database.write().await?;
        let review = apply(&mut transaction, tenant, id, change, now).await?;
        self.database.commit(transaction).await?;
        Ok(review)
    }
}

/// Reads the reviews that a landing changes. Omits reviews of other projects.
pub(super) async fn to_land(
    pool: &Pool,
    landing: &Landing,
) -> Result<HashMap<ReviewId, KnownReview>> {
    let changes = landing.steps.iter().flat_map(|step| &step.reviews);
    let ids: Vec<String> = changes.map(|change| change.id.to_string()).collect();
    if ids.is_empty() {
        return Ok(HashMap::new());
    }
    let found: Vec<KnownReview> = sqlx::query_as(SELECT_TO_LAND)
        .bind(&landing.tenant.as_bytes()[..])
        .bind(landing.project.as_str())
        .bind(ids)
        .fetch_all(pool)
        .await
        .map_err(failure::of)?;
    let by_id = found.into_iter().map(|one| (one.review.id.clone(), one));
    Ok(by_id.collect())
}

fn entry(entry: &Option<Entry>) -> Option<Vec<u8>> {
    entry.as_ref().map(stored::entry)
}

/// Reads a review in the transaction of a change, so that no other change can
/// affect it until the transaction ends. `NotFound` if there is none.
async fn require(connection: &mut Connection, tenant: TenantId, id: &ReviewId) -> Result<Review> {
    let found = sqlx::query_as(SELECT_FOR_CHANGE)
        .bind(id.as_str())
        .bind(&tenant.as_bytes()[..])
        .fetch_optional(connection)
        .await
        .map_err(failure::of)?;
    let what = Kind::Review;
    found.ok_or(Error::NotFound { what })
}

async fn update(connection: &mut Connection, review: &Review) -> Result<()> {
    let (detail, resolution) = bounds::review_texts(review)?;
    let sides = &review.sides;
    if review.state == ReviewState::Open {
        retention::check_not_dropped(connection, &review.project, sides.snapshots()).await?;
    }
    sqlx::query(UPDATE)
        .bind(entry(&sides.base))
        .bind(entry(&sides.ours))
        .bind(entry(&sides.theirs))
        .bind(&sides.base_snapshot.0.as_bytes()[..])
        .bind(&sides.ours_snapshot.0.as_bytes()[..])
        .bind(&sides.theirs_snapshot.0.as_bytes()[..])
        .bind(values::to_word(review.state))
        .bind(detail)
        .bind(review.expires.map(micros).transpose()?)
        .bind(review.closed.map(micros).transpose()?)
        .bind(&review.closed_by)
        .bind(resolution)
        .bind(review.successor.as_deref())
        .bind(i64::from(review.reopened))
        .bind(review.id.as_str())
        .execute(connection)
        .await
        .map_err(failure::of_adding(Kind::Review))?;
    Ok(())
}

/// Changes a review, and records an event if it was opened or has ended.
async fn apply(
    connection: &mut Connection,
    tenant: TenantId,
    id: &ReviewId,
    change: &ReviewChange,
    now: Timestamp,
) -> Result<Review> {
    let before = require(connection, tenant, id).await?;
    let was = before.state;
    let review = change.apply(before, now)?;
    update(connection, &review).await?;
    if let Some(kind) = event_of_change(was, review.state) {
        record_event(connection, &review, kind, now).await?;
    }
    Ok(review)
}

/// Returns the kind of the event of a change of a review, if it has one.
pub(super) fn event_of_change(was: ReviewState, is: ReviewState) -> Option<EventKind> {
    match (was, is) {
        (ReviewState::Open, ReviewState::Open) => None,
        (_, ReviewState::Open) => Some(EventKind::ReviewOpened),
        (ReviewState::Open, _) => Some(EventKind::ReviewClosed),
        _ => None,
    }
}

/// Returns the details of an event about a review.
pub(super) fn event_data(review: &Review) -> Value {
    json!({
        "project": review.project,
        "review": review.id,
        "workspace": review.workspace,
        "kind": review.kind,
        "state": values::to_word(review.state),
    })
}

async fn record_event(
    connection: &mut Connection,
    review: &Review,
    kind: EventKind,
    at: Timestamp,
) -> Result<()> {
    let event = NewEvent {
        tenant: review.tenant,
        agent: review.agent.clone(),
        kind,
        subject: review.project.to_string(),
        at,
        data: event_data(review),
    };
    events::insert(connection, &event).await
}

/// Appends the table and the filters.
fn push_filtered(builder: &mut QueryBuilder<Postgres>, query: &ReviewQuery) {
    builder.push(" FROM reviews WHERE tenant = ");
    builder.push_bind(query.tenant.as_bytes().to_vec());
    if let Some(workspace) = &query.workspace {
        builder
            .push(" AND workspace = ")
            .push_bind(workspace.to_string());
    }
    if let Some(project) = &query.project {
        builder
            .push(" AND project = ")
            .push_bind(project.to_string());
    }
    match query.state {
        None => {}
        // Written out, not bound, to match the partial indexes of open reviews.
        Some(ReviewState::Open) => drop(builder.push(" AND state = 'open'")),
        Some(state) => drop(
            builder
                .push(" AND state = ")
                .push_bind(values::to_word(state)),
        ),
    }
}

/// Selects a page of reviews.
pub(super) fn select_page(query: &ReviewQuery) -> Result<QueryBuilder<Postgres>> {
    let mut select = QueryBuilder::new(concat!("SELECT ", columns!()));
    push_filtered(&mut select, query);
    if let Some(after) = &query.after {
        select.push(" AND (created, id) > (");
        select.push_bind(micros(after.created)?).push(", ");
        select.push_bind(after.id.clone()).push(")");
    }
    select.push(" ORDER BY created, id LIMIT ");
    select.push_bind(i64::from(query.limit));
    Ok(select)
}
