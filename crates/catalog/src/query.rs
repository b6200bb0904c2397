//! What callers ask for.

use elevo_core::{SandboxState, TenantId, Timestamp};

use crate::bounds::MAX_PAGE;

/// Which sandboxes to list, newest first: by the time they were made, then by
/// id, both descending.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SandboxQuery {
    /// Whose; `None` is everybody's.
    pub tenant: Option<TenantId>,
    /// Only those of this agent.
    pub agent: Option<String>,
    /// Only those in this state.
    pub state: Option<SandboxState>,
    /// Only those whose name begins with exactly this. Empty is no filter.
    pub name_prefix: Option<String>,
    /// Only those that are, or are not, being removed.
    pub removing: Option<bool>,
    /// Only those that come after this place. Who walks a list by it sees
    /// everything that is there all the time once, whatever is added or
    /// removed meanwhile; pages by number move when something is added.
    pub after: Option<Position>,
    /// Which page, from 1.
    pub page: u32,
    /// How many on a page: 1 to [`MAX_PAGE`].
    pub limit: u32,
}

impl Default for SandboxQuery {
    /// The first page of everything.
    fn default() -> Self {
        Self {
            tenant: None,
            agent: None,
            state: None,
            name_prefix: None,
            removing: None,
            after: None,
            page: 1,
            limit: MAX_PAGE,
        }
    }
}

/// The place of a sandbox in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Position {
    /// When it was made.
    pub created: Timestamp,
    /// Its id.
    pub id: String,
}

/// A part of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page<T> {
    /// What is on this page.
    pub items: Vec<T>,
    /// How many there are on all pages, at the same moment. Does not depend on
    /// [`SandboxQuery::after`].
    pub total: u64,
}

/// How many sandboxes there may be once some are added. Those being removed
/// do not count. `None` is without limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AddLimits {
    /// Of the key's owner: all keys of the agent that the key is bound to; the
    /// key itself if it is bound to none.
    pub per_key: Option<u32>,
    /// Of everybody.
    pub total: Option<u32>,
}
