//! The stored forms of values that a statement binds.

use elevo_core::TenantId;
use serde::Serialize;

use crate::error::{Error, Result};

/// Returns a value as JSON.
pub(crate) fn to_json(value: &impl Serialize) -> Result<String> {
    serde_json::to_string(value).map_err(|error| Error::Failed(Box::new(error)))
}

/// Returns the owner of a webhook: a tenant, or NULL for the server.
pub(crate) fn to_owner(owner: Option<TenantId>) -> Option<Vec<u8>> {
    owner.map(|tenant| tenant.as_bytes().to_vec())
}

/// Returns the name of a variant.
pub(crate) fn to_word(variant: impl Into<&'static str>) -> &'static str {
    variant.into()
}

/// Returns an upper bound for stored sequence numbers. `None` and a number that
/// is too large to be stored become the greatest integer.
pub(crate) fn sequence_bound(sequence: Option<u64>) -> i64 {
    sequence.map_or(i64::MAX, |it| i64::try_from(it).unwrap_or(i64::MAX))
}
