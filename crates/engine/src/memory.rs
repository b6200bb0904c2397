//! A store in memory.

mod collect;
mod inspect;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Bound;

use async_trait::async_trait;
use bytes::Bytes;
use elevo_core::TenantId;
use elevo_objects::{Kind, ObjectKey, Snapshot, SnapshotId};
use parking_lot::Mutex;

use crate::guards::{Guard, Guards, Writer, WriterId};
use crate::store::{
    Collection, Commit, Committed, GcScope, Held, Object, Recent, Store, StoreError, StoreResult,
    check_reference_name,
};
use collect::Marks;

/// A [`Store`] in memory, for tests. Stricter than the local one: it hashes every
/// object and rejects bytes that do not match their key, and an object that was
/// put counts as stored only after a commit that names the writer.
#[derive(Debug, Default)]
pub struct MemoryStore {
    tenants: Mutex<HashMap<TenantId, Tenant>>,
    guards: Guards,
}

#[derive(Debug, Default)]
struct Tenant {
    objects: HashMap<ObjectKey, Bytes>,
    /// Objects that no commit has made durable, with the writers that have put
    /// them.
    ahead: HashMap<ObjectKey, BTreeSet<WriterId>>,
    snapshots: BTreeMap<SnapshotId, Snapshot>,
    references: BTreeMap<String, SnapshotId>,
    marks: Marks,
}

impl MemoryStore {
    /// Creates an empty store.
    pub fn new() -> Self {
        Self::default()
    }

    /// Number of a tenant's objects, and the sum of their bytes.
    pub fn usage(&self, tenant: TenantId) -> (usize, u64) {
        self.with(tenant, |tenant| {
            let bytes = tenant.objects.values().map(|data| data.len() as u64).sum();
            (tenant.objects.len(), bytes)
        })
    }

    fn with<T>(&self, tenant: TenantId, action: impl FnOnce(&mut Tenant) -> T) -> T {
        action(self.tenants.lock().entry(tenant).or_default())
    }
}

fn check_object(object: &Object) -> StoreResult<()> {
    if object.key.kind == Kind::Snapshot {
        return Err(StoreError::Refused(
            "a snapshot cannot be written as an object".into(),
        ));
    }
    if object.key.kind.hash(&object.data) != object.key.hash {
        return Err(StoreError::Refused(format!(
            "the bytes of {:?} do not match its hash",
            object.key
        )));
    }
    Ok(())
}

impl Tenant {
    fn put_ahead(&mut self, writer: WriterId, objects: &[Object]) {
        for Object { key, .. } in objects {
            if !self.is_durable(key) {
                self.ahead.entry(*key).or_default().insert(writer);
            }
        }
    }

    /// Makes everything durable that these writers have put.
    fn settle(&mut self, writers: &[WriterId]) {
        if !writers.is_empty() {
            let is_named = |writer: &WriterId| writers.contains(writer);
            self.ahead.retain(|_, by| !by.iter().any(is_named));
        }
    }

    fn is_durable(&self, key: &ObjectKey) -> bool {
        self.objects.contains_key(key) && !self.ahead.contains_key(key)
    }

    fn add(&mut self, objects: Vec<Object>) {
        for object in objects {
            self.marks.keep(object.key);
            self.objects.entry(object.key).or_insert(object.data);
        }
    }

    fn check_roots(&self, commit: &Commit) -> StoreResult<()> {
        for snapshot in &commit.snapshots {
            let tree = snapshot.tree.root.map(|hash| ObjectKey {
                kind: Kind::Directory,
                hash,
            });
            let times = snapshot.times.map(|hash| ObjectKey {
                kind: Kind::Times,
                hash,
            });
            for root in tree.into_iter().chain(times) {
                let in_commit = commit.objects.iter().any(|object| object.key == root);
                if !in_commit && !self.is_durable(&root) {
                    let message = format!(
                        "root {root:?} is not stored, or was put by a writer that the commit does \
                         not name"
                    );
                    return Err(StoreError::Refused(message));
                }
            }
        }
        Ok(())
    }

    fn check_references(&self, commit: &Commit) -> StoreResult<()> {
        for update in &commit.references {
            check_reference_name(&update.name)?;
            let current = self.references.get(&update.name).copied();
            if !update.expected.holds(current) {
                return Err(StoreError::ReferenceMoved {
                    name: update.name.clone(),
                    current,
                });
            }
        }
        Ok(())
    }
}

#[async_trait]
impl Store for MemoryStore {
    async fn get(&self, tenant: TenantId, keys: &[ObjectKey]) -> StoreResult<Vec<Option<Bytes>>> {
        Ok(self.with(tenant, |tenant| {
            keys.iter()
                .map(|key| tenant.objects.get(key).cloned())
                .collect()
        }))
    }

    async fn contains(&self, tenant: TenantId, keys: &[ObjectKey]) -> StoreResult<Vec<bool>> {
        Ok(self.with(tenant, |tenant| {
            let find = |key: &ObjectKey| {
                tenant.marks.keep(*key);
                tenant.is_durable(key)
            };
            keys.iter().map(find).collect()
        }))
    }

    async fn put(
        &self,
        tenant: TenantId,
        writer: &Writer,
        objects: Vec<Object>,
    ) -> StoreResult<()> {
        objects.iter().try_for_each(check_object)?;
        self.with(tenant, |tenant| {
            tenant.put_ahead(writer.id(), &objects);
            tenant.add(objects);
        });
        Ok(())
    }

    async fn commit(&self, tenant: TenantId, commit: Commit) -> StoreResult<Committed> {
        commit.objects.iter().try_for_each(check_object)?;
        let ended = || StoreError::Refused("a writer that the commit names has ended".into());
        let writing = self.guards.committing(tenant, &commit.after);
        let _writing = writing.ok_or_else(ended)?;
        let ids = commit
            .snapshots
            .iter()
            .map(|snapshot| snapshot.encode().map(|(id, _)| id))
            .collect::<Result<Vec<_>, _>>()
            .map_err(|error| StoreError::Refused(error.to_string()))?;
        let ids = self.with(tenant, |tenant| {
            tenant.settle(&commit.after);
            tenant.check_roots(&commit)?;
            tenant.check_references(&commit)?;
            for object in &commit.objects {
                tenant.ahead.remove(&object.key);
            }
            tenant.add(commit.objects);
            for id in &ids {
                tenant.marks.keep(ObjectKey {
                    kind: Kind::Snapshot,
                    hash: id.0,
                });
            }
            tenant
                .snapshots
                .extend(ids.iter().copied().zip(commit.snapshots));
            for update in commit.references {
                match update.target {
                    Some(id) => tenant.references.insert(update.name, id),
                    None => tenant.references.remove(&update.name),
                };
            }
            Ok::<_, StoreError>(ids)
        })?;
        let held = Guard::new(self.guards.committed(tenant, &ids));
        Ok(Committed { ids, held })
    }

    async fn snapshots(
        &self,
        tenant: TenantId,
        ids: &[SnapshotId],
    ) -> StoreResult<Vec<Option<Snapshot>>> {
        Ok(self.with(tenant, |tenant| {
            ids.iter()
                .map(|id| tenant.snapshots.get(id).cloned())
                .collect()
        }))
    }

    async fn list_snapshots(
        &self,
        tenant: TenantId,
        after: Option<SnapshotId>,
        limit: usize,
    ) -> StoreResult<Vec<SnapshotId>> {
        Ok(self.with(tenant, |tenant| {
            let after = after.map_or(Bound::Unbounded, Bound::Excluded);
            let range = tenant.snapshots.range((after, Bound::Unbounded));
            range.map(|(id, _)| *id).take(limit).collect()
        }))
    }

    async fn snapshots_since(
        &self,
        tenant: TenantId,
        recent: Recent,
        after: Option<SnapshotId>,
        limit: usize,
    ) -> StoreResult<Vec<SnapshotId>> {
        let after = after.map_or(Bound::Unbounded, Bound::Excluded);
        Ok(self.with(tenant, |tenant| {
            let all = tenant.snapshots.range((after, Bound::Unbounded));
            let found = all.filter(|(_, snapshot)| snapshot.created >= recent.since());
            found.map(|(id, _)| *id).take(limit).collect()
        }))
    }

    async fn reference(&self, tenant: TenantId, name: &str) -> StoreResult<Option<SnapshotId>> {
        Ok(self.with(tenant, |tenant| tenant.references.get(name).copied()))
    }

    async fn list_references(
        &self,
        tenant: TenantId,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> StoreResult<Vec<(String, SnapshotId)>> {
        Ok(self.with(tenant, |tenant| {
            tenant
                .references
                .iter()
                .filter(|(name, _)| name.starts_with(prefix))
                .filter(|(name, _)| after.is_none_or(|after| name.as_str() > after))
                .map(|(name, id)| (name.clone(), *id))
                .take(limit)
                .collect()
        }))
    }

    async fn stored_bytes(&self, tenant: TenantId) -> StoreResult<u64> {
        Ok(self.with(tenant, |tenant| {
            let sizes = tenant.objects.values().map(|data| data.len() as u64);
            sizes.sum()
        }))
    }

    async fn writing(&self, tenant: TenantId) -> StoreResult<Writer> {
        Ok(self.guards.writer(tenant))
    }

    async fn hold(&self, tenant: TenantId, snapshots: &[SnapshotId]) -> StoreResult<Option<Held>> {
        // All of this happens under the lock, so that the phase belongs to the
        // collection whose marks are checked.
        Ok(self.with(tenant, |found| {
            let (holding, phase) = self.guards.hold(tenant, snapshots);
            let ids = snapshots.iter();
            let ids = ids.filter(|id| found.marks.may_hold(**id, phase));
            let records: Vec<_> = ids
                .filter_map(|id| found.snapshots.get(id).cloned())
                .collect();
            (records.len() == snapshots.len()).then(|| Held {
                guard: Guard::new(holding),
                snapshots: records,
            })
        }))
    }

    async fn collection(
        &self,
        tenant: TenantId,
        scope: GcScope,
    ) -> StoreResult<Box<dyn Collection + '_>> {
        Ok(Box::new(self.collect(tenant, scope)?))
    }
}
