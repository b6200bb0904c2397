//! Deletes the remaining rows of a tenant whose data was collected.

use elevo_core::TenantId;
use elevo_engine::{StoreError, StoreResult};
use rocksdb::{BottommostLevelCompaction, CompactOptions, WriteBatch, WriteOptions};

use crate::keys;
use crate::presence::Rows;
use crate::rocks;
use crate::store::{LocalStore, write_failed};

impl LocalStore {
    /// Deletes the marks and counts of a tenant, and rewrites the tables that
    /// had its snapshots and refs. Rejected if the tenant has an object, a
    /// snapshot or a ref: those are deleted by a collection without roots,
    /// which respects readers and writers.
    pub fn forget(&self, tenant: TenantId) -> StoreResult<()> {
        self.check_writable()?;
        for (family, prefix) in [
            (rocks::CHUNKS, tenant.as_bytes().to_vec()),
            (rocks::NODES, tenant.as_bytes().to_vec()),
            (rocks::SNAPSHOTS, tenant.as_bytes().to_vec()),
            (rocks::METADATA, keys::reference(tenant, "")),
        ] {
            if self.has_rows(family, &prefix)? {
                let message =
                    format!("the table `{family}` of the store still has rows of the tenant");
                return Err(StoreError::Refused(message));
            }
        }
        let (start, end) = keys::range(tenant);
        let mut batch = WriteBatch::default();
        batch.delete_range_cf(self.family(rocks::MARKS), &start, &end);
        batch.delete_cf(self.family(rocks::METADATA), keys::collections(tenant));
        batch.delete_cf(self.family(rocks::METADATA), keys::usage(tenant));
        let mut options = WriteOptions::default();
        options.set_sync(true);
        self.db.write_opt(batch, &options).map_err(write_failed)?;
        self.usage.forget(tenant);
        let mut options = CompactOptions::default();
        options.set_exclusive_manual_compaction(false);
        options.set_bottommost_level_compaction(BottommostLevelCompaction::ForceOptimized);
        for family in [rocks::SNAPSHOTS, rocks::METADATA, rocks::MARKS] {
            let family = self.family(family);
            self.db
                .compact_range_cf_opt(family, Some(&start), Some(&end), &options);
        }
        Ok(())
    }

    fn has_rows(&self, family: &'static str, prefix: &[u8]) -> StoreResult<bool> {
        let mut rows = Rows::of(&self.db, self.family(family));
        rows.seek(prefix);
        let row = rows
            .row()
            .map_err(|words| StoreError::Storage(words.into()))?;
        Ok(row.is_some_and(|row| row.starts_with(prefix)))
    }
}
