//! The transactions of a transfer of a whole catalog.

use async_trait::async_trait;
use elevo_postgres::{Change, Connection, Pool};
use futures::StreamExt;
use futures::stream::BoxStream;
use sqlx::{AssertSqlSafe, PgExecutor};

use super::database::Statement;
use super::{PostgresCatalog, database, events, failure, nodes};
use crate::error::{Error, Result};
use crate::transfer::{self, Column, ColumnRow, Destination, Form, Row, Source, Table, Value};

/// The columns of all tables.
const COLUMNS: &str = "SELECT tables.relname::text, attname::text, \
         format_type(atttypid, atttypmod), coalesce(array_position(conkey, attnum), 0)::bigint \
     FROM pg_class tables \
     JOIN pg_attribute ON attrelid = tables.oid AND attnum > 0 AND NOT attisdropped \
     LEFT JOIN pg_constraint ON conrelid = tables.oid AND contype = 'p' \
     WHERE tables.relkind = 'r' AND tables.relnamespace = current_schema()::regnamespace";

/// The foreign keys of all tables: a table, and the one that it refers to.
const REFERENCES: &str = "SELECT tables.relname::text, others.relname::text FROM pg_constraint \
     JOIN pg_class tables ON tables.oid = conrelid JOIN pg_class others ON others.oid = confrelid \
     WHERE contype = 'f' AND tables.relnamespace = current_schema()::regnamespace";

/// The names of all tables as SQL identifiers, separated by commas.
const NAMES: &str = "SELECT string_agg(quote_ident(relname), ', ' ORDER BY relname) FROM pg_class \
     WHERE relkind = 'r' AND relnamespace = current_schema()::regnamespace";

/// The transaction is idle while the other database works on a batch or commits.
/// The time limit of other transactions may be too short for that.
const BE_PATIENT: &str = "SET LOCAL idle_in_transaction_session_timeout = '5min'";

impl PostgresCatalog {
    /// Begins a transaction whose reads are all of one moment, in which every
    /// event has a number.
    pub(crate) async fn begin_reading(&self) -> Result<Box<dyn Source>> {
        events::number(self.database.pool()).await?;
        let mut side = Side {
            change: self.database.moment().await?,
            pool: self.database.pool().clone(),
        };
        // No session begins until the transaction ends.
        database::lock_server(side.connection()).await?;
        side.run(sqlx::query(BE_PATIENT)).await?;
        if side
            .exists("SELECT EXISTS (SELECT 1 FROM outbox)".to_owned())
            .await?
        {
            return Err(in_use());
        }
        Ok(Box::new(side))
    }

    /// Begins a transaction with no concurrent writer. Reads can continue.
    pub(crate) async fn begin_filling(&self) -> Result<Box<dyn Destination>> {
        let mut side = Side {
            change: self.database.write().await?,
            pool: self.database.pool().clone(),
        };
        side.run(sqlx::query(BE_PATIENT)).await?;
        let names = sqlx::query_scalar(NAMES).fetch_one(side.connection());
        let names: String = names.await.map_err(failure::of)?;
        let lock = format!("LOCK TABLE {names} IN SHARE ROW EXCLUSIVE MODE");
        side.run(sqlx::query(AssertSqlSafe(lock))).await?;
        Ok(Box::new(side))
    }
}

struct Side {
    change: Change,
    /// For reads outside of the transaction.
    pool: Pool,
}

/// Returns the session of each node, and the time at which it expires.
async fn sessions(executor: impl PgExecutor<'_>) -> Result<Vec<(i64, i64)>> {
    let select = sqlx::query_as("SELECT session, expires FROM nodes ORDER BY id");
    select.fetch_all(executor).await.map_err(failure::of)
}

fn in_use() -> Error {
    let why = "a server uses the catalog to copy from; stop all its servers";
    Error::Refused(why.to_owned())
}

#[async_trait]
impl Source for Side {
    async fn check_unused(&mut self) -> Result<()> {
        let known = sessions(self.connection()).await?;
        // Also a session that has begun or was renewed, and has ended since.
        let is_used = nodes::is_in_use(&self.pool).await? || sessions(&self.pool).await? != known;
        match is_used {
            true => Err(in_use()),
            false => Ok(()),
        }
    }

    async fn tables(&mut self) -> Result<Vec<Table>> {
        let columns = sqlx::query_as(COLUMNS).fetch_all(self.connection());
        let columns: Vec<ColumnRow> = columns.await.map_err(failure::of)?;
        let references = sqlx::query_as(REFERENCES).fetch_all(self.connection());
        transfer::tables(columns, references.await.map_err(failure::of)?)
    }

    fn rows<'a>(&'a mut self, table: &'a Table) -> BoxStream<'a, Result<Row>> {
        let select = sqlx::query(AssertSqlSafe(table.select()));
        let rows = select.fetch(self.connection());
        let rows = rows.map(|row| transfer::read(&row.map_err(failure::of)?, table));
        rows.fuse().boxed()
    }

    async fn last_event(&mut self) -> Result<u64> {
        events::number(self.connection()).await
    }
}

#[async_trait]
impl Destination for Side {
    async fn exists(&mut self, select: String) -> Result<bool> {
        let found = sqlx::query_scalar(AssertSqlSafe(select)).fetch_one(self.connection());
        found.await.map_err(failure::of)
    }

    async fn clear(&mut self) -> Result<()> {
        self.run(sqlx::query("DELETE FROM nodes")).await
    }

    async fn insert(&mut self, table: &Table, rows: &[Row]) -> Result<()> {
        let places = table.columns.iter().zip(1..).map(|(column, n)| {
            let kind = match column.form {
                Form::Bytes => "bytea",
                Form::Integer => "bigint",
                Form::Text => "text",
                Form::Boolean => "boolean",
            };
            format!("${n}::{kind}[]")
        });
        let places = places.collect::<Vec<_>>().join(", ");
        let insert = format!("{} SELECT * FROM unnest({places})", table.insert());
        let mut insert = sqlx::query(AssertSqlSafe(insert));
        for (index, column) in table.columns.iter().enumerate() {
            let values = rows.iter().map(|row| &row[index]);
            let bound = bind(insert, column.form, values);
            insert = bound.ok_or_else(|| does_not_fit(table, column))?;
        }
        self.run(insert).await
    }

    async fn set_last_event(&mut self, number: u64) -> Result<()> {
        let update = sqlx::query("UPDATE last_event SET number = $1");
        self.run(update.bind(number as i64)).await
    }

    async fn commit(self: Box<Self>) -> Result<()> {
        self.change.commit().await.map_err(failure::of)
    }
}

impl Side {
    fn connection(&mut self) -> &mut Connection {
        &mut self.change
    }

    async fn run(&mut self, statement: Statement<'_>) -> Result<()> {
        let done = statement.execute(self.connection()).await;
        done.map(drop).map_err(failure::of)
    }
}

/// Binds the values of a column as an array. Returns `None` if the column cannot
/// have one of them.
fn bind<'a>(
    statement: Statement<'a>,
    form: Form,
    values: impl Iterator<Item = &'a Value>,
) -> Option<Statement<'a>> {
    Some(match form {
        Form::Bytes => statement.bind(array(values, |value| match value {
            Value::Bytes(bytes) => Some(bytes.as_slice()),
            _ => None,
        })?),
        Form::Integer => statement.bind(array(values, |value| match value {
            Value::Integer(number) => Some(*number),
            _ => None,
        })?),
        Form::Text => statement.bind(array(values, |value| match value {
            // PostgreSQL stores no NUL.
            Value::Text(text) if !text.contains('\0') => Some(text.as_str()),
            _ => None,
        })?),
        Form::Boolean => statement.bind(array(values, |value| match value {
            Value::Integer(number @ (0 | 1)) => Some(*number == 1),
            _ => None,
        })?),
    })
}

/// Converts the values that are not NULL. Returns `None` if one cannot be
/// converted.
fn array<'a, T>(
    values: impl Iterator<Item = &'a Value>,
    convert: impl Fn(&'a Value) -> Option<T>,
) -> Option<Vec<Option<T>>> {
    let convert = |value| match value {
        &Value::Null => Some(None),
        value => convert(value).map(Some),
    };
    values.map(convert).collect()
}

fn does_not_fit(table: &Table, column: &Column) -> Error {
    let (table, column) = (&table.name, &column.name);
    Error::Damaged(format!(
        "PostgreSQL cannot store a value of `{column}` in the table `{table}`"
    ))
}
