//! Writing. A commit is one batch in RocksDB's log, synced; objects put ahead
//! of it are logged without a sync or, if there are many, not logged at all
//! (see [`unlogged`](crate::unlogged)).

use std::collections::HashSet;

use elevo_core::TenantId;
use elevo_engine::store::check_reference_name;
use elevo_engine::{Commit, Committed, Guard, Object, ReferenceUpdate, StoreError, StoreResult};
use elevo_objects::{Kind, ObjectKey, Snapshot, SnapshotId, StoredEncoder};
use rocksdb::{FlushOptions, WriteBatch, WriteOptions};

use crate::collect::snapshot_key;
use crate::keys;
use crate::read::Presence;
use crate::rocks;
use crate::store::{LocalStore, write_failed};
use crate::usage::Amounts;

/// From this size on, a commit is worth [`Effort::Full`]. Below it, that would
/// take a good part of the commit's time.
const SMALL_COMMIT_BYTES: usize = 64 << 10;

/// Effort to save space.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Effort {
    /// Chunks are compressed, and existing objects are not written again.
    Full,
    /// Chunks are plain, and existing objects are written again, which changes
    /// nothing: the copies disappear with the next compaction.
    Little,
}

impl LocalStore {
    pub(crate) fn put_now(&self, tenant: TenantId, objects: &[Object]) -> StoreResult<()> {
        // Protected before the lookup: an existing object is not written again,
        // and a sweep could delete it in between.
        self.keep(tenant, objects.iter().map(|object| object.key))?;
        let mut batch = WriteBatch::default();
        let added = self.add_objects(&mut batch, tenant, objects, Effort::Full)?;
        let written = if self.unlogged.is_worth_it(batch.size_in_bytes()) {
            self.unlogged.write(|| self.db.write_without_wal(batch))
        } else {
            self.db.write(batch)
        };
        written.map_err(write_failed)?;
        self.count_written(tenant, added)
    }

    pub(crate) fn commit_now(&self, tenant: TenantId, commit: &Commit) -> StoreResult<Committed> {
        commit
            .references
            .iter()
            .try_for_each(|update| check_reference_name(&update.name))?;
        let ended = || StoreError::Refused("a writer that the commit names has ended".into());
        let writing = self.guards.committing(tenant, &commit.after);
        let _writing = writing.ok_or_else(ended)?;
        // Protected before the lookups below, as in `put_now`.
        self.keep(tenant, needed(commit))?;
        self.check_roots(tenant, commit)?;
        let bytes: usize = commit.objects.iter().map(|object| object.data.len()).sum();
        let effort = if bytes >= SMALL_COMMIT_BYTES {
            Effort::Full
        } else {
            Effort::Little
        };
        let mut batch = WriteBatch::default();
        let added = self.add_objects(&mut batch, tenant, &commit.objects, effort)?;
        let ids = self.add_snapshots(&mut batch, tenant, &commit.snapshots)?;
        self.keep(tenant, ids.iter().map(|id| snapshot_key(*id)))?;
        // Before the batch: a commit on disk must not refer to objects that are
        // only in memory.
        self.unlogged.make_durable(|| self.flush_objects())?;
        // Locked from the comparison to the write, but not during the flush,
        // which is slow.
        let _moving = self.references.lock(tenant, &commit.references);
        self.add_references(&mut batch, tenant, &commit.references)?;
        self.add_usage(&mut batch, tenant, added)?;
        let mut options = WriteOptions::default();
        options.set_sync(true);
        self.db.write_opt(batch, &options).map_err(write_failed)?;
        self.unlogged.start_again();
        // Hold the snapshots while `_writing` is still registered: otherwise a
        // collection could begin and miss them.
        let held = Guard::new(self.guards.committed(tenant, &ids));
        Ok(Committed { ids, held })
    }

    /// Adds objects to a batch, and returns their amounts.
    fn add_objects(
        &self,
        batch: &mut WriteBatch,
        tenant: TenantId,
        objects: &[Object],
        effort: Effort,
    ) -> StoreResult<Amounts> {
        let mut added = Amounts::default();
        let mut encoder = StoredEncoder::default();
        let mut presence = Presence::of(self, tenant);
        for Object { key, data } in objects {
            if key.kind == Kind::Snapshot {
                return Err(StoreError::Refused(
                    "a snapshot cannot be written as an object".into(),
                ));
            }
            if effort == Effort::Full && presence.has(key)? {
                continue;
            }
            let value = match key.kind {
                Kind::Chunk if effort == Effort::Full => encoder.compressed(data),
                Kind::Chunk => encoder.plain(data),
                _ => data,
            };
            added.count(key.kind, value.len());
            batch.put_cf(self.family_of(key.kind), keys::object(tenant, key), value);
        }
        Ok(added)
    }

    pub(crate) fn add_snapshots(
        &self,
        batch: &mut WriteBatch,
        tenant: TenantId,
        snapshots: &[Snapshot],
    ) -> StoreResult<Vec<SnapshotId>> {
        let add = |snapshot: &Snapshot| {
            let encoded = snapshot.encode();
            let (id, data) = encoded.map_err(|error| StoreError::Refused(error.to_string()))?;
            batch.put_cf(
                self.family(rocks::SNAPSHOTS),
                keys::snapshot(tenant, id),
                data,
            );
            Ok(id)
        };
        snapshots.iter().map(add).collect()
    }

    fn check_roots(&self, tenant: TenantId, commit: &Commit) -> StoreResult<()> {
        let given: HashSet<_> = commit.objects.iter().map(|object| object.key).collect();
        let mut presence = Presence::of(self, tenant);
        for snapshot in &commit.snapshots {
            for root in roots(snapshot) {
                if !given.contains(&root) && !presence.has(&root)? {
                    return Err(StoreError::Refused(format!("root {root:?} is not stored")));
                }
            }
        }
        Ok(())
    }

    /// The refs must be locked.
    fn add_references(
        &self,
        batch: &mut WriteBatch,
        tenant: TenantId,
        updates: &[ReferenceUpdate],
    ) -> StoreResult<()> {
        let family = self.family(rocks::METADATA);
        for ReferenceUpdate {
            name,
            expected,
            target,
        } in updates
        {
            let current = self.reference_now(tenant, name)?;
            if !expected.holds(current) {
                return Err(StoreError::ReferenceMoved {
                    name: name.clone(),
                    current,
                });
            }
            let row = keys::reference(tenant, name);
            match target {
                Some(id) => batch.put_cf(family, row, id.0.as_bytes()),
                None => batch.delete_cf(family, row),
            }
        }
        Ok(())
    }

    /// Flushes objects from memory to table files, synced.
    fn flush_objects(&self) -> StoreResult<()> {
        let (chunks, nodes) = (self.family(rocks::CHUNKS), self.family(rocks::NODES));
        // Flush both families at once: the first call only starts a flush.
        let mut start = FlushOptions::default();
        start.set_wait(false);
        self.db.flush_cf_opt(nodes, &start).map_err(write_failed)?;
        self.db.flush_cf(chunks).map_err(write_failed)?;
        self.db.flush_cf(nodes).map_err(write_failed)
    }
}

/// The roots of a snapshot's trees.
fn roots(snapshot: &Snapshot) -> impl Iterator<Item = ObjectKey> {
    let tree = snapshot.tree.root.map(|hash| ObjectKey {
        kind: Kind::Directory,
        hash,
    });
    let times = snapshot.times.map(|hash| ObjectKey {
        kind: Kind::Times,
        hash,
    });
    tree.into_iter().chain(times)
}

/// Returns the keys of objects that a commit brings or relies on.
fn needed(commit: &Commit) -> impl Iterator<Item = ObjectKey> {
    let objects = commit.objects.iter().map(|object| object.key);
    objects.chain(commit.snapshots.iter().flat_map(roots))
}
