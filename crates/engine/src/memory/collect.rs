//! Garbage collection in memory.

use std::collections::HashSet;
use std::ops::Bound;

use async_trait::async_trait;
use elevo_core::TenantId;
use elevo_objects::{Kind, ObjectKey, SnapshotId};

use super::{MemoryStore, Tenant};
use crate::guards::{Collecting, Phase};
use crate::store::{Collection, GcScope, StoreError, StoreResult, Swept};

/// Objects known to be needed.
#[derive(Debug, Default)]
pub(super) struct Marks {
    marked: HashSet<ObjectKey>,
    /// Objects written or found present during the running collection.
    kept: HashSet<ObjectKey>,
    is_collecting: bool,
    /// Whether the last collection was finished.
    are_whole: bool,
}

impl Marks {
    pub(super) fn keep(&mut self, key: ObjectKey) {
        if self.is_collecting {
            self.kept.insert(key);
        }
    }

    fn has(&self, key: &ObjectKey) -> bool {
        self.marked.contains(key) || self.kept.contains(key)
    }

    /// Whether a caller may hold a snapshot in this phase.
    pub(super) fn may_hold(&self, id: SnapshotId, phase: Phase) -> bool {
        let is_sweeping = phase == Phase::Sweeping && self.is_collecting;
        !is_sweeping || self.has(&snapshot_key(id))
    }
}

fn snapshot_key(id: SnapshotId) -> ObjectKey {
    ObjectKey {
        kind: Kind::Snapshot,
        hash: id.0,
    }
}

impl MemoryStore {
    pub(super) fn collect(
        &self,
        tenant: TenantId,
        scope: GcScope,
    ) -> StoreResult<MemoryCollection<'_>> {
        // Begin before the marks are changed: this fails if another collection
        // is running.
        let busy = || StoreError::Refused("a collection is already running".into());
        let collecting = self.guards.begin(tenant).ok_or_else(busy)?;
        let scope = self.with(tenant, |tenant| {
            let marks = &mut tenant.marks;
            let scope = if marks.are_whole {
                scope
            } else {
                GcScope::Full
            };
            if scope == GcScope::Full {
                marks.marked.clear();
            }
            (marks.is_collecting, marks.are_whole) = (true, false);
            scope
        });
        Ok(MemoryCollection {
            store: self,
            tenant,
            scope,
            collecting,
            is_swept: false,
        })
    }
}

pub(super) struct MemoryCollection<'a> {
    store: &'a MemoryStore,
    tenant: TenantId,
    scope: GcScope,
    collecting: Collecting,
    is_swept: bool,
}

impl MemoryCollection<'_> {
    fn with<T>(&self, action: impl FnOnce(&mut Tenant) -> T) -> T {
        self.store.with(self.tenant, action)
    }
}

impl Drop for MemoryCollection<'_> {
    fn drop(&mut self) {
        self.with(|tenant| {
            tenant.marks.is_collecting = false;
            tenant.marks.kept.clear();
        });
    }
}

#[async_trait]
impl Collection for MemoryCollection<'_> {
    fn scope(&self) -> GcScope {
        self.scope
    }

    async fn older_writers(&self) -> StoreResult<usize> {
        Ok(self.collecting.older_writers())
    }

    async fn arrivals(&self) -> StoreResult<Vec<SnapshotId>> {
        Ok(self.collecting.arrivals())
    }

    async fn marked(&self, keys: &[ObjectKey]) -> StoreResult<Vec<bool>> {
        Ok(self.with(|tenant| {
            let marked = &tenant.marks.marked;
            keys.iter().map(|key| marked.contains(key)).collect()
        }))
    }

    async fn mark(&self, keys: &[ObjectKey]) -> StoreResult<Vec<bool>> {
        Ok(self.with(|tenant| {
            let marked = &mut tenant.marks.marked;
            keys.iter().map(|key| marked.insert(*key)).collect()
        }))
    }

    async fn close(&self) -> StoreResult<bool> {
        Ok(self.with(|tenant| {
            let marks = &tenant.marks;
            self.collecting.close(|id| marks.has(&snapshot_key(*id)))
        }))
    }

    async fn unmarked_snapshots(
        &self,
        after: Option<SnapshotId>,
        limit: usize,
    ) -> StoreResult<Vec<SnapshotId>> {
        let after = after.map_or(Bound::Unbounded, Bound::Excluded);
        Ok(self.with(|tenant| {
            let ids = tenant.snapshots.range((after, Bound::Unbounded));
            let ids = ids.map(|(id, _)| *id);
            ids.filter(|id| !tenant.marks.has(&snapshot_key(*id)))
                .take(limit)
                .collect()
        }))
    }

    async fn remove(&self, keys: &[ObjectKey]) -> StoreResult<Vec<bool>> {
        Ok(self.with(|tenant| keys.iter().map(|key| remove(tenant, key)).collect()))
    }

    async fn sweep(&mut self, only_count: bool) -> StoreResult<Option<Swept>> {
        if std::mem::replace(&mut self.is_swept, true) {
            return Ok(None);
        }
        Ok(Some(self.with(|tenant| {
            let mut swept = Swept {
                seen: tenant.objects.len() as u64,
                removed: 0,
            };
            let Tenant { objects, marks, .. } = tenant;
            objects.retain(|key, _| {
                let is_needed = marks.has(key);
                swept.removed += u64::from(!is_needed);
                is_needed || only_count
            });
            swept
        })))
    }

    async fn finish(self: Box<Self>) -> StoreResult<()> {
        self.with(|tenant| tenant.marks.are_whole = true);
        Ok(())
    }
}

fn remove(tenant: &mut Tenant, key: &ObjectKey) -> bool {
    if tenant.marks.has(key) {
        return false;
    }
    match key.kind {
        Kind::Snapshot => tenant.snapshots.remove(&SnapshotId(key.hash)).is_some(),
        _ => tenant.objects.remove(key).is_some(),
    }
}
