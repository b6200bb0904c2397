//! Queries and pages.

use std::collections::BTreeMap;

use elevo_core::{AgentId, SandboxState, TenantId, Timestamp};

use crate::limits::MAX_PAGE;
use crate::nodes::NodeId;

/// A list of sandboxes, newest first: by time of creation, then by id, both
/// descending.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SandboxQuery {
    /// Only sandboxes of this tenant; `None` for all tenants.
    pub tenant: Option<TenantId>,
    /// Only sandboxes of this agent.
    pub agent: Option<AgentId>,
    /// Only sandboxes in this state.
    pub state: Option<SandboxState>,
    /// Only sandboxes whose name begins with exactly this. An empty prefix does
    /// not filter.
    pub name_prefix: Option<String>,
    /// Only sandboxes with all these pairs of metadata.
    pub metadata: BTreeMap<String, String>,
    /// Only sandboxes of this node.
    pub node: Option<NodeId>,
    /// Only sandboxes that are, or are not, being removed.
    pub removing: Option<bool>,
    /// Only sandboxes after this position. A walk by position returns every
    /// sandbox that exists during the whole walk exactly once, in spite of
    /// concurrent additions and removals; pages by number shift when a sandbox is
    /// added.
    pub after: Option<Position>,
    /// Number of the page, starting at 1.
    pub page: u32,
    /// Maximum number of sandboxes on a page: 1 to [`MAX_PAGE`].
    pub limit: u32,
}

impl Default for SandboxQuery {
    /// The first page of all sandboxes.
    fn default() -> Self {
        Self {
            tenant: None,
            agent: None,
            state: None,
            name_prefix: None,
            metadata: BTreeMap::new(),
            node: None,
            removing: None,
            after: None,
            page: 1,
            limit: MAX_PAGE,
        }
    }
}

/// The position of a record in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Position {
    /// Time of creation of the record.
    pub created: Timestamp,
    /// Id of the record.
    pub id: String,
}

/// A page of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page<T> {
    /// The records on this page.
    pub items: Vec<T>,
    /// Number of records on all pages, at the same moment. Does not depend on
    /// [`SandboxQuery::after`].
    pub total: u64,
}

/// Maximum number of sandboxes after an addition. Sandboxes that are being
/// removed do not count. `None` means no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AddLimits {
    /// Maximum for the key together with all other keys of its agent; for the key
    /// alone if it is not bound to an agent.
    pub per_key: Option<u32>,
    /// Maximum for all tenants together.
    pub total: Option<u32>,
}
