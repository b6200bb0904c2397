//! Conversion of PostgreSQL's errors into errors of the catalog.

use elevo_postgres::forgets_statements;
use sqlx::error::ErrorKind;
use sqlx::migrate::MigrateError;

use crate::columns::ImpossibleValue;
use crate::error::{Error, Kind};

/// SQLSTATEs after which the same call may succeed: a failed serialization, a
/// deadlock, a lock that was not free in time, a server that starts or stops
/// and did not begin the statement, too many connections, a standby.
const BUSY: [&str; 6] = ["40001", "40P01", "55P03", "57P03", "53300", "25006"];
/// SQLSTATE of a full disk.
const FULL: &str = "53100";
/// SQLSTATEs of damaged data and indexes.
const DAMAGED: [&str; 2] = ["XX001", "XX002"];

#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct ForgetfulPooler(&'static str, #[source] sqlx::Error);

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
        sqlx::Error::Database(inner) => match inner.code().as_deref() {
            Some(code) if BUSY.contains(&code) => Error::Busy,
            Some(FULL) => Error::Full,
            Some(code) if DAMAGED.contains(&code) => Error::Damaged(inner.message().to_owned()),
            _ => match forgets_statements(&error) {
                Some(advice) => Error::Failed(Box::new(ForgetfulPooler(advice, error))),
                None => Error::Failed(Box::new(error)),
            },
        },
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
            let constraint = inner.constraint().unwrap_or_default();
            inner.kind() == ErrorKind::UniqueViolation
                && (constraint.ends_with("_name_key") || constraint.ends_with("_by_name"))
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
