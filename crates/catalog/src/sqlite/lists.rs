//! Lists of sandboxes.

use std::collections::BTreeMap;

use elevo_core::{SandboxState, TenantId, Timestamp};
use sqlx::sqlite::SqliteRow;
use sqlx::{QueryBuilder, Sqlite};

use super::database::Database;
use super::sandboxes::columns;
use super::{failure, rows};
use crate::bounds::{self, micros};
use crate::error::{Error, Result};
use crate::query::{Page, Position, SandboxQuery};
use crate::records::Sandbox;

pub(super) async fn sandboxes(database: &Database, query: &SandboxQuery) -> Result<Page<Sandbox>> {
    bounds::query(query)?;
    let mut count = QueryBuilder::new("SELECT count(*) FROM sandboxes WHERE 1 = 1");
    push_filters(&mut count, query);
    let mut select = QueryBuilder::new(concat!(
        "SELECT ",
        columns!(),
        " FROM sandboxes WHERE 1 = 1"
    ));
    push_filters(&mut select, query);
    push_page(&mut select, query)?;
    page(database, count, select, rows::sandbox).await
}

/// Reads the page and the total in one transaction, so that both are of one
/// moment.
pub(super) async fn page<T>(
    database: &Database,
    mut count: QueryBuilder<Sqlite>,
    mut select: QueryBuilder<Sqlite>,
    read: fn(&SqliteRow) -> Result<T>,
) -> Result<Page<T>> {
    let mut transaction = database.readers().begin().await.map_err(failure::of)?;
    let total: i64 = count
        .build_query_scalar()
        .fetch_one(&mut *transaction)
        .await
        .map_err(failure::of)?;
    let rows = select.build().fetch_all(&mut *transaction).await;
    let items = rows::all(&rows.map_err(failure::of)?, read)?;
    transaction.commit().await.map_err(failure::of)?;
    Ok(Page {
        items,
        total: to_count(total)?,
    })
}

/// Binds all values; none becomes part of the SQL text.
fn push_filters(builder: &mut QueryBuilder<Sqlite>, query: &SandboxQuery) {
    if let Some(tenant) = query.tenant {
        builder.push(" AND tenant = ");
        builder.push_bind(tenant.as_bytes().to_vec());
    }
    if let Some(agent) = &query.agent {
        builder.push(" AND agent = ").push_bind(agent.clone());
    }
    if let Some(state) = query.state {
        builder.push(" AND state = ").push_bind(state.name());
    }
    if let Some(removing) = query.removing {
        // Written out, not bound: SQLite uses a partial index only if the
        // statement itself implies the condition of the index.
        builder.push(if removing {
            " AND removing = 1"
        } else {
            " AND removing = 0"
        });
    }
    if let Some(prefix) = query.name_prefix.as_ref().filter(|text| !text.is_empty()) {
        // Not LIKE, which has wildcards and ignores case.
        builder.push(" AND substr(name, 1, length(");
        builder.push_bind(prefix.clone()).push(")) = ");
        builder.push_bind(prefix.clone());
    }
}

fn push_page(builder: &mut QueryBuilder<Sqlite>, query: &SandboxQuery) -> Result<()> {
    push_newest_first(builder, query.after.as_ref(), query.limit)?;
    let skipped = i64::from(query.page - 1) * i64::from(query.limit);
    builder.push(" OFFSET ").push_bind(skipped);
    Ok(())
}

/// Selects the rows after a position, newest first.
pub(super) fn push_newest_first(
    builder: &mut QueryBuilder<Sqlite>,
    after: Option<&Position>,
    limit: u32,
) -> Result<()> {
    if let Some(after) = after {
        builder.push(" AND (created, id) < (");
        builder.push_bind(micros(after.created)?).push(", ");
        builder.push_bind(after.id.clone()).push(")");
    }
    builder.push(" ORDER BY created DESC, id DESC LIMIT ");
    builder.push_bind(limit);
    Ok(())
}

pub(super) async fn expired(
    database: &Database,
    now: Timestamp,
    limit: u32,
) -> Result<Vec<Sandbox>> {
    bounds::limit(limit)?;
    let select = concat!(
        "SELECT ",
        columns!(),
        " FROM sandboxes WHERE removing = 0 AND expires <= ? ORDER BY expires, id LIMIT ?"
    );
    let rows = sqlx::query(select)
        .bind(micros(now)?)
        .bind(limit)
        .fetch_all(database.readers())
        .await
        .map_err(failure::of)?;
    rows::all(&rows, rows::sandbox)
}

pub(super) async fn count_by_state(
    database: &Database,
    tenant: Option<TenantId>,
) -> Result<BTreeMap<SandboxState, u64>> {
    let mut count = QueryBuilder::new("SELECT state, count(*) AS there FROM sandboxes");
    count.push(" WHERE removing = 0");
    if let Some(tenant) = tenant {
        count.push(" AND tenant = ");
        count.push_bind(tenant.as_bytes().to_vec());
    }
    count.push(" GROUP BY state");
    let rows = count.build().fetch_all(database.readers()).await;
    let mut counts: BTreeMap<_, _> = SandboxState::ALL.map(|state| (state, 0)).into();
    for row in rows.map_err(failure::of)? {
        counts.insert(rows::state(&row)?, to_count(rows::get(&row, "there")?)?);
    }
    Ok(counts)
}

fn to_count(count: i64) -> Result<u64> {
    u64::try_from(count).map_err(|_| Error::Damaged("a count".into()))
}
