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
    live_dir: &'a Path,
}

impl<'a> PooledWorkspace<'a> {
    /// Returns the workspace in `live_dir`, if its upper is in the pool.
    pub(super) fn find(provider: &'a OverlayProvider, live_dir: &'a Path) -> Option<Self> {
        let pool = provider.pool_of(live_dir)?;
        Some(Self {
            provider,
            pool,
            live_dir,
        })
    }
}

impl AtomicForks for PooledWorkspace<'_> {
    fn fork_into(
        &self,
        live_dirs: &[&Path],
        origin: Origin<'_>,
        progress: &Progress,
    ) -> Result<()> {
        let provider = self.provider;
        // Holds the layers until the mounts exist: `tidy` could delete them
        // otherwise.
        let stack = provider.stack(origin, progress)?;
        let ids: Vec<_> = live_dirs.iter().map(|live_dir| id(live_dir)).collect();
        self.pool.copy_all(id(self.live_dir), &ids, origin.limit)?;
        for live_dir in live_dirs {
            // The cache never changes and is valid for the copy. Without it the
            // next read takes longer.
            let _ = fs::hard_link(provider.cache(self.live_dir), provider.cache(live_dir));
        }
        live_dirs
            .iter()
            .try_for_each(|live_dir| provider.mount_stack(live_dir, &stack, origin.owner))
    }
}

impl Limits for PooledWorkspace<'_> {
    fn used(&self) -> Result<Option<u64>> {
        self.pool.used(id(self.live_dir))
    }

    fn set_limit(&self, bytes: u64) -> Result<()> {
        self.pool.set_limit(id(self.live_dir), bytes)
    }

    fn reclaim(&self) -> Result<bool> {
        self.pool.reclaim(id(self.live_dir))
    }
}
