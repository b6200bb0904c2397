//! The store of a process of the cluster.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use elevo_core::TenantId;
use elevo_engine::{
    Collection, Commit, Committed, GcScope, Guard, Held, Object, Recent, Store, StoreError,
    StoreResult, Writer, WriterId,
};
use elevo_objects::{ObjectKey, Snapshot, SnapshotId};

use super::collecting::Collecting;
use super::node::{Ahead, Node};
use super::sessions::Joined;
use super::tables::Tables;
use crate::sim::TENANT;
use crate::sim::executor::timestamp;

/// Pause before a hold looks again at a snapshot that a collection is about to
/// decide on, in microseconds.
const UNDECIDED: u64 = 2000;

#[derive(Clone)]
pub struct ClusterStore {
    pub node: Arc<Node>,
    /// Whether commits are made like an import: missing objects are put first,
    /// then the rest is committed.
    pub puts_ahead: bool,
}

/// A registered writer, until dropped.
struct Registered(Arc<Node>, WriterId);

impl Drop for Registered {
    fn drop(&mut self) {
        let removed = self.0.state().writers.remove(&self.1);
        drop(removed);
    }
}

fn objects_of(all: BTreeMap<ObjectKey, Bytes>) -> Vec<Object> {
    let object = |(key, data)| Object { key, data };
    all.into_iter().map(object).collect()
}

impl ClusterStore {
    /// Runs a statement that changes nothing. A lost process gets no answer, as
    /// its holds protect nothing any more.
    async fn read<T>(
        &self,
        what: &str,
        count: usize,
        statement: impl FnOnce(&Tables) -> T,
    ) -> StoreResult<T> {
        let read = |tables: &mut Tables| {
            tables.check_live(self.node.id)?;
            Ok(statement(tables))
        };
        self.node.ask(what, count, read).await
    }

    async fn session(&self) -> StoreResult<Joined> {
        let node = &self.node;
        if let Some(joined) = node.sessions.join() {
            return Ok(joined);
        }
        let begun = node.change("begin session", (), |tables, entered| {
            let id = tables.begin_session(entered.seen, node.id);
            Ok((id, entered.seen.number))
        });
        let (id, number) = begun.await?;
        Ok(node.sessions.add(id, number))
    }

    async fn find(&self, keys: &[ObjectKey]) -> StoreResult<Vec<bool>> {
        let find = self.node.change("find", keys.len(), |tables, entered| {
            Ok(tables.find(entered.seen, keys))
        });
        find.await
    }

    /// Stores objects that are not stored yet, under a session.
    async fn upload(&self, objects: &[Object]) -> StoreResult<()> {
        let keys: Vec<_> = objects.iter().map(|object| object.key).collect();
        let present = self.find(&keys).await?;
        let new = objects.iter().zip(present).filter(|(_, found)| !found);
        let new: Vec<_> = new.map(|(object, _)| object.clone()).collect();
        if new.is_empty() {
            return Ok(());
        }
        let publish = self.node.change("publish", new.len(), |tables, entered| {
            tables.add_objects(entered.seen, &new);
            Ok(())
        });
        publish.await
    }

    async fn put_some(&self, writer: WriterId, objects: Vec<Object>) -> StoreResult<()> {
        let node = &self.node;
        node.check_not_lost()?;
        let waiting = {
            let mut state = node.state();
            let ended = || StoreError::Refused("the writer has ended".into());
            let ahead = state.writers.get_mut(&writer).ok_or_else(ended)?;
            let pending = objects.into_iter().map(|object| (object.key, object.data));
            ahead.pending.extend(pending);
            ahead.pending.clone()
        };
        // Objects gather until they fill a pack.
        if node.sim.chance(0.5) {
            let waiting = objects_of(waiting);
            self.upload(&waiting).await?;
            self.forget(&[writer], &waiting);
        }
        Ok(())
    }

    /// Forgets objects of writers that are in the tables now.
    fn forget(&self, writers: &[WriterId], objects: &[Object]) {
        let mut state = self.node.state();
        for writer in writers {
            if let Some(ahead) = state.writers.get_mut(writer) {
                for object in objects {
                    ahead.pending.remove(&object.key);
                }
            }
        }
    }

    /// Returns the waiting objects of the writers that a commit names, with
    /// those of the commit.
    fn gather(&self, commit: &Commit) -> StoreResult<Vec<Object>> {
        let state = self.node.state();
        let mut all = BTreeMap::new();
        for writer in &commit.after {
            let ended = || StoreError::Refused("a writer that the commit names has ended".into());
            let ahead = state.writers.get(writer).ok_or_else(ended)?;
            all.extend(ahead.pending.clone());
        }
        let given = commit.objects.iter();
        all.extend(given.map(|object| (object.key, object.data.clone())));
        Ok(objects_of(all))
    }

    async fn commit_all(&self, commit: Commit) -> StoreResult<Committed> {
        let node = &self.node;
        node.check_not_lost()?;
        let encode = |snapshot: &Snapshot| snapshot.encode().map(|(id, _)| id);
        let ids: Result<Vec<_>, _> = commit.snapshots.iter().map(encode).collect();
        let ids = ids.map_err(|error| StoreError::Refused(error.to_string()))?;
        let objects = self.gather(&commit)?;
        let _committing = node.guards.commit();
        let held = node.guards.hold_new(&ids);
        let epoch = node.epoch();
        let is_inline = node.sim.chance(0.7);
        let mut session = None;
        if !is_inline {
            session = Some(self.session().await?);
            self.upload(&objects).await?;
        }
        let brought = if is_inline { &objects[..] } else { &[] };
        let records = ids.iter().copied().zip(commit.snapshots);
        let records: Vec<_> = records.collect();
        let details = (brought.len(), ids.iter().map(|id| id.0).collect::<Vec<_>>());
        let change = node.change("commit", details, |tables, entered| {
            let moment = (entered.seen, node.sim.now());
            tables.commit(moment, brought, &records, commit.references)
        });
        change.await?;
        drop(session);
        self.forget(&commit.after, &objects);
        for (id, record) in records {
            node.keep_record(epoch, id, record);
        }
        let held = Guard::new(held);
        Ok(Committed { ids, held })
    }

    async fn commit_after_puts(&self, mut commit: Commit) -> StoreResult<Committed> {
        let writer = self.writing(TENANT).await?;
        commit.after.push(writer.id());
        let mut objects = std::mem::take(&mut commit.objects);
        objects.sort_unstable_by_key(|object| object.key);
        let size = 1 + self.node.sim.below(8);
        for some in objects.chunks(size) {
            let keys: Vec<_> = some.iter().map(|object| object.key).collect();
            let found = self.contains(TENANT, &keys).await?;
            let missing = some.iter().zip(found).filter(|(_, found)| !found);
            let missing: Vec<_> = missing.map(|(object, _)| object.clone()).collect();
            if !missing.is_empty() {
                self.put_some(writer.id(), missing).await?;
            }
        }
        self.commit_all(commit).await
    }

    /// Reads the records of snapshots that are held already.
    async fn open(&self, epoch: u64, ids: &[SnapshotId]) -> StoreResult<Option<Vec<Snapshot>>> {
        let node = &self.node;
        loop {
            let open = |tables: &mut Tables| tables.open(node.id, ids);
            let rows = node.ask("hold", ids.len(), open).await?;
            let found = || rows.iter().flatten();
            if found().any(|row| row.is_condemned && row.is_sweeping) {
                return Ok(None);
            }
            // Another process may veto.
            if !found().any(|row| row.is_condemned) {
                for (id, row) in ids.iter().zip(&rows) {
                    if let Some(row) = row {
                        node.keep_record(epoch, *id, row.record.clone());
                    }
                }
                return Ok(rows.into_iter().map(|row| Some(row?.record)).collect());
            }
            node.sim.delay(UNDECIDED).await;
        }
    }
}

#[async_trait]
impl Store for ClusterStore {
    async fn get(&self, _: TenantId, keys: &[ObjectKey]) -> StoreResult<Vec<Option<Bytes>>> {
        let pending: BTreeMap<_, _> = {
            let state = self.node.state();
            let of = |key: &ObjectKey| {
                let mut writers = state.writers.values();
                writers.find_map(|ahead| ahead.pending.get(key).cloned())
            };
            let found = keys.iter().filter_map(|key| Some((*key, of(key)?)));
            found.collect()
        };
        let read = self.read("get", keys.len(), |tables| {
            let of = |key| Some(tables.objects.get(key)?.data.clone());
            keys.iter().map(of).collect::<Vec<_>>()
        });
        let found = keys.iter().zip(read.await?);
        let found = found.map(|(key, found)| found.or_else(|| pending.get(key).cloned()));
        Ok(found.collect())
    }

    async fn contains(&self, _: TenantId, keys: &[ObjectKey]) -> StoreResult<Vec<bool>> {
        self.find(keys).await
    }

    async fn put(&self, _: TenantId, writer: &Writer, objects: Vec<Object>) -> StoreResult<()> {
        self.put_some(writer.id(), objects).await
    }

    async fn commit(&self, _: TenantId, commit: Commit) -> StoreResult<Committed> {
        match self.puts_ahead {
            true => self.commit_after_puts(commit).await,
            false => self.commit_all(commit).await,
        }
    }

    async fn snapshots(
        &self,
        _: TenantId,
        ids: &[SnapshotId],
    ) -> StoreResult<Vec<Option<Snapshot>>> {
        let read = self.read("snapshots", ids.len(), |tables| {
            let of = |id| Some(tables.snapshots.get(id)?.record.clone());
            ids.iter().map(of).collect()
        });
        read.await
    }

    async fn list_snapshots(
        &self,
        _: TenantId,
        after: Option<SnapshotId>,
        limit: usize,
    ) -> StoreResult<Vec<SnapshotId>> {
        let read = self.read("list snapshots", limit, |tables| {
            let all = tables.snapshots.keys().filter(|id| Some(**id) > after);
            all.take(limit).copied().collect()
        });
        read.await
    }

    async fn snapshots_since(
        &self,
        _: TenantId,
        recent: Recent,
        after: Option<SnapshotId>,
        limit: usize,
    ) -> StoreResult<Vec<SnapshotId>> {
        let read = self.read("snapshots since", limit, |tables| {
            let now = timestamp(self.node.sim.now());
            let since = Recent { now, ..recent }.since();
            let rows = tables.snapshots.iter();
            let rows = rows.filter(|(id, _)| Some(**id) > after);
            let young = rows.filter(|(_, row)| timestamp(row.made) >= since);
            young.take(limit).map(|(id, _)| *id).collect()
        });
        read.await
    }

    async fn reference(&self, _: TenantId, name: &str) -> StoreResult<Option<SnapshotId>> {
        let read = self.read("reference", name.len(), |tables| {
            tables.references.get(name).copied()
        });
        read.await
    }

    async fn list_references(
        &self,
        _: TenantId,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> StoreResult<Vec<(String, SnapshotId)>> {
        let read = self.read("list references", limit, |tables| {
            let all = tables.references.iter();
            let all = all.filter(|(name, _)| name.starts_with(prefix));
            let later = all.filter(|(name, _)| Some(name.as_str()) > after);
            let found = later.take(limit).map(|(name, id)| (name.clone(), *id));
            found.collect()
        });
        read.await
    }

    async fn stored_bytes(&self, _: TenantId) -> StoreResult<u64> {
        let read = self.read("stored bytes", 0, |tables| {
            let sizes = tables.objects.values().map(|row| row.data.len() as u64);
            sizes.sum()
        });
        read.await
    }

    async fn writing(&self, _: TenantId) -> StoreResult<Writer> {
        self.node.check_not_lost()?;
        let session = self.session().await?;
        let mut state = self.node.state();
        state.last_writer += 1;
        let id = WriterId(state.last_writer);
        let pending = BTreeMap::new();
        state.writers.insert(id, Ahead { pending, session });
        Ok(Writer::new(id, Registered(self.node.clone(), id)))
    }

    async fn hold(&self, _: TenantId, ids: &[SnapshotId]) -> StoreResult<Option<Held>> {
        let node = &self.node;
        node.check_not_lost()?;
        // Registered first: a collection that condemns one of them later asks
        // this process.
        let holding = node.guards.hold(ids);
        let epoch = node.epoch();
        let known = ids.iter().map(|id| node.record(epoch, *id));
        let known: Option<Vec<_>> = known.collect();
        let snapshots = match known.filter(|_| node.is_sure()) {
            Some(known) => Some(known),
            None => self.open(epoch, ids).await?,
        };
        Ok(snapshots.map(|snapshots| Held {
            guard: Guard::new(holding),
            snapshots,
        }))
    }

    async fn collection(
        &self,
        _: TenantId,
        scope: GcScope,
    ) -> StoreResult<Box<dyn Collection + '_>> {
        self.node.check_not_lost()?;
        let collecting = Collecting::begin(self.node.clone(), scope).await?;
        Ok(Box::new(collecting))
    }
}
