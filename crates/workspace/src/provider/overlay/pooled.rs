//! Workspaces whose upper is a subvolume of the pool.

use std::fs;
use std::path::Path;

use elevo_engine::Progress;

use super::{OverlayProvider, id};
use crate::error::Result;
use crate::provider::pool::Pool;
use crate::provider::{AtomicForks, Limits, Origin};

/// A workspace with its upper in the pool.
pub(super) struct PooledWorkspace<'a> {
    provider: &'a OverlayProvider,
    pool: &'a Pool,
    place: &'a Path,
}

impl<'a> PooledWorkspace<'a> {
    /// Returns the workspace in `place`, if its upper is in the pool.
    pub(super) fn find(provider: &'a OverlayProvider, place: &'a Path) -> Option<Self> {
        let pool = provider.pool_of(place)?;
        Some(Self {
            provider,
            pool,
            place,
        })
    }
}

impl AtomicForks for PooledWorkspace<'_> {
    fn fork_into(&self, places: &[&Path], origin: Origin<'_>, progress: &Progress) -> Result<()> {
        let provider = self.provider;
        // Holds the layers until the mounts exist: `tidy` could delete them
        // otherwise.
        let stack = provider.stack(origin, progress)?;
        let ids: Vec<_> = places.iter().map(|place| id(place)).collect();
        self.pool.copy_all(id(self.place), &ids, origin.limit)?;
        for place in places {
            // The cache never changes and is valid for the copy. Without it the
            // next read takes longer.
            let _ = fs::hard_link(provider.cache(self.place), provider.cache(place));
        }
        places
            .iter()
            .try_for_each(|place| provider.mount_stack(place, &stack, origin.owner))
    }
}

impl Limits for PooledWorkspace<'_> {
    fn used(&self) -> Result<Option<u64>> {
        self.pool.used(id(self.place))
    }

    fn set_limit(&self, bytes: u64) -> Result<()> {
        self.pool.set_limit(id(self.place), bytes)
    }

    fn reclaim(&self) -> Result<bool> {
        self.pool.reclaim(id(self.place))
    }
}
