//! Conversion of errors of the database into errors of the store.

use elevo_engine::{StoreError, StoreResult};
use elevo_objects::{Hash, SnapshotId};
use sqlx::postgres::PgDatabaseError;

/// SQLSTATEs after which the same call may succeed, and that changed nothing: a
/// failed serialization, a deadlock, a lock that was not free in time, a server
/// that starts or stops, too many connections, a standby.
const BUSY: [&str; 6] = ["40001", "40P01", "55P03", "57P03", "53300", "25006"];

/// The meaning of an error for the change that failed.
#[derive(Debug)]
pub(crate) enum Failed {
    /// The change did not happen, and a repetition may succeed.
    Not(sqlx::Error),
    /// The change may have happened.
    Perhaps(sqlx::Error),
    /// The change did not happen, and a repetition would not help.
    Refused(StoreError),
}

/// Reads the error of a change.
pub(crate) fn of_change(error: sqlx::Error) -> Failed {
    match &error {
        sqlx::Error::Database(inner) => match inner.code().as_deref() {
            Some("EL001") => Failed::Refused(moved(inner.message(), detail(&**inner))),
            Some("EL002") => {
                let message = format!(
                    "{}, or was put by a writer that the commit does not name",
                    inner.message()
                );
                Failed::Refused(StoreError::Refused(message))
            }
            Some("EL003") => Failed::Refused(StoreError::Lost),
            Some("EL004") => Failed::Refused(StoreError::Refused(inner.message().to_owned())),
            Some("53100") => Failed::Refused(StoreError::Full),
            Some("XX001" | "XX002") => {
                Failed::Refused(StoreError::Damaged(inner.message().to_owned()))
            }
            Some(code) if BUSY.contains(&code) => Failed::Not(error),
            // The server ends, or ended the session: the statement may be done.
            Some("57P01" | "57P02" | "57P05") => Failed::Perhaps(error),
            _ => Failed::Refused(StoreError::Storage(Box::new(error))),
        },
        sqlx::Error::PoolTimedOut | sqlx::Error::PoolClosed => Failed::Not(error),
        sqlx::Error::Io(_) | sqlx::Error::Tls(_) | sqlx::Error::Protocol(_) => {
            Failed::Perhaps(error)
        }
        _ => Failed::Refused(StoreError::Storage(Box::new(error))),
    }
}

/// Classes of SQLSTATEs that say nothing about the data: a lost connection, an
/// invalid transaction, a refused login, a conflict, a lack of resources, an object
/// in use, an operator.
const PASSING: [&str; 7] = ["08", "25", "28", "40", "53", "55", "57"];

fn passes(error: &sqlx::Error) -> bool {
    let code = error.as_database_error().and_then(|inner| inner.code());
    code.is_some_and(|code| {
        &*code != "53100" && PASSING.iter().any(|class| code.starts_with(class))
    })
}

/// Reads the error of a call that changes nothing, or that can be repeated.
pub(crate) fn of(error: sqlx::Error) -> StoreError {
    if passes(&error) {
        return StoreError::Unavailable(Box::new(error));
    }
    match of_change(error) {
        Failed::Not(error) | Failed::Perhaps(error) => StoreError::Unavailable(Box::new(error)),
        Failed::Refused(error) => error,
    }
}

fn detail(error: &dyn sqlx::error::DatabaseError) -> &str {
    let error = error.try_downcast_ref::<PgDatabaseError>();
    error.and_then(PgDatabaseError::detail).unwrap_or_default()
}

fn moved(name: &str, current: &str) -> StoreError {
    let current = match current {
        "" => None,
        digits => digits.parse::<Hash>().ok().map(SnapshotId),
    };
    StoreError::ReferenceMoved {
        name: name.to_owned(),
        current,
    }
}

/// Converts a value of a row; `None` is damage.
pub(crate) fn valid<T>(value: Option<T>, what: &str) -> StoreResult<T> {
    value.ok_or_else(|| StoreError::Damaged(format!("a row of the database: {what}")))
}

pub(crate) fn id(bytes: &[u8]) -> StoreResult<SnapshotId> {
    let hash = bytes.try_into().ok().map(Hash::from_bytes);
    valid(hash, "the id of a snapshot").map(SnapshotId)
}
