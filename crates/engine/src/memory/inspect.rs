//! Inspection and repair of the store in memory.

use async_trait::async_trait;
use bytes::Bytes;
use elevo_core::TenantId;
use elevo_objects::{Hash, Kind, ObjectKey};

use super::{MemoryStore, check_object};
use crate::inspect::{Inspect, RowRepair};
use crate::store::{StoreError, StoreResult, check_reference_name};

impl MemoryStore {
    /// Replaces or deletes an object's bytes, as a bad disk would.
    pub fn damage(&self, tenant: TenantId, key: ObjectKey, data: Option<Bytes>) {
        self.with(tenant, |tenant| {
            tenant.ahead.remove(&key);
            match data {
                Some(data) => tenant.objects.insert(key, data),
                None => tenant.objects.remove(&key),
            }
        });
    }
}

#[async_trait]
impl Inspect for MemoryStore {
    async fn list_objects(
        &self,
        tenant: TenantId,
        kind: Kind,
        after: Option<Hash>,
        limit: usize,
    ) -> StoreResult<Vec<Hash>> {
        let keys = self.with(tenant, |tenant| {
            tenant.objects.keys().copied().collect::<Vec<_>>()
        });
        let mut hashes: Vec<_> = keys
            .into_iter()
            .filter(|key| key.kind == kind && after.is_none_or(|after| key.hash > after))
            .map(|key| key.hash)
            .collect();
        hashes.sort_unstable();
        hashes.truncate(limit);
        Ok(hashes)
    }

    async fn repair_rows(&self, tenant: TenantId, repair: RowRepair) -> StoreResult<()> {
        repair.objects.iter().try_for_each(check_object)?;
        let names = repair.references.iter();
        names
            .map(|(name, _)| name)
            .try_for_each(|name| check_reference_name(name))?;
        let encoded = repair.snapshots.into_iter().map(|snapshot| {
            let (id, _) = snapshot.encode()?;
            Ok((id, snapshot))
        });
        let encoded: Result<Vec<_>, elevo_objects::InvalidSnapshot> = encoded.collect();
        let snapshots = encoded.map_err(|error| StoreError::Refused(error.to_string()))?;
        let _writing = self.guards.writing(tenant);
        let ids: Vec<_> = snapshots.iter().map(|(id, _)| *id).collect();
        self.with(tenant, |tenant| {
            for object in repair.objects {
                tenant.marks.keep(object.key);
                tenant.ahead.remove(&object.key);
                tenant.objects.insert(object.key, object.data);
            }
            for id in ids {
                let (kind, hash) = (Kind::Snapshot, id.0);
                tenant.marks.keep(ObjectKey { kind, hash });
            }
            tenant.snapshots.extend(snapshots);
            tenant.references.extend(repair.references);
            for key in &repair.remove {
                tenant.objects.remove(key);
            }
        });
        Ok(())
    }
}
