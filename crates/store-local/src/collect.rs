//! Garbage collection while commits go on.
//!
//! Marks are rows of a separate family: the needed objects, and the collection
//! that found them. They are not logged; a collection counts as finished, and
//! its marks as complete, once they are in table files. The keys of objects
//! that are written or found during a collection are kept in memory, and
//! spilled to the marks when there are many. The sweep deletes only while it
//! holds the lock on the kept objects, so a writer either protects an object in
//! time, or finds it gone and writes it again.

pub(crate) mod marks;
mod pace;
mod reclaim;
mod sweep;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use async_trait::async_trait;
use elevo_core::TenantId;
use elevo_engine::guards::{Collecting, Holding, Phase};
use elevo_engine::{Collection, GcScope, Guard, Held, StoreError, StoreResult, Swept};
use elevo_objects::{Kind, ObjectKey, SnapshotId};
use parking_lot::Mutex;
use rocksdb::{WriteBatch, WriteOptions};

use crate::keys::{self, ObjectRow};
use crate::rocks;
use crate::store::{LocalStore, write_failed};
use crate::usage::Counts;
use marks::{Mark, Numbers};
use pace::Pace;

/// Maximum number of kept keys in memory.
const KEPT: usize = 200_000;
/// Number of objects deleted in one batch. Other calls may have to wait until
/// the batch is written.
const REMOVED: usize = 256;

/// The running collections.
#[derive(Debug, Default)]
pub(crate) struct Collections {
    count: AtomicUsize,
    /// Number of calls by readers and writers, so that a collection can rest
    /// while they arrive.
    calls: AtomicU64,
    by_tenant: Mutex<HashMap<TenantId, Arc<Active>>>,
}

/// State of a collection that other calls need.
#[derive(Debug)]
struct Active {
    number: u32,
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    keys: HashSet<ObjectKey>,
    /// Number of times that the keys were spilled to the marks.
    spilled: u64,
}

impl Collections {
    /// Returns the running collection of a tenant.
    fn of(&self, tenant: TenantId) -> Option<Arc<Active>> {
        // Without a collection, a call takes no lock. A relaxed read is enough:
        // a writer that begins after the collection acquires the lock of the
        // guards after the collection did, and so sees the count. The objects of
        // an earlier writer need not be kept, because the collection waits for
        // it and walks the snapshots that it commits.
        if self.count.load(Ordering::Relaxed) == 0 {
            return None;
        }
        self.calls.fetch_add(1, Ordering::Relaxed);
        self.by_tenant.lock().get(&tenant).cloned()
    }

    /// Whether `active` is still the running collection of the tenant.
    fn has(&self, tenant: TenantId, active: &Arc<Active>) -> bool {
        let by_tenant = self.by_tenant.lock();
        let found = by_tenant.get(&tenant);
        found.is_some_and(|found| Arc::ptr_eq(found, active))
    }
}

pub(crate) fn snapshot_key(id: SnapshotId) -> ObjectKey {
    ObjectKey {
        kind: Kind::Snapshot,
        hash: id.0,
    }
}

impl LocalStore {
    /// Protects objects from the running collection, if there is one.
    pub(crate) fn keep(
        &self,
        tenant: TenantId,
        keys: impl Iterator<Item = ObjectKey>,
    ) -> StoreResult<()> {
        let Some(active) = self.collections.of(tenant) else {
            return Ok(());
        };
        let mut kept = active.kept.lock();
        kept.keys.extend(keys);
        if kept.keys.len() > KEPT {
            self.spill(tenant, &active, &mut kept)
        } else {
            Ok(())
        }
    }

    /// Holds snapshots; `None` if one is not stored or is about to be deleted.
    pub(crate) fn hold_now(
        &self,
        tenant: TenantId,
        snapshots: &[SnapshotId],
    ) -> StoreResult<Option<Held>> {
        let (holding, sweeping) = self.hold_beside_collections(tenant, snapshots);
        let mut records = Vec::with_capacity(snapshots.len());
        for id in snapshots {
            let is_safe = match &sweeping {
                // If the collection has ended, the marks may be those of the
                // next one, which learns of the hold by itself.
                Some(active) => {
                    self.is_needed(tenant, active, *id)? || !self.collections.has(tenant, active)
                }
                None => true,
            };
            if !is_safe {
                return Ok(None);
            }
            match self.snapshot(tenant, *id)? {
                Some(record) => records.push(record),
                None => return Ok(None),
            }
        }
        Ok(Some(Held {
            guard: Guard::new(holding),
            snapshots: records,
        }))
    }

    fn is_needed(&self, tenant: TenantId, active: &Active, id: SnapshotId) -> StoreResult<bool> {
        let key = snapshot_key(id);
        let is_kept = active.kept.lock().keys.contains(&key);
        Ok(is_kept || self.mark_of(tenant, &key, active.number)?.is_some())
    }

    /// Holds snapshots; also returns the collection if it is already sweeping.
    fn hold_beside_collections(
        &self,
        tenant: TenantId,
        snapshots: &[SnapshotId],
    ) -> (Holding, Option<Arc<Active>>) {
        self.collections.calls.fetch_add(1, Ordering::Relaxed);
        // The lock is held until both the phase and the collection are known:
        // otherwise a collection could end in between, and its phase would be
        // taken for that of the next one.
        let by_tenant = self.collections.by_tenant.lock();
        let (holding, phase) = self.guards.hold(tenant, snapshots);
        let active = by_tenant.get(&tenant).cloned();
        (holding, active.filter(|_| phase == Phase::Sweeping))
    }

    /// Begins a collection. Fails if one is running.
    pub(crate) fn collect(
        &self,
        tenant: TenantId,
        scope: GcScope,
    ) -> StoreResult<LocalCollection<'_>> {
        let busy = || StoreError::Refused("a collection is already running".into());
        let mut by_tenant = self.collections.by_tenant.lock();
        if by_tenant.contains_key(&tenant) {
            return Err(busy());
        }
        let Numbers { mut number, whole } = self.numbers(tenant)?;
        let scope = if whole { scope } else { GcScope::Full };
        if scope == GcScope::Full {
            number = number.checked_add(1).ok_or_else(busy)?;
        }
        // Until this collection ends, its marks are incomplete: after a crash,
        // the next one must be a full one.
        let incomplete = Numbers {
            number,
            whole: false,
        };
        self.set_numbers(tenant, incomplete)?;
        let active = Arc::new(Active {
            number,
            kept: Mutex::default(),
        });
        // Register the collection before it begins: a writer that does not
        // count as older must find the collection, to protect its objects.
        by_tenant.insert(tenant, active.clone());
        self.collections.count.fetch_add(1, Ordering::Relaxed);
        let collecting = self.guards.begin(tenant);
        let collecting =
            collecting.unwrap_or_else(|| unreachable!("the previous collection has ended"));
        Ok(LocalCollection {
            store: self,
            tenant,
            scope,
            active,
            collecting,
            _entry: Entry {
                store: self,
                tenant,
            },
            pace: Pace::new(self.collections.calls.load(Ordering::Relaxed)),
            swept: Some(tenant.as_bytes().to_vec()),
            seen: Counts::default(),
            before: None,
            removed: 0,
        })
    }
}

/// A running collection.
pub(crate) struct LocalCollection<'a> {
    store: &'a LocalStore,
    tenant: TenantId,
    scope: GcScope,
    active: Arc<Active>,
    collecting: Collecting,
    /// Dropped after `collecting`, so that a call that sees the phase finds the
    /// entry.
    _entry: Entry<'a>,
    pace: Pace,
    /// Row at which the sweep continues; `None` at the end.
    swept: Option<Vec<u8>>,
    seen: Counts,
    /// Number of objects by the store's own count, before the sweep.
    before: Option<Counts>,
    removed: u64,
}

/// Registration of a running collection, until dropped.
struct Entry<'a> {
    store: &'a LocalStore,
    tenant: TenantId,
}

impl Drop for Entry<'_> {
    fn drop(&mut self) {
        let mut by_tenant = self.store.collections.by_tenant.lock();
        by_tenant.remove(&self.tenant);
        self.store.collections.count.fetch_sub(1, Ordering::Relaxed);
    }
}

impl LocalCollection<'_> {
    /// Rests if other calls arrived during the last step.
    fn give_way(&self) {
        let calls = self.store.collections.calls.load(Ordering::Relaxed);
        self.pace.rest(calls);
    }

    /// Deletes those of `candidates` that are not needed. The caller has found
    /// no marks of the candidates; `spilled` is the number of times that `kept`
    /// had been spilled before this lookup.
    fn remove_unkept(
        &self,
        candidates: &[(ObjectKey, ObjectRow)],
        spilled: u64,
    ) -> StoreResult<Vec<bool>> {
        let mut removed = Vec::with_capacity(candidates.len());
        for some in candidates.chunks(REMOVED) {
            // Locked until the batch is written, so that no writer protects an
            // object between the check and the deletion.
            let kept = self.active.kept.lock();
            let mut batch = WriteBatch::default();
            let mut gone = Counts::default();
            for (key, row) in some {
                // If `kept` was spilled after the candidates were looked up, its
                // keys have moved to the marks.
                let is_needed =
                    kept.keys.contains(key) || (kept.spilled != spilled && self.has_mark(key)?);
                removed.push(!is_needed);
                match key.kind {
                    _ if is_needed => {}
                    Kind::Snapshot => {
                        let row = keys::snapshot(self.tenant, SnapshotId(key.hash));
                        batch.delete_cf(self.store.family(rocks::SNAPSHOTS), row);
                    }
                    kind => {
                        batch.delete_cf(self.store.family_of(kind), row);
                        gone.add(kind);
                    }
                }
            }
            let mut options = WriteOptions::default();
            // The objects of a snapshot are deleted after the snapshot. A power
            // loss must not bring the snapshot back without its objects.
            options.set_sync(some.iter().any(|(key, _)| key.kind == Kind::Snapshot));
            self.store
                .db
                .write_opt(batch, &options)
                .map_err(write_failed)?;
            self.store.count_removed(self.tenant, gone)?;
        }
        Ok(removed)
    }

    fn is_needed(&self, id: &SnapshotId) -> StoreResult<bool> {
        self.store.is_needed(self.tenant, &self.active, *id)
    }

    fn has_mark(&self, key: &ObjectKey) -> StoreResult<bool> {
        let mark = self.store.mark_of(self.tenant, key, self.active.number)?;
        Ok(mark.is_some())
    }
}

#[async_trait]
impl Collection for LocalCollection<'_> {
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
        let marks = self.store.marks_of(self.tenant, keys, self.active.number)?;
        let is_walked = |mark| mark == Some(Mark::Walked);
        Ok(marks.into_iter().map(is_walked).collect())
    }

    async fn mark(&self, keys: &[ObjectKey]) -> StoreResult<Vec<bool>> {
        let answers = self.store.mark(self.tenant, keys, self.active.number)?;
        self.give_way();
        Ok(answers)
    }

    async fn close(&self) -> StoreResult<bool> {
        // A snapshot whose mark cannot be read counts as unknown, so that the
        // marking goes on and reports the error.
        let is_known = |id: &SnapshotId| self.is_needed(id).unwrap_or(false);
        Ok(self.collecting.close(is_known))
    }

    async fn unmarked_snapshots(
        &self,
        after: Option<SnapshotId>,
        limit: usize,
    ) -> StoreResult<Vec<SnapshotId>> {
        let mut found = Vec::new();
        let mut after = after;
        while found.len() < limit {
            let ids = self.store.scan_snapshots(self.tenant, after, limit)?;
            for id in &ids {
                if !self.is_needed(id)? {
                    found.push(*id);
                }
            }
            match ids.get(limit - 1) {
                Some(last) => after = Some(*last),
                None => break,
            }
        }
        found.truncate(limit);
        Ok(found)
    }

    async fn remove(&self, keys: &[ObjectKey]) -> StoreResult<Vec<bool>> {
        // Read this before the marks: if keys are spilled after this,
        // `remove_unkept` looks up the marks again.
        let spilled = self.active.kept.lock().spilled;
        let mut places = Vec::new();
        let mut candidates = Vec::new();
        let marks = self.store.marks_of(self.tenant, keys, self.active.number)?;
        for (place, (key, mark)) in keys.iter().zip(marks).enumerate() {
            if mark.is_none() {
                places.push(place);
                candidates.push((*key, keys::object(self.tenant, key)));
            }
        }
        let mut answers = vec![false; keys.len()];
        let removed = self.remove_unkept(&candidates, spilled)?;
        for (place, removed) in places.into_iter().zip(removed) {
            answers[place] = removed;
        }
        self.give_way();
        Ok(answers)
    }

    async fn sweep(&mut self, only_count: bool) -> StoreResult<Option<Swept>> {
        let swept = self.sweep_on(only_count)?;
        self.give_way();
        Ok(swept)
    }

    async fn finish(self: Box<Self>) -> StoreResult<()> {
        let store = self.store;
        store.spill(self.tenant, &self.active, &mut self.active.kept.lock())?;
        let marks = store.family(rocks::MARKS);
        // Marks are not logged, so they reach the disk before the row that
        // calls them complete.
        store.db.flush_cf(marks).map_err(write_failed)?;
        let numbers = Numbers {
            number: self.active.number,
            whole: true,
        };
        // No flush runs meanwhile, so that a backup has this row only together
        // with all marks.
        let unlogged = &store.unlogged;
        unlogged.without_flushes(|| store.set_numbers(self.tenant, numbers))?;
        // Number of objects that were counted but are not stored: they were
        // written twice, or put before a crash.
        let missing = match (&self.swept, self.before) {
            (None, Some(before)) => before.minus(self.seen),
            _ => Counts::default(),
        };
        store.count_removed(self.tenant, missing)?;
        store.write_usage(self.tenant)?;
        if reclaim::is_worth_it(self.seen.all(), self.removed) {
            store.reclaim(self.tenant)
        } else {
            Ok(())
        }
    }
}
