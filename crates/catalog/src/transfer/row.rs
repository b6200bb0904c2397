//! Rows of a table in a form that does not depend on the database.

use std::fmt;

use sqlx::{ColumnIndex, Database, Decode, Type};

use super::{Form, Table};
use crate::error::{Error, Result};

/// The values of a row, in the order of [`Table::columns`].
pub(crate) type Row = Vec<Value>;

/// A value of a column. A boolean is an integer, 0 or 1. The order of values that
/// are not NULL is that of both databases.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Value {
    Null,
    Integer(i64),
    Text(String),
    Bytes(Vec<u8>),
}

impl Value {
    /// Returns the approximate size of the value in memory.
    pub(super) fn bytes(&self) -> usize {
        size_of::<Self>()
            + match self {
                Self::Null | Self::Integer(_) => 0,
                Self::Text(text) => text.len(),
                Self::Bytes(bytes) => bytes.len(),
            }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("NULL"),
            Self::Integer(number) => number.fmt(f),
            Self::Text(text) => write!(f, "{text:?}"),
            Self::Bytes(bytes) => bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}")),
        }
    }
}

/// Returns the values in parentheses, separated by commas.
pub(super) fn list(values: &[&Value]) -> String {
    let values: Vec<_> = values.iter().map(|value| value.to_string()).collect();
    format!("({})", values.join(", "))
}

/// Reads a row that [`Table::select`] has found.
pub(crate) fn read<R: sqlx::Row>(row: &R, table: &Table) -> Result<Row>
where
    usize: ColumnIndex<R>,
    bool: Read<R::Database>,
    i64: Read<R::Database>,
    String: Read<R::Database>,
    Vec<u8>: Read<R::Database>,
{
    let read = |index, form| -> std::result::Result<Value, sqlx::Error> {
        let value = match form {
            Form::Bytes => row.try_get::<Option<_>, _>(index)?.map(Value::Bytes),
            Form::Integer => row.try_get::<Option<_>, _>(index)?.map(Value::Integer),
            Form::Text => row.try_get::<Option<_>, _>(index)?.map(Value::Text),
            Form::Boolean => {
                let value: Option<bool> = row.try_get(index)?;
                value.map(|value| Value::Integer(value.into()))
            }
        };
        Ok(value.unwrap_or(Value::Null))
    };
    let columns = table.columns.iter().enumerate();
    let values = columns.map(|(index, column)| {
        read(index, column.form).map_err(|error| {
            let (column, table) = (&column.name, &table.name);
            Error::Damaged(format!("a value of `{column}` in `{table}`: {error}"))
        })
    });
    values.collect()
}

/// A type that can be read from any row of a database.
pub(crate) trait Read<DB: Database>: Type<DB> + for<'r> Decode<'r, DB> {}

impl<DB: Database, T: Type<DB> + for<'r> Decode<'r, DB>> Read<DB> for T {}
