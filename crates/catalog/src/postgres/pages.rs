//! Pages of lists.

use sqlx::postgres::PgRow;
use sqlx::{FromRow, Postgres, QueryBuilder};

use super::database::Database;
use super::failure;
use crate::bounds::micros;
use crate::error::{Error, Result};
use crate::query::{Page, Position};

/// Reads the page and the total in one transaction, so that both are of one
/// moment.
pub(super) async fn page<T>(
    database: &Database,
    mut count: QueryBuilder<Postgres>,
    mut select: QueryBuilder<Postgres>,
) -> Result<Page<T>>
where
    T: for<'r> FromRow<'r, PgRow> + Send + Unpin,
{
    let mut transaction = database.moment().await?;
    let total: i64 = count
        .build_query_scalar()
        .fetch_one(&mut *transaction)
        .await
        .map_err(failure::of)?;
    let items = select.build_query_as().fetch_all(&mut *transaction).await;
    let items = items.map_err(failure::of)?;
    database.commit(transaction).await?;
    Ok(Page {
        items,
        total: to_count(total)?,
    })
}

/// Selects the rows after a position, newest first.
pub(super) fn push_newest_first(
    builder: &mut QueryBuilder<Postgres>,
    after: Option<&Position>,
    limit: u32,
) -> Result<()> {
    if let Some(after) = after {
        builder.push(" AND (created, id) < (");
        builder.push_bind(micros(after.created)?).push(", ");
        builder.push_bind(after.id.clone()).push(")");
    }
    builder.push(" ORDER BY created DESC, id DESC LIMIT ");
    builder.push_bind(i64::from(limit));
    Ok(())
}

fn to_count(count: i64) -> Result<u64> {
    u64::try_from(count).map_err(|_| Error::Damaged("a count".into()))
}
