//! A collection that deletes a few objects at a time, and can stop anywhere.

use async_trait::async_trait;
use elevo_engine::{Collection, GcScope, Inspect, Store, StoreResult, Swept};
use elevo_objects::{Kind, ObjectKey, SnapshotId};

use super::TENANT;
use super::store::SimStore;

pub struct SimCollection<'a> {
    store: &'a SimStore,
    below: Box<dyn Collection + 'a>,
    /// Objects left to sweep, from the end; `None` before the sweep.
    unswept: Option<Vec<ObjectKey>>,
}

impl<'a> SimCollection<'a> {
    pub fn new(store: &'a SimStore, below: Box<dyn Collection + 'a>) -> Self {
        Self {
            store,
            below,
            unswept: None,
        }
    }

    async fn remove_some(&self, keys: &[ObjectKey]) -> StoreResult<Vec<bool>> {
        self.store.may_fail("remove").await?;
        let disk = &self.store.disk;
        let data = disk.memory.get(TENANT, keys).await?;
        let removed = self.below.remove(keys).await?;
        for ((key, data), _) in keys
            .iter()
            .zip(data)
            .zip(&removed)
            .filter(|(_, removed)| **removed)
        {
            if let Some(data) = data {
                disk.removed(*key, data);
            }
        }
        let count = removed.iter().filter(|removed| **removed).count();
        self.store.sim.note("remove", (keys.len(), count));
        self.store.takes_time().await;
        Ok(removed)
    }

    async fn all_objects(&self) -> StoreResult<Vec<ObjectKey>> {
        let mut keys = Vec::new();
        for kind in [Kind::Chunk, Kind::ChunkList, Kind::Directory, Kind::Times] {
            let memory = &self.store.disk.memory;
            let hashes = memory.list_objects(TENANT, kind, None, usize::MAX).await?;
            keys.extend(hashes.into_iter().map(|hash| ObjectKey { kind, hash }));
        }
        Ok(keys)
    }
}

#[async_trait]
impl Collection for SimCollection<'_> {
    fn scope(&self) -> GcScope {
        self.below.scope()
    }

    async fn older_writers(&self) -> StoreResult<usize> {
        self.store.may_fail("older writers").await?;
        self.below.older_writers().await
    }

    async fn arrivals(&self) -> StoreResult<Vec<SnapshotId>> {
        self.store.may_fail("arrivals").await?;
        let arrivals = self.below.arrivals().await?;
        self.store.takes_time().await;
        Ok(arrivals)
    }

    async fn marked(&self, keys: &[ObjectKey]) -> StoreResult<Vec<bool>> {
        self.store.may_fail("marked").await?;
        self.below.marked(keys).await
    }

    async fn mark(&self, keys: &[ObjectKey]) -> StoreResult<Vec<bool>> {
        self.store.may_fail("mark").await?;
        self.store.sim.note("mark", keys.len());
        let first = self.below.mark(keys).await?;
        self.store.takes_time().await;
        Ok(first)
    }

    async fn close(&self) -> StoreResult<bool> {
        self.store.may_fail("close").await?;
        let is_closed = self.below.close().await?;
        self.store.takes_time().await;
        Ok(is_closed)
    }

    async fn unmarked_snapshots(
        &self,
        after: Option<SnapshotId>,
        limit: usize,
    ) -> StoreResult<Vec<SnapshotId>> {
        self.store.may_fail("unmarked snapshots").await?;
        let ids = self.below.unmarked_snapshots(after, limit).await?;
        self.store.takes_time().await;
        Ok(ids)
    }

    async fn remove(&self, keys: &[ObjectKey]) -> StoreResult<Vec<bool>> {
        let size = 1 + self.store.sim.below(16);
        let mut removed = Vec::with_capacity(keys.len());
        for some in keys.chunks(size) {
            removed.extend(self.remove_some(some).await?);
        }
        Ok(removed)
    }

    async fn sweep(&mut self, only_count: bool) -> StoreResult<Option<Swept>> {
        if only_count {
            self.store.may_fail("sweep").await?;
            return self.below.sweep(true).await;
        }
        if self.unswept.is_none() {
            self.unswept = Some(self.all_objects().await?);
        }
        let left = self.unswept.get_or_insert_default();
        if left.is_empty() {
            return Ok(None);
        }
        let size = 1 + self.store.sim.below(32);
        let some = left.split_off(left.len().saturating_sub(size));
        let removed = self.remove_some(&some).await?;
        Ok(Some(Swept {
            seen: some.len() as u64,
            removed: removed.into_iter().filter(|removed| *removed).count() as u64,
        }))
    }

    async fn finish(self: Box<Self>) -> StoreResult<()> {
        self.store.may_fail("finish").await?;
        self.store.sim.note("finish", ());
        self.below.finish().await?;
        self.store.takes_time().await;
        Ok(())
    }
}
