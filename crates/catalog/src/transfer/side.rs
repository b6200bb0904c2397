//! The two databases of a transfer.

use async_trait::async_trait;
use futures::stream::BoxStream;

use super::{Row, Table};
use crate::error::Result;

/// A transaction that reads a whole database.
#[async_trait]
pub(crate) trait Source: Send {
    /// Fails if a server uses the database, or has used it since the transaction
    /// began. Nothing is checked for a file: the caller keeps servers from it.
    async fn check_unused(&mut self) -> Result<()>;

    /// Returns the tables that both databases have, sorted by their names.
    async fn tables(&mut self) -> Result<Vec<Table>>;

    /// Returns all rows of a table in the order of its primary key, with the
    /// columns in the order of [`Table::columns`]. The stream may be polled
    /// after its end.
    fn rows<'a>(&'a mut self, table: &'a Table) -> BoxStream<'a, Result<Row>>;

    /// Returns the number of the newest event so far, including deleted ones.
    async fn last_event(&mut self) -> Result<u64>;
}

/// A transaction that fills an empty database. It is rolled back if it is
/// dropped.
#[async_trait]
pub(crate) trait Destination: Source {
    /// Returns the value of a `SELECT EXISTS`.
    async fn exists(&mut self, select: String) -> Result<bool>;

    /// Deletes the rows that migrations inserted.
    async fn clear(&mut self) -> Result<()>;

    /// Inserts rows with the columns in the order of [`Table::columns`].
    async fn insert(&mut self, table: &Table, rows: &[Row]) -> Result<()>;

    /// Sets the number that the next event follows.
    async fn set_last_event(&mut self, number: u64) -> Result<()>;

    async fn commit(self: Box<Self>) -> Result<()>;
}
