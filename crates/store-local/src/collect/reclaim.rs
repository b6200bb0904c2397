//! Returns the space of deleted objects to the disk.
//!
//! RocksDB compacts its tables as rows are added and deleted, but keeps a file of
//! large values as long as one of the values is needed. Its automatic collection
//! of such files stays off, because commits would pay for moving the values that
//! remain. Instead, this module moves those values in one pass, after many
//! objects were deleted.

use elevo_core::TenantId;
use elevo_engine::StoreResult;
use rocksdb::{BottommostLevelCompaction, CompactOptions};

use crate::keys;
use crate::rocks;
use crate::store::{LocalStore, write_failed};

const COLLECT: &str = "enable_blob_garbage_collection";
const AGE: &str = "blob_garbage_collection_age_cutoff";

/// Whether at least a tenth of the objects was deleted.
pub(super) const fn is_worth_it(seen: u64, removed: u64) -> bool {
    removed > 0 && removed >= seen / 10
}

impl LocalStore {
    /// Rewrites the tables of a tenant, and those of its values that are still
    /// needed.
    pub(super) fn reclaim(&self, tenant: TenantId) -> StoreResult<()> {
        let start = tenant.as_bytes().as_slice();
        let end = keys::after_prefix(start);
        for family in [rocks::NODES, rocks::CHUNKS] {
            let family = self.family(family);
            let set = |options: [(&str, &str); 2]| self.db.set_options_cf(family, &options);
            set([(COLLECT, "true"), (AGE, "1.0")]).map_err(write_failed)?;
            let mut options = CompactOptions::default();
            options.set_exclusive_manual_compaction(false);
            options.set_bottommost_level_compaction(BottommostLevelCompaction::ForceOptimized);
            let end = end.as_deref();
            self.db
                .compact_range_cf_opt(family, Some(start), end, &options);
            set([(COLLECT, "false"), (AGE, "0.25")]).map_err(write_failed)?;
        }
        Ok(())
    }
}
