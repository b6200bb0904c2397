//! Statements on reviews.

use async_trait::async_trait;
use elevo_core::{ReviewId, TenantId, Timestamp, TreePath, WorkspaceId};
use elevo_objects::Entry;
use serde_json::json;
use sqlx::{QueryBuilder, Sqlite, SqliteConnection, SqliteExecutor};

use super::{SqliteCatalog, events, failure, pages, retention, values};
use crate::bounds::{self, micros};
use crate::catalog::Reviews;
use crate::error::{Error, Kind, Result};
use crate::query::Page;
use crate::records::{EventKind, NewEvent, Review, ReviewChange, ReviewQuery, ReviewState};
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
    " FROM reviews WHERE id = ? AND tenant = ?"
);

pub(super) const SELECT_OPEN_OF: &str = concat!(
    "SELECT ",
    columns!(),
    " FROM reviews WHERE state = 'open' AND tenant = ? AND workspace = ? AND path >= ? \
     ORDER BY path LIMIT ?"
);

pub(super) const SELECT_EXPIRED: &str = concat!(
    "SELECT ",
    columns!(),
    " FROM reviews WHERE state = 'open' AND expires <= ? ORDER BY expires, id LIMIT ?"
);

const INSERT: &str = concat!(
    "INSERT INTO reviews (",
    columns!(),
    ") VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
);

/// Sets the columns that a change can set.
const UPDATE: &str = "UPDATE reviews SET base = ?, ours = ?, theirs = ?, base_snapshot = ?, \
                      ours_snapshot = ?, theirs_snapshot = ?, state = ?, detail = ?, \
                      expires = ?, closed = ?, closed_by = ?, resolution = ?, successor = ?, \
                      reopened = ? WHERE id = ?";

#[async_trait]
impl Reviews for SqliteCatalog {
    async fn review(&self, tenant: TenantId, id: &ReviewId) -> Result<Option<Review>> {
        find(self.database.readers(), tenant, id).await
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
            .bind(limit)
            .fetch_all(self.database.readers())
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
            .bind(limit)
            .fetch_all(self.database.readers())
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
        transaction.commit().await?;
        Ok(review)
    }
}

pub(super) async fn insert(connection: &mut SqliteConnection, review: &Review) -> Result<()> {
    let (detail, resolution) = bounds::review_texts(review)?;
    let sides = &review.sides;
    sqlx::query(INSERT)
        .bind(review.id.as_str())
        .bind(&review.tenant.as_bytes()[..])
        .bind(review.project.as_str())
        .bind(review.workspace.as_deref())
        .bind(review.agent.as_deref())
        .bind(stored::path(&review.path))
        .bind(&review.kind)
        .bind(entry(&sides.base))
        .bind(entry(&sides.ours))
        .bind(entry(&sides.theirs))
        .bind(&sides.base_snapshot.0.as_bytes()[..])
        .bind(&sides.ours_snapshot.0.as_bytes()[..])
        .bind(&sides.theirs_snapshot.0.as_bytes()[..])
        .bind(&review.algorithm)
        .bind(values::to_word(review.state))
        .bind(detail)
        .bind(micros(review.created)?)
        .bind(review.expires.map(micros).transpose()?)
        .bind(review.closed.map(micros).transpose()?)
        .bind(&review.closed_by)
        .bind(resolution)
        .bind(review.successor.as_deref())
        .bind(review.reopened)
        .execute(connection)
        .await
        .map_err(failure::of_adding(Kind::Review))?;
    Ok(())
}

async fn find(
    executor: impl SqliteExecutor<'_>,
    tenant: TenantId,
    id: &ReviewId,
) -> Result<Option<Review>> {
    sqlx::query_as(SELECT_ONE)
        .bind(id.as_str())
        .bind(&tenant.as_bytes()[..])
        .fetch_optional(executor)
        .await
        .map_err(failure::of)
}

fn entry(entry: &Option<Entry>) -> Option<Vec<u8>> {
    entry.as_ref().map(stored::entry)
}

/// Reads a review in the transaction of a change, so that no other change can
/// affect it until the transaction ends. `NotFound` if there is none.
pub(super) async fn require(
    connection: &mut SqliteConnection,
    tenant: TenantId,
    id: &ReviewId,
) -> Result<Review> {
    let found = find(connection, tenant, id).await?;
    let what = Kind::Review;
    found.ok_or(Error::NotFound { what })
}

pub(super) async fn update(connection: &mut SqliteConnection, review: &Review) -> Result<()> {
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
        .bind(review.reopened)
        .bind(review.id.as_str())
        .execute(connection)
        .await
        .map_err(failure::of_adding(Kind::Review))?;
    Ok(())
}

/// Changes a review, and records an event if it was opened or has ended.
pub(super) async fn apply(
    connection: &mut SqliteConnection,
    tenant: TenantId,
    id: &ReviewId,
    change: &ReviewChange,
    now: Timestamp,
) -> Result<Review> {
    let before = require(connection, tenant, id).await?;
    let was = before.state;
    let review = change.apply(before, now)?;
    update(connection, &review).await?;
    let kind = match (was, review.state) {
        (ReviewState::Open, ReviewState::Open) => return Ok(review),
        (_, ReviewState::Open) => EventKind::ReviewOpened,
        (ReviewState::Open, _) => EventKind::ReviewClosed,
        _ => return Ok(review),
    };
    record_event(connection, &review, kind, now).await?;
    Ok(review)
}

pub(super) async fn record_event(
    connection: &mut SqliteConnection,
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
        data: json!({
            "project": review.project,
            "review": review.id,
            "workspace": review.workspace,
            "kind": review.kind,
            "state": values::to_word(review.state),
        }),
    };
    events::insert(connection, &event).await
}

/// Appends the table and the filters. Names the index, since SQLite would
/// choose a longer one where several are suitable.
fn push_filtered(builder: &mut QueryBuilder<Sqlite>, query: &ReviewQuery) {
    let is_open = query.state == Some(ReviewState::Open);
    builder.push(match (&query.workspace, &query.project) {
        (Some(_), _) => " FROM reviews INDEXED BY reviews_by_workspace",
        (None, Some(_)) if is_open => " FROM reviews INDEXED BY reviews_open_of_project",
        (None, Some(_)) => " FROM reviews INDEXED BY reviews_by_project",
        (None, None) if is_open => " FROM reviews INDEXED BY reviews_open",
        (None, None) => " FROM reviews INDEXED BY reviews_by_tenant",
    });
    builder.push(" WHERE tenant = ");
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
pub(super) fn select_page(query: &ReviewQuery) -> Result<QueryBuilder<Sqlite>> {
    let mut select = QueryBuilder::new(concat!("SELECT ", columns!()));
    push_filtered(&mut select, query);
    if let Some(after) = &query.after {
        select.push(" AND (created, id) > (");
        select.push_bind(micros(after.created)?).push(", ");
        select.push_bind(after.id.clone()).push(")");
    }
    select.push(" ORDER BY created, id LIMIT ");
    select.push_bind(query.limit);
    Ok(select)
}
