use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Rule that selects the versions of a project whose content is kept. The log
/// keeps the entries of all versions.
///
/// The head, versions that a tag, a workspace or an open review needs, and
/// versions younger than `GC_KEEP_UNNAMED` are always kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "keep", rename_all = "lowercase", deny_unknown_fields)]
pub enum Retention {
    /// All versions.
    All {},
    /// The newest versions.
    Last {
        /// Number of versions.
        #[schema(minimum = 1)]
        count: u32,
    },
    /// The last version of each day in UTC.
    Daily {
        /// Number of days.
        #[schema(minimum = 1)]
        days: u32,
    },
    /// Only the versions that are always kept.
    Named {},
}

impl Default for Retention {
    fn default() -> Self {
        Self::All {}
    }
}
