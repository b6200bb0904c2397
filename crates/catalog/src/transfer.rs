//! Copies a whole catalog from one database to another.
//!
//! ```text
//! source: one moment ──► batches of rows ──► destination: one transaction
//!          └─ the same rows once more ──► compared ◄── rows read back ─┘
//! ```
//!
//! The tables, their columns and their order come from the schemas of the two
//! databases, so a new migration needs no change here. The number of the newest
//! event is copied apart from the tables, because each database keeps it in its
//! own way, and the newest events may have been deleted.

mod row;
mod schema;
mod side;
#[cfg(test)]
mod tests;

use futures::TryStreamExt;
use futures::stream::BoxStream;

pub(crate) use self::row::{Row, Value, read};
pub(crate) use self::schema::{Column, ColumnRow, Form, Table, tables};
use self::schema::{Pair, pairs};
pub(crate) use self::side::{Destination, Source};
use crate::error::{Error, Result};
use crate::postgres::PostgresCatalog;
use crate::sqlite::SqliteCatalog;

/// Maximum number of rows that one statement inserts.
const BATCH_ROWS: usize = 500;
/// A batch ends with the row that makes it this large.
const BATCH_BYTES: usize = 8 << 20;

/// A catalog that [`transfer`] reads or fills.
#[derive(Clone, Copy, Debug)]
pub enum AnyCatalog<'a> {
    /// A catalog in a SQLite file.
    Sqlite(&'a SqliteCatalog),
    /// A catalog in a PostgreSQL database.
    Postgres(&'a PostgresCatalog),
}

impl<'a> From<&'a SqliteCatalog> for AnyCatalog<'a> {
    fn from(catalog: &'a SqliteCatalog) -> Self {
        Self::Sqlite(catalog)
    }
}

impl<'a> From<&'a PostgresCatalog> for AnyCatalog<'a> {
    fn from(catalog: &'a PostgresCatalog) -> Self {
        Self::Postgres(catalog)
    }
}

impl AnyCatalog<'_> {
    async fn begin_reading(self) -> Result<Box<dyn Source>> {
        match self {
            Self::Sqlite(catalog) => catalog.begin_reading().await,
            Self::Postgres(catalog) => catalog.begin_reading().await,
        }
    }

    async fn begin_filling(self) -> Result<Box<dyn Destination>> {
        match self {
            Self::Sqlite(catalog) => catalog.begin_filling().await,
            Self::Postgres(catalog) => catalog.begin_filling().await,
        }
    }
}

/// A table and the number of its rows that were copied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transferred {
    /// Name of the table.
    pub table: String,
    /// Number of rows.
    pub rows: u64,
}

/// Copies all records of `from` to `to`, which must be empty: no server may ever
/// have used it. Calls `progress` after each batch with the table of the batch
/// and the rows copied so far. Returns all tables, in the order in which they
/// were copied.
///
/// The copy has the state of `from` at one moment of the call. Later changes are
/// missing in it, so the servers of both catalogs must be stopped.
///
/// `to` changes in one transaction, which commits after every row was read back
/// and compared. So `to` stays empty if the call fails or its future is dropped.
/// The exception is [`Error::Failed`] if the connection breaks during the commit:
/// then `to` is either empty or complete.
///
/// Fails with [`Error::Refused`] if `to` is not empty, or if a server uses
/// `from`; with [`Error::Damaged`] if a row of the copy differs.
pub async fn transfer(
    from: AnyCatalog<'_>,
    to: AnyCatalog<'_>,
    progress: &mut (dyn FnMut(&Transferred) + Send),
) -> Result<Vec<Transferred>> {
    let mut source = from.begin_reading().await?;
    source.check_unused().await?;
    let mut destination = to.begin_filling().await?;
    let pairs = pairs(source.tables().await?, destination.tables().await?)?;
    check_empty(&mut *destination, &pairs).await?;
    destination.clear().await?;
    let mut copied = Vec::new();
    for pair in &pairs {
        copied.push(copy(&mut *source, &mut *destination, pair, progress).await?);
    }
    let last_event = source.last_event().await?;
    destination.set_last_event(last_event).await?;
    for (pair, copied) in pairs.iter().zip(&copied) {
        verify(&mut *source, &mut *destination, pair, copied.rows).await?;
    }
    let found = destination.last_event().await?;
    if found != last_event {
        let why = format!("the newest event of the copy is {found} instead of {last_event}");
        return Err(Error::Damaged(why));
    }
    source.check_unused().await?;
    destination.commit().await?;
    Ok(copied)
}

/// Fails unless a database has only the rows that migrations insert.
async fn check_empty(destination: &mut dyn Destination, pairs: &[Pair]) -> Result<()> {
    let refused = |why: String| {
        Err(Error::Refused(format!(
            "the catalog to copy to is not empty: {why}; copy to a new file or an empty database"
        )))
    };
    // First, because it gives numbers to the events of PostgreSQL that have none.
    if destination.last_event().await? > 0 {
        return refused("events were recorded in it".to_owned());
    }
    for Pair { to, .. } in pairs {
        if destination.exists(to.find_use()).await? {
            return refused(format!("its table `{}` has rows", to.name));
        }
    }
    Ok(())
}

/// Copies the rows of a table.
async fn copy(
    source: &mut dyn Source,
    destination: &mut dyn Destination,
    Pair { from, to }: &Pair,
    progress: &mut (dyn FnMut(&Transferred) + Send),
) -> Result<Transferred> {
    let mut copied = Transferred {
        table: to.name.clone(),
        rows: 0,
    };
    let mut rows = source.rows(from);
    loop {
        let batch = next_batch(&mut rows).await?;
        if batch.is_empty() {
            return Ok(copied);
        }
        destination.insert(to, &batch).await?;
        copied.rows += batch.len() as u64;
        progress(&copied);
    }
}

/// Returns the next rows; none after the last row.
async fn next_batch(rows: &mut BoxStream<'_, Result<Row>>) -> Result<Vec<Row>> {
    let mut batch = Vec::new();
    let mut bytes = 0;
    while batch.len() < BATCH_ROWS
        && bytes < BATCH_BYTES
        && let Some(row) = rows.try_next().await?
    {
        bytes += row.iter().map(Value::bytes).sum::<usize>();
        batch.push(row);
    }
    Ok(batch)
}

/// Compares the rows of both tables in the order of the primary key, and their
/// number with `copied`.
async fn verify(
    source: &mut dyn Source,
    destination: &mut dyn Destination,
    Pair { from, to }: &Pair,
    copied: u64,
) -> Result<()> {
    let mut expected = source.rows(from);
    let mut found = destination.rows(to);
    let mut rows = 0;
    loop {
        match (expected.try_next().await?, found.try_next().await?) {
            (None, None) if rows == copied => return Ok(()),
            (Some(expected), Some(found)) if expected == found => rows += 1,
            (expected, found) => return Err(differs(to, rows, [expected, found])),
        }
    }
}

/// The error for the first two rows that differ.
fn differs(table: &Table, rows: u64, differing: [Option<Row>; 2]) -> Error {
    let keys = differing.iter().flatten().map(|row| table.key_of(row));
    // The row with the smaller key is missing in the other table.
    let place = match keys.min() {
        Some(key) => format!("in the row with the primary key {}", row::list(&key)),
        None => format!("in the number of its rows, {rows}"),
    };
    Error::Damaged(format!(
        "the copy of the table `{}` differs {place}",
        table.name
    ))
}
