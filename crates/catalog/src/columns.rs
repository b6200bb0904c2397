//! The columns of records, the same for every database.
//!
//! `#[sqlx(try_from = "Column<T>")]` at a field of a record says that its column
//! has the stored form of a `T`. A stored value that no record can have produced
//! is an [`ImpossibleValue`], which an implementation reports as damage.

use std::collections::BTreeMap;

use elevo_core::{
    AgentId, KeyId, ProjectId, ReviewId, SandboxId, SandboxState, TenantId, Timestamp, TreePath,
    WebhookId, WorkspaceId,
};
use elevo_objects::{Entry, Hash, SnapshotId};
use serde_json::Value;
use sqlx::error::BoxDynError;
use sqlx::{Database, Decode, Type};

use crate::stored as forms;

/// A stored value that no record can have produced. The text is the reason.
/// Without a reason, the error names only the column.
#[derive(Debug, thiserror::Error)]
#[error("not a valid value")]
pub(crate) struct ImpossibleValue(pub(crate) Option<String>);

/// A value with a stored form.
pub(crate) trait Stored: Sized {
    /// The type of the stored form.
    type Form<'r>;

    fn read(form: Self::Form<'_>) -> Result<Self, ImpossibleValue>;
}

/// A column that stores a `T`.
pub(crate) struct Column<T>(pub(crate) T);

/// A column that stores a `T` or is NULL.
pub(crate) struct Optional<T>(pub(crate) Option<T>);

impl<DB: Database, T: Stored> Type<DB> for Column<T>
where
    T::Form<'static>: Type<DB>,
{
    fn type_info() -> DB::TypeInfo {
        <T::Form<'static> as Type<DB>>::type_info()
    }

    fn compatible(found: &DB::TypeInfo) -> bool {
        <T::Form<'static> as Type<DB>>::compatible(found)
    }
}

impl<'r, DB: Database, T: Stored> Decode<'r, DB> for Column<T>
where
    T::Form<'r>: Decode<'r, DB>,
{
    fn decode(value: DB::ValueRef<'r>) -> Result<Self, BoxDynError> {
        let form = <T::Form<'r> as Decode<'r, DB>>::decode(value)?;
        Ok(Self(T::read(form)?))
    }
}

impl<DB: Database, T> Type<DB> for Optional<T>
where
    Column<T>: Type<DB>,
{
    fn type_info() -> DB::TypeInfo {
        <Column<T> as Type<DB>>::type_info()
    }

    fn compatible(found: &DB::TypeInfo) -> bool {
        <Column<T> as Type<DB>>::compatible(found)
    }
}

impl<'r, DB: Database, T> Decode<'r, DB> for Optional<T>
where
    Option<Column<T>>: Decode<'r, DB>,
{
    fn decode(value: DB::ValueRef<'r>) -> Result<Self, BoxDynError> {
        let column = <Option<Column<T>> as Decode<'r, DB>>::decode(value)?;
        Ok(Self(column.map(|column| column.0)))
    }
}

/// Defines the stored form of a type, and the conversion of its columns into
/// fields of a record.
macro_rules! stored {
    (bytes $value:ty, $read:expr) => {
        impl $crate::columns::Stored for $value {
            type Form<'r> = &'r [u8];

            fn read(form: &[u8]) -> Result<Self, $crate::columns::ImpossibleValue> {
                $read(form).ok_or($crate::columns::ImpossibleValue(None))
            }
        }
        $crate::columns::stored!(field $value);
    };
    (integer $value:ty, $read:expr) => {
        impl $crate::columns::Stored for $value {
            type Form<'r> = i64;

            fn read(form: i64) -> Result<Self, $crate::columns::ImpossibleValue> {
                $read(form).ok_or($crate::columns::ImpossibleValue(None))
            }
        }
        $crate::columns::stored!(field $value);
    };
    (text $value:ty, $read:expr) => {
        impl $crate::columns::Stored for $value {
            type Form<'r> = &'r str;

            fn read(form: &str) -> Result<Self, $crate::columns::ImpossibleValue> {
                $read(form)
            }
        }
        $crate::columns::stored!(field $value);
    };
    // The errors of `json` and `variant` have no reason, so they name only the
    // column. The errors of `name` and `id` have the reason of the parser.
    (json $value:ty) => {
        $crate::columns::stored!(text $value, |form| serde_json::from_str(form)
            .map_err(|_| $crate::columns::ImpossibleValue(None)));
    };
    (variant $value:ty) => {
        $crate::columns::stored!(text $value, |form: &str| form
            .parse()
            .map_err(|_| $crate::columns::ImpossibleValue(None)));
    };
    (name $value:ty) => {
        $crate::columns::stored!(text $value, |form: &str| form
            .parse()
            .map_err(|why| $crate::columns::ImpossibleValue(Some(why))));
    };
    (id $value:ty) => {
        $crate::columns::stored!(text $value, |form: &str| form
            .parse()
            .map_err(|why: elevo_core::InvalidId| {
                $crate::columns::ImpossibleValue(Some(why.to_string()))
            }));
    };
    (field $value:ty) => {
        impl From<$crate::columns::Column<$value>> for $value {
            fn from(column: $crate::columns::Column<$value>) -> Self {
                column.0
            }
        }

        impl From<$crate::columns::Optional<$value>> for Option<$value> {
            fn from(column: $crate::columns::Optional<$value>) -> Self {
                column.0
            }
        }
    };
}
pub(crate) use stored;

stored!(bytes TenantId, |form: &[u8]| form.try_into().ok().map(TenantId::new));
stored!(bytes [u8; 32], |form: &[u8]| form.try_into().ok());
stored!(bytes SnapshotId, |form: &[u8]| form.try_into().ok().map(Hash::from_bytes).map(SnapshotId));
stored!(bytes Hash, |form: &[u8]| form.try_into().ok().map(Hash::from_bytes));
stored!(bytes TreePath, forms::read_path);
stored!(bytes Entry, forms::read_entry);
stored!(integer Timestamp, of_micros);
stored!(integer u16, |form: i64| form.try_into().ok());
stored!(integer u32, |form: i64| form.try_into().ok());
stored!(integer u64, |form: i64| form.try_into().ok());
stored!(id AgentId);
stored!(id KeyId);
stored!(id ProjectId);
stored!(id ReviewId);
stored!(id SandboxId);
stored!(id WebhookId);
stored!(id WorkspaceId);
stored!(json Value);
stored!(json BTreeMap<String, String>);
stored!(json Vec<String>);
stored!(name SandboxState);

fn of_micros(micros: i64) -> Option<Timestamp> {
    let nanos = micros.rem_euclid(1_000_000) as u32 * 1000;
    Timestamp::new(micros.div_euclid(1_000_000), nanos)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bounds::micros;

    #[test]
    fn times_before_and_after_1970_are_read_back_unchanged() {
        for kept in [i64::MIN, -1_000_001, -1, 0, 1, 999_999, i64::MAX] {
            let read = of_micros(kept).unwrap();
            // The earliest time can be read but not converted back: the
            // conversion of its whole seconds to microseconds overflows.
            if kept != i64::MIN {
                assert_eq!(micros(read).unwrap(), kept);
            }
        }
    }
}
