//! Lists all rows, and overwrites damaged ones.

use std::collections::BTreeSet;

use async_trait::async_trait;
use elevo_core::TenantId;
use elevo_engine::store::check_reference_name;
use elevo_engine::{Inspect, Object, RowRepair, StoreError, StoreResult};
use elevo_objects::{Hash, Kind, ObjectKey, StoredEncoder};
use rocksdb::{WriteBatch, WriteOptions};

use crate::collect::snapshot_key;
use crate::keys;
use crate::presence::Rows;
use crate::rocks;
use crate::store::{LocalStore, write_failed};

/// Sorts after all kinds of objects.
const AFTER_KINDS: u8 = 0xff;

#[async_trait]
impl Inspect for LocalStore {
    async fn list_objects(
        &self,
        tenant: TenantId,
        kind: Kind,
        after: Option<Hash>,
        limit: usize,
    ) -> StoreResult<Vec<Hash>> {
        self.scan_objects(tenant, kind, after, limit)
    }

    async fn repair_rows(&self, tenant: TenantId, repair: RowRepair) -> StoreResult<()> {
        self.check_writable()?;
        self.repair_rows_now(tenant, &repair)
    }
}

impl LocalStore {
    /// Returns the tenants with data in the store, as far as its tables can be
    /// read.
    pub fn tenants(&self) -> StoreResult<Vec<TenantId>> {
        let mut tenants = BTreeSet::new();
        for family in [
            rocks::METADATA,
            rocks::SNAPSHOTS,
            rocks::NODES,
            rocks::CHUNKS,
        ] {
            let mut rows = Rows::of(&self.db, self.family(family));
            let mut start = Vec::new();
            loop {
                rows.seek(&start);
                let Ok(Some(row)) = rows.row() else { break };
                let Some(tenant) = row.first_chunk() else {
                    break;
                };
                tenants.insert(*tenant);
                match keys::after_prefix(tenant) {
                    Some(next) => start = next,
                    None => break,
                }
            }
        }
        Ok(tenants.into_iter().map(TenantId::new).collect())
    }

    fn scan_objects(
        &self,
        tenant: TenantId,
        kind: Kind,
        after: Option<Hash>,
        limit: usize,
    ) -> StoreResult<Vec<Hash>> {
        let mut start = tenant.as_bytes().to_vec();
        if let Some(after) = after {
            start.extend_from_slice(after.as_bytes());
            start.push(AFTER_KINDS);
        }
        let unreadable = |words| StoreError::Damaged(format!("cannot list the objects: {words}"));
        let mut rows = Rows::of(&self.db, self.family_of(kind));
        let mut found = Vec::new();
        rows.seek(&start);
        while found.len() < limit {
            let row = rows.row().map_err(unreadable)?;
            let Some(row) = row.filter(|row| row.starts_with(tenant.as_bytes())) else {
                break;
            };
            let key = keys::object_key(row)
                .ok_or_else(|| unreadable("a row has an invalid key".into()))?;
            if key.kind == kind {
                found.push(key.hash);
            }
            // At the limit, the next row is not needed, and it may be
            // unreadable.
            if found.len() < limit {
                rows.next();
            }
        }
        Ok(found)
    }

    fn repair_rows_now(&self, tenant: TenantId, repair: &RowRepair) -> StoreResult<()> {
        let _writing = self.guards.writing(tenant);
        let mut encoder = StoredEncoder::default();
        let mut batch = WriteBatch::default();
        for Object { key, data } in &repair.objects {
            check_object(key, data)?;
            let value = match key.kind {
                Kind::Chunk => encoder.compressed(data),
                _ => data,
            };
            batch.put_cf(self.family_of(key.kind), keys::object(tenant, key), value);
        }
        let ids = self.add_snapshots(&mut batch, tenant, &repair.snapshots)?;
        for (name, id) in &repair.references {
            check_reference_name(name)?;
            let row = keys::reference(tenant, name);
            batch.put_cf(self.family(rocks::METADATA), row, id.0.as_bytes());
        }
        for key in &repair.remove {
            batch.delete_cf(self.family_of(key.kind), keys::object(tenant, key));
        }
        let objects = repair.objects.iter().map(|object| object.key);
        let snapshots = ids.iter().map(|id| snapshot_key(*id));
        self.keep(tenant, objects.chain(snapshots))?;
        let mut options = WriteOptions::default();
        options.set_sync(true);
        self.db.write_opt(batch, &options).map_err(write_failed)
    }
}

fn check_object(key: &ObjectKey, data: &[u8]) -> StoreResult<()> {
    if key.kind != Kind::Snapshot && key.kind.hash(data) == key.hash {
        return Ok(());
    }
    let words = format!("the bytes of {key:?} do not match its hash");
    Err(StoreError::Refused(words))
}
