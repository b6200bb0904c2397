use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Which versions of a project keep their content. What is said of a version in
/// the log stays for ever.
///
/// The head, what a tag, a workspace or an open review needs, and what is
/// younger than `GC_KEEP_UNNAMED` is kept whatever this says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "keep", rename_all = "lowercase", deny_unknown_fields)]
pub enum Retention {
    /// All.
    All {},
    /// The newest ones.
    Last {
        /// So many.
        #[schema(minimum = 1)]
        count: u32,
    },
    /// The last one of each day in UTC.
    Daily {
        /// For so many days.
        #[schema(minimum = 1)]
        days: u32,
    },
    /// None.
    Named {},
}

impl Default for Retention {
    fn default() -> Self {
        Self::All {}
    }
}
