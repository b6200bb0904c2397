//! The places of objects, as far as this process knows them, packs of small
//! commits, and records of snapshots.
//!
//! A place never changes while its object is stored. A collection deletes objects
//! only after every process has answered to its closing; then this process
//! forgets the places of the tenant, and learns no new ones until the collection
//! has ended. So no place outlives its object.
//!
//! A record is kept if its snapshot was held when it was read, by an epoch that
//! was asked for after the hold. A closing ends the epoch before it looks at the
//! holds. So it vetoes the snapshot, or the record is not found again.

use std::collections::HashMap;

use bytes::Bytes;
use elevo_objects::{ObjectKey, SnapshotId};
use parking_lot::Mutex;
use quick_cache::Weighter;
use quick_cache::sync::Cache;

use crate::blocks::StoredFile;
use crate::pack::Entry;
use crate::read::Index;

/// Maximum number of known places: some 50 MB.
const PLACES: usize = 400_000;
/// Maximum number of packs whose index is known.
const INDEXES: usize = 10_000;
/// Maximum size of all packs in memory.
const PACK_BYTES: u64 = 64 << 20;
/// Maximum number of records, and maximum size of all.
const RECORDS: usize = 50_000;
const RECORD_BYTES: u64 = 16 << 20;

/// The place of an object.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) source: Source,
    /// First byte of the object in the file or pack.
    pub(crate) start: u64,
    pub(crate) size: u32,
}

/// The bytes that an object is a part of.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Source {
    File(StoredFile),
    /// A pack of a small commit, by its id.
    Pack(i64),
}

/// Names the time between two collections of a tenant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Epoch {
    tenant: i32,
    number: u64,
}

#[derive(Clone, Debug)]
struct BySize;

impl<K> Weighter<K, Bytes> for BySize {
    fn weight(&self, _: &K, bytes: &Bytes) -> u64 {
        bytes.len() as u64
    }
}

/// Places of the objects of all tenants.
#[derive(Debug)]
pub(crate) struct Places {
    /// Collections that have closed here.
    epochs: Mutex<HashMap<i32, u64>>,
    places: Cache<(Epoch, ObjectKey), Place>,
    /// Packs of which an object was asked for; true if all their places were
    /// added.
    indexes: Cache<(Epoch, i64), bool>,
    packs: Cache<(i32, i64), Bytes, BySize>,
    records: Cache<(Epoch, SnapshotId), Bytes, BySize>,
    /// Indexes to read with the root of a snapshot.
    with_roots: Cache<(Epoch, ObjectKey), Vec<Index>>,
}

impl Default for Places {
    fn default() -> Self {
        Self {
            epochs: Mutex::default(),
            places: Cache::new(PLACES),
            indexes: Cache::new(INDEXES),
            packs: Cache::with_weighter(INDEXES, PACK_BYTES, BySize),
            records: Cache::with_weighter(RECORDS, RECORD_BYTES, BySize),
            with_roots: Cache::new(INDEXES),
        }
    }
}

impl Places {
    /// The present epoch of a tenant, to be asked for before the database is.
    pub(crate) fn epoch(&self, tenant: i32) -> Epoch {
        let number = self.epochs.lock().get(&tenant).copied();
        Epoch {
            tenant,
            number: number.unwrap_or_default(),
        }
    }

    /// Forgets the places of a tenant.
    pub(crate) fn forget(&self, tenant: i32) {
        *self.epochs.lock().entry(tenant).or_default() += 1;
    }

    pub(crate) fn find(&self, epoch: Epoch, key: &ObjectKey) -> Option<Place> {
        self.places.get(&(epoch, *key))
    }

    pub(crate) fn add(&self, epoch: Epoch, key: ObjectKey, place: Place) {
        self.places.insert((epoch, key), place);
    }

    /// Adds all objects of a pack, which starts at `base` of its source.
    pub(crate) fn add_pack(
        &self,
        epoch: Epoch,
        id: i64,
        (source, base): (Source, u64),
        entries: &[Entry],
    ) {
        self.indexes.insert((epoch, id), true);
        for Entry { key, start, size } in entries {
            let place = Place {
                source,
                start: base + u64::from(*start),
                size: *size,
            };
            self.add(epoch, *key, place);
        }
    }

    /// Whether the index of a pack should be read, of which an object is asked
    /// for: at once for nodes, since the next call asks for others, and the
    /// second time for chunks.
    pub(crate) fn needs_index(&self, epoch: Epoch, id: i64, is_node: bool) -> bool {
        let is_known = self.indexes.get(&(epoch, id));
        if is_known.is_none() {
            self.indexes.insert((epoch, id), false);
        }
        is_known.map_or(is_node, |is_known| !is_known)
    }

    /// Forgets a place that was wrong.
    pub(crate) fn remove(&self, epoch: Epoch, key: &ObjectKey) {
        self.places.remove(&(epoch, *key));
    }

    pub(crate) fn pack(&self, tenant: i32, id: i64) -> Option<Bytes> {
        self.packs.get(&(tenant, id))
    }

    pub(crate) fn keep_pack(&self, tenant: i32, id: i64, bytes: Bytes) {
        self.packs.insert((tenant, id), bytes);
    }

    pub(crate) fn record(&self, epoch: Epoch, id: SnapshotId) -> Option<Bytes> {
        self.records.get(&(epoch, id))
    }

    pub(crate) fn keep_record(&self, epoch: Epoch, id: SnapshotId, record: Bytes) {
        self.records.insert((epoch, id), record);
    }

    /// Has indexes read when the root of a snapshot is.
    pub(crate) fn add_with_root(&self, epoch: Epoch, root: ObjectKey, indexes: Vec<Index>) {
        self.with_roots.insert((epoch, root), indexes);
    }

    pub(crate) fn take_with_root(&self, epoch: Epoch, root: &ObjectKey) -> Vec<Index> {
        let taken = self.with_roots.remove(&(epoch, *root));
        taken.map(|(_, indexes)| indexes).unwrap_or_default()
    }
}
