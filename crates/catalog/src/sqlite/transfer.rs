//! The transactions of a transfer of a whole catalog.

use std::ops::DerefMut;

use async_trait::async_trait;
use futures::StreamExt;
use futures::stream::BoxStream;
use sqlx::{AssertSqlSafe, SqliteConnection};

use super::database::Statement;
use super::write_queue::Change;
use super::{SqliteCatalog, events, failure};
use crate::error::Result;
use crate::transfer::{self, ColumnRow, Destination, Row, Source, Table, Value};

/// The columns of all tables.
const COLUMNS: &str = "SELECT tables.name, columns.name, columns.type, columns.pk \
     FROM sqlite_schema tables JOIN pragma_table_info(tables.name) columns \
     WHERE tables.type = 'table' AND tables.name NOT LIKE 'sqlite\\_%' ESCAPE '\\'";

/// The foreign keys of all tables: a table, and the one that it refers to.
const REFERENCES: &str = "SELECT tables.name, keys.\"table\" \
     FROM sqlite_schema tables JOIN pragma_foreign_key_list(tables.name) keys \
     WHERE tables.type = 'table'";

impl SqliteCatalog {
    /// Begins a transaction whose reads are all of one moment.
    pub(crate) async fn begin_reading(&self) -> Result<Box<dyn Source>> {
        let transaction = self.database.readers().begin().await;
        Ok(Box::new(Side(transaction.map_err(failure::of)?)))
    }

    /// Begins a transaction with no concurrent writer.
    pub(crate) async fn begin_filling(&self) -> Result<Box<dyn Destination>> {
        Ok(Box::new(Side(self.database.write().await?)))
    }
}

/// A transaction on a connection.
struct Side<C>(C);

#[async_trait]
impl<C> Source for Side<C>
where
    C: DerefMut<Target = SqliteConnection> + Send,
{
    async fn check_unused(&mut self) -> Result<()> {
        Ok(())
    }

    async fn tables(&mut self) -> Result<Vec<Table>> {
        let columns = sqlx::query_as(COLUMNS).fetch_all(&mut *self.0);
        let columns: Vec<ColumnRow> = columns.await.map_err(failure::of)?;
        let references = sqlx::query_as(REFERENCES).fetch_all(&mut *self.0);
        transfer::tables(columns, references.await.map_err(failure::of)?)
    }

    fn rows<'a>(&'a mut self, table: &'a Table) -> BoxStream<'a, Result<Row>> {
        let select = sqlx::query(AssertSqlSafe(table.select()));
        let rows = select.fetch(&mut *self.0);
        let rows = rows.map(|row| transfer::read(&row.map_err(failure::of)?, table));
        rows.fuse().boxed()
    }

    async fn last_event(&mut self) -> Result<u64> {
        events::last_in(&mut self.0).await
    }
}

#[async_trait]
impl Destination for Side<Change> {
    async fn exists(&mut self, select: String) -> Result<bool> {
        let found = sqlx::query_scalar(AssertSqlSafe(select)).fetch_one(&mut *self.0);
        found.await.map_err(failure::of)
    }

    async fn clear(&mut self) -> Result<()> {
        self.run(sqlx::query("DELETE FROM nodes")).await
    }

    async fn insert(&mut self, table: &Table, rows: &[Row]) -> Result<()> {
        let places = vec!["?"; table.columns.len()].join(", ");
        let insert = format!("{} VALUES ({places})", table.insert());
        for row in rows {
            let insert = sqlx::query(AssertSqlSafe(insert.as_str()));
            self.run(row.iter().fold(insert, bind)).await?;
        }
        Ok(())
    }

    async fn set_last_event(&mut self, number: u64) -> Result<()> {
        // There is a row only if an event was ever inserted.
        self.run(sqlx::query(
            "DELETE FROM sqlite_sequence WHERE name = 'events'",
        ))
        .await?;
        if number == 0 {
            return Ok(());
        }
        let insert = sqlx::query("INSERT INTO sqlite_sequence (name, seq) VALUES ('events', ?)");
        self.run(insert.bind(number as i64)).await
    }

    async fn commit(self: Box<Self>) -> Result<()> {
        self.0.commit().await
    }
}

impl Side<Change> {
    async fn run(&mut self, statement: Statement<'_>) -> Result<()> {
        let done = statement.execute(&mut *self.0).await;
        done.map(drop).map_err(failure::of)
    }
}

fn bind<'a>(statement: Statement<'a>, value: &'a Value) -> Statement<'a> {
    match value {
        Value::Null => statement.bind(None::<i64>),
        Value::Integer(number) => statement.bind(number),
        Value::Text(text) => statement.bind(text),
        Value::Bytes(bytes) => statement.bind(bytes),
    }
}
