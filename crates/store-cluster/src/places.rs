//! The places of objects, as far as this process knows them, and packs of small
//! commits.
//!
//! A place never changes while its object is stored. A collection deletes objects
//! only after every process has answered to its closing; then this process
//! forgets the places of the tenant, and learns no new ones until the collection
//! has ended. So no place outlives its object.

use std::collections::HashMap;

use bytes::Bytes;
use elevo_objects::ObjectKey;
use parking_lot::Mutex;
use quick_cache::Weighter;
use quick_cache::sync::Cache;

use crate::blocks::StoredFile;
use crate::pack::Entry;

/// Maximum number of known places: some 50 MB.
const PLACES: usize = 400_000;
/// Maximum number of packs whose index is known.
const INDEXES: usize = 10_000;
/// Maximum size of all packs in memory.
const PACK_BYTES: u64 = 64 << 20;

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

impl Weighter<(i32, i64), Bytes> for BySize {
    fn weight(&self, _: &(i32, i64), pack: &Bytes) -> u64 {
        pack.len() as u64
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
}

impl Default for Places {
    fn default() -> Self {
        Self {
            epochs: Mutex::default(),
            places: Cache::new(PLACES),
            indexes: Cache::new(INDEXES),
            packs: Cache::with_weighter(INDEXES, PACK_BYTES, BySize),
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
}
