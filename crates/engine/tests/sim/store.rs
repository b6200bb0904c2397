//! A store whose calls take time, may fail, and end when the machine crashes: a
//! memory store, and a record of the changes that a power loss may undo.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use async_trait::async_trait;
use bytes::Bytes;
use elevo_core::TenantId;
use elevo_engine::{
    Collection, Commit, Committed, GcScope, Held, MemoryStore, Object, Recent, Store, StoreError,
    StoreResult, Writer, WriterId,
};
use elevo_objects::{ObjectKey, Snapshot, SnapshotId};

use super::collection::SimCollection;
use super::executor::Sim;
use super::{Settings, TENANT};

/// The data that survives a crash. Commits, deletions of snapshots and ends of
/// collections are durable at once; puts become durable with a commit that names
/// their writer and begins after them, and deletions of objects at any time.
#[derive(Debug, Default)]
pub struct Disk {
    pub memory: Arc<MemoryStore>,
    unsynced: Mutex<Unsynced>,
}

#[derive(Debug, Default)]
struct Unsynced {
    /// Objects that were put, each with its writers and the position of their
    /// first put of it in the order of puts.
    puts: BTreeMap<ObjectKey, BTreeMap<WriterId, u64>>,
    next: u64,
    /// Objects that were deleted.
    removed: BTreeMap<ObjectKey, Bytes>,
}

impl Disk {
    fn lock(&self) -> MutexGuard<'_, Unsynced> {
        self.unsynced.lock().expect("no holder panics")
    }

    async fn put(&self, writer: &Writer, objects: Vec<Object>) -> StoreResult<()> {
        let keys: Vec<_> = objects.iter().map(|object| object.key).collect();
        let found = self.memory.get(TENANT, &keys).await?;
        {
            let mut unsynced = self.lock();
            unsynced.next += 1;
            let next = unsynced.next;
            for (key, data) in keys.iter().zip(found) {
                if data.is_none() || unsynced.puts.contains_key(key) {
                    let writers = unsynced.puts.entry(*key).or_default();
                    writers.entry(writer.id()).or_insert(next);
                    unsynced.removed.remove(key);
                }
            }
        }
        self.memory.put(TENANT, writer, objects).await
    }

    /// Returns whether objects are stored and survive a crash.
    async fn contains(&self, keys: &[ObjectKey]) -> StoreResult<Vec<bool>> {
        let found = self.memory.contains(TENANT, keys).await?;
        let unsynced = self.lock();
        let is_durable = |(key, found)| found && !unsynced.puts.contains_key(key);
        Ok(keys.iter().zip(found).map(is_durable).collect())
    }

    async fn commit(&self, commit: Commit, began: u64) -> StoreResult<Committed> {
        let keys: Vec<_> = commit.objects.iter().map(|object| object.key).collect();
        let after = commit.after.clone();
        let committed = self.memory.commit(TENANT, commit).await?;
        let mut unsynced = self.lock();
        let is_late = |writer: &WriterId, put| !after.contains(writer) || put > began;
        unsynced
            .puts
            .retain(|_, puts| puts.iter().all(|(writer, put)| is_late(writer, *put)));
        for key in keys {
            unsynced.puts.remove(&key);
            unsynced.removed.remove(&key);
        }
        Ok(committed)
    }

    /// Records the deletion of an object.
    pub fn removed(&self, key: ObjectKey, data: Bytes) {
        let mut unsynced = self.lock();
        if unsynced.puts.remove(&key).is_none() {
            unsynced.removed.insert(key, data);
        }
    }

    /// Simulates a power loss: of the changes that were not durable, only a
    /// random part survives.
    pub fn lose_power(&self, sim: &Sim) {
        let Unsynced { puts, removed, .. } = std::mem::take(&mut *self.lock());
        let part = sim.pick(&[0.0, 0.5, 1.0]).unwrap_or_default();
        for key in puts.into_keys() {
            if !sim.chance(part) {
                self.memory.damage(TENANT, key, None);
            }
        }
        for (key, data) in removed {
            if sim.chance(part) {
                self.memory.damage(TENANT, key, Some(data));
            }
        }
    }
}

/// The store that the engine uses.
#[derive(Clone)]
pub struct SimStore {
    pub sim: Sim,
    pub disk: Arc<Disk>,
    pub settings: Settings,
    /// Whether commits are made like an import: missing objects are put first,
    /// then the rest is committed.
    pub puts_ahead: bool,
}

#[derive(Debug, thiserror::Error)]
#[error("the simulated storage failed")]
pub struct Injected;

impl SimStore {
    /// Takes some time, in which other tasks run or a crash happens.
    pub async fn takes_time(&self) {
        self.sim.step().await;
        let micros = self.sim.random(|random| self.settings.latency(random));
        if micros > 0 {
            self.sim.delay(micros).await;
            self.sim.step().await;
        }
    }

    /// Takes some time, and may fail.
    pub async fn may_fail(&self, what: &str) -> StoreResult<()> {
        self.takes_time().await;
        if self.settings.errors > 0.0 && self.sim.chance(self.settings.errors) {
            self.sim.note("failed", what);
            return Err(StoreError::Storage(Box::new(Injected)));
        }
        Ok(())
    }

    /// Runs a call that changes nothing.
    async fn read<T>(
        &self,
        what: &str,
        count: usize,
        call: impl Future<Output = StoreResult<T>>,
    ) -> StoreResult<T> {
        self.may_fail(what).await?;
        self.sim.note(what, count);
        let answer = call.await?;
        self.takes_time().await;
        Ok(answer)
    }

    async fn put_some(&self, writer: &Writer, mut objects: Vec<Object>) -> StoreResult<()> {
        // Sorted, since objects arrive in the order of a hash map, which
        // differs between runs.
        objects.sort_unstable_by_key(|object| object.key);
        self.may_fail("put").await?;
        let some = self.sim.below(objects.len() + 1);
        let rest = objects.split_off(some);
        self.sim.note("put", (objects.len(), rest.len()));
        self.disk.put(writer, objects).await?;
        self.may_fail("put").await?;
        self.disk.put(writer, rest).await?;
        self.takes_time().await;
        Ok(())
    }

    async fn commit_all(&self, mut commit: Commit) -> StoreResult<Committed> {
        let began = self.disk.lock().next;
        commit.objects.sort_unstable_by_key(|object| object.key);
        self.may_fail("commit").await?;
        if self.sim.chance(0.2) {
            // If an error follows, the commit has stored only some of its
            // objects.
            let some = self.sim.below(commit.objects.len() + 1);
            let some = commit.objects[..some].to_vec();
            let writer = self.disk.memory.writing(TENANT).await?;
            self.disk.put(&writer, some).await?;
            self.may_fail("commit").await?;
        }
        let count = commit.objects.len();
        let committed = self.disk.commit(commit, began).await;
        let ids = committed.iter().flat_map(|committed| &committed.ids);
        let told: Vec<_> = ids.map(|id| id.0).collect();
        self.sim.note("commit", (count, told));
        self.takes_time().await;
        committed
    }

    async fn commit_after_puts(&self, mut commit: Commit) -> StoreResult<Committed> {
        let writer = self.writing(TENANT).await?;
        commit.after.push(writer.id());
        let mut objects = std::mem::take(&mut commit.objects);
        objects.sort_unstable_by_key(|object| object.key);
        let size = 1 + self.sim.below(8);
        for some in objects.chunks(size) {
            let keys: Vec<_> = some.iter().map(|object| object.key).collect();
            let found = self.contains(TENANT, &keys).await?;
            let missing = some.iter().zip(found).filter(|(_, found)| !found);
            let missing: Vec<_> = missing.map(|(object, _)| object.clone()).collect();
            if !missing.is_empty() {
                self.put_some(&writer, missing).await?;
            }
        }
        self.commit_all(commit).await
    }
}

#[async_trait]
impl Store for SimStore {
    async fn get(&self, tenant: TenantId, keys: &[ObjectKey]) -> StoreResult<Vec<Option<Bytes>>> {
        let call = self.disk.memory.get(tenant, keys);
        self.read("get", keys.len(), call).await
    }

    async fn contains(&self, _: TenantId, keys: &[ObjectKey]) -> StoreResult<Vec<bool>> {
        self.read("contains", keys.len(), self.disk.contains(keys))
            .await
    }

    async fn put(&self, _: TenantId, writer: &Writer, objects: Vec<Object>) -> StoreResult<()> {
        self.put_some(writer, objects).await
    }

    async fn commit(&self, _: TenantId, commit: Commit) -> StoreResult<Committed> {
        if self.puts_ahead {
            self.commit_after_puts(commit).await
        } else {
            self.commit_all(commit).await
        }
    }

    async fn snapshots(
        &self,
        tenant: TenantId,
        ids: &[SnapshotId],
    ) -> StoreResult<Vec<Option<Snapshot>>> {
        let call = self.disk.memory.snapshots(tenant, ids);
        self.read("snapshots", ids.len(), call).await
    }

    async fn list_snapshots(
        &self,
        tenant: TenantId,
        after: Option<SnapshotId>,
        limit: usize,
    ) -> StoreResult<Vec<SnapshotId>> {
        let call = self.disk.memory.list_snapshots(tenant, after, limit);
        self.read("list snapshots", limit, call).await
    }

    async fn snapshots_since(
        &self,
        tenant: TenantId,
        recent: Recent,
        after: Option<SnapshotId>,
        limit: usize,
    ) -> StoreResult<Vec<SnapshotId>> {
        let memory = &self.disk.memory;
        let call = memory.snapshots_since(tenant, recent, after, limit);
        self.read("snapshots since", limit, call).await
    }

    async fn reference(&self, tenant: TenantId, name: &str) -> StoreResult<Option<SnapshotId>> {
        let call = self.disk.memory.reference(tenant, name);
        self.read("reference", name.len(), call).await
    }

    async fn list_references(
        &self,
        tenant: TenantId,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> StoreResult<Vec<(String, SnapshotId)>> {
        let memory = &self.disk.memory;
        let call = memory.list_references(tenant, prefix, after, limit);
        self.read("list references", limit, call).await
    }

    async fn stored_bytes(&self, tenant: TenantId) -> StoreResult<u64> {
        let call = self.disk.memory.stored_bytes(tenant);
        self.read("stored bytes", 0, call).await
    }

    async fn writing(&self, tenant: TenantId) -> StoreResult<Writer> {
        let call = self.disk.memory.writing(tenant);
        self.read("writing", 0, call).await
    }

    async fn hold(&self, tenant: TenantId, snapshots: &[SnapshotId]) -> StoreResult<Option<Held>> {
        let call = self.disk.memory.hold(tenant, snapshots);
        self.read("hold", snapshots.len(), call).await
    }

    async fn collection(
        &self,
        tenant: TenantId,
        scope: GcScope,
    ) -> StoreResult<Box<dyn Collection + '_>> {
        let call = self.disk.memory.collection(tenant, scope);
        let below = self.read("collection", 0, call).await?;
        Ok(Box::new(SimCollection::new(self, below)))
    }
}
