//! Counts the requests and jobs that work for each tenant, so that an erasure
//! can wait for them.

use std::collections::HashMap;
use std::sync::Arc;

use elevo_core::TenantId;
use parking_lot::{Mutex, MutexGuard};

/// Marks a request or job as working for a tenant until this value and its
/// clones are dropped.
#[derive(Clone, Debug)]
pub(crate) struct Presence {
    _counted: Arc<()>,
}

/// The presences of all tenants. The map holds one reference to a tenant's
/// `Arc`, and each presence holds another. So the strong count minus one is the
/// number of presences.
#[derive(Debug, Default)]
pub(crate) struct Presences(Mutex<HashMap<TenantId, Arc<()>>>);

impl Presences {
    fn map(&self) -> MutexGuard<'_, HashMap<TenantId, Arc<()>>> {
        self.0.lock()
    }

    pub(crate) fn enter(&self, tenant: TenantId) -> Presence {
        Presence {
            _counted: self.map().entry(tenant).or_default().clone(),
        }
    }

    /// Returns true if no request and no job works for a tenant.
    pub(crate) fn is_empty(&self, tenant: TenantId) -> bool {
        let map = self.map();
        let found = map.get(&tenant);
        found.is_none_or(|counted| Arc::strong_count(counted) == 1)
    }

    pub(crate) fn forget(&self, tenant: TenantId) {
        self.map().remove(&tenant);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_presence_lasts_until_its_last_copy_is_dropped() {
        let (one, other) = (TenantId::new([1; 16]), TenantId::new([2; 16]));
        let presences = Presences::default();
        assert!(presences.is_empty(one));
        let first = presences.enter(one);
        let copy = first.clone();
        drop(first);
        assert!(!presences.is_empty(one));
        assert!(presences.is_empty(other));
        drop(copy);
        assert!(presences.is_empty(one));
    }
}
