//! Conversion of SQLite's errors into errors of the catalog.

use sqlx::error::ErrorKind;
use sqlx::migrate::MigrateError;

use crate::columns::ImpossibleValue;
use crate::error::{Error, Kind};

/// Primary result codes, see <https://www.sqlite.org/rescode.html>.
const BUSY: i32 = 5;
const LOCKED: i32 = 6;
const CORRUPT: i32 = 11;
const FULL: i32 = 13;
const NOT_A_DATABASE: i32 = 26;

/// Converts an error of a statement. Does not recognize violated constraints,
/// as [`of_adding`] does.
pub(super) fn of(error: sqlx::Error) -> Error {
    match &error {
        sqlx::Error::PoolTimedOut => Error::Busy,
        sqlx::Error::ColumnDecode { index, source } => match source.downcast_ref() {
            // sqlx quotes the index of a column that is selected by name.
            Some(ImpossibleValue(None)) => {
                Error::Damaged(format!("a value of `{}`", index.trim_matches('"')))
            }
            Some(ImpossibleValue(Some(why))) => Error::Damaged(why.clone()),
            None => Error::Damaged(error.to_string()),
        },
        sqlx::Error::Decode(_) => Error::Damaged(error.to_string()),
        sqlx::Error::Database(inner) => {
            // The lowest byte of an extended code is the kind of the error.
            match inner.code().and_then(|code| code.parse::<i32>().ok()) {
                Some(code) if matches!(code & 0xff, BUSY | LOCKED) => Error::Busy,
                Some(code) if code & 0xff == FULL => Error::Full,
                Some(code) if matches!(code & 0xff, CORRUPT | NOT_A_DATABASE) => {
                    Error::Damaged(inner.message().to_owned())
                }
                _ => Error::Failed(Box::new(error)),
            }
        }
        _ => Error::Failed(Box::new(error)),
    }
}

/// Converts an error of a statement that adds or renames a record of kind `what`.
pub(super) fn of_adding(what: Kind) -> impl Fn(sqlx::Error) -> Error {
    move |error| match error.as_database_error().map(|inner| inner.kind()) {
        Some(ErrorKind::UniqueViolation) => Error::Exists { what },
        Some(ErrorKind::ForeignKeyViolation) => Error::NotFound { what: Kind::Owner },
        _ => of(error),
    }
}

/// Converts an error of a statement that adds or changes a record of kind `what`
/// whose name is unique.
pub(super) fn of_naming(what: Kind) -> impl Fn(sqlx::Error) -> Error {
    move |error| {
        let inner = error.as_database_error();
        let is_name = inner.is_some_and(|inner| {
            // SQLite names the columns of an index, or the index itself if it
            // is on an expression.
            let message = inner.message();
            inner.kind() == ErrorKind::UniqueViolation
                && (message.contains(".name") || message.contains("_by_name"))
        });
        match is_name {
            true => Error::NameTaken { what },
            false => of_adding(what)(error),
        }
    }
}

pub(super) fn of_migrating(error: MigrateError) -> Error {
    match error {
        MigrateError::VersionMissing(version) => {
            Error::Damaged(format!("this version does not know migration {version}"))
        }
        MigrateError::VersionMismatch(version) => Error::Damaged(format!(
            "migration {version} differs from the one that this version knows"
        )),
        MigrateError::Execute(error) | MigrateError::ExecuteMigration(error, _) => of(error),
        other => Error::Failed(Box::new(other)),
    }
}
