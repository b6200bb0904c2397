//! Writers, and the objects that they have put and that are not stored yet.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use bytes::Bytes;
use elevo_engine::{Object, WriterId};
use elevo_objects::{Kind, ObjectKey};
use parking_lot::Mutex;
use tokio::sync::Semaphore;

use crate::pack::{MAX_PACK_BYTES, MAX_PACK_OBJECTS, Room};
use crate::session::Joined;
use crate::upload::AT_ONCE;

/// The registered writers of this process.
#[derive(Clone, Debug, Default)]
pub(crate) struct Writers(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    last: AtomicU64,
    tenants: Mutex<HashMap<i32, HashMap<WriterId, Arc<Ahead>>>>,
}

/// The state of a writer.
#[derive(Debug)]
pub(crate) struct Ahead {
    objects: Mutex<Objects>,
    /// A permit for each upload that may run at once. A commit takes all.
    pub(crate) uploads: Arc<Semaphore>,
    has_failed: AtomicBool,
    _session: Joined,
}

#[derive(Debug, Default)]
struct Objects {
    pending: HashMap<ObjectKey, Pending>,
    /// Objects put so far.
    count: u64,
    /// Nodes, and chunks, that wait for an upload.
    waiting: [Waiting; 2],
}

/// An object that is not stored yet.
#[derive(Debug)]
struct Pending {
    number: u64,
    data: Bytes,
    is_uploading: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct Waiting {
    bytes: usize,
    objects: usize,
}

impl Waiting {
    const fn is_full(self) -> bool {
        self.bytes > MAX_PACK_BYTES || self.objects > MAX_PACK_OBJECTS
    }

    const fn add(&mut self, object: &Object) {
        self.bytes += Room::taken_by(object);
        self.objects += 1;
    }

    const fn take(&mut self, object: &Object) {
        self.bytes -= Room::taken_by(object);
        self.objects -= 1;
    }
}

fn is_chunk(key: &ObjectKey) -> usize {
    usize::from(key.kind == Kind::Chunk)
}

impl Writers {
    /// Registers a writer.
    pub(crate) fn add(&self, tenant: i32, session: Joined) -> (WriterId, Registered) {
        let id = WriterId(self.0.last.fetch_add(1, Ordering::Relaxed) + 1);
        let ahead = Arc::new(Ahead {
            objects: Mutex::default(),
            uploads: Arc::new(Semaphore::new(AT_ONCE)),
            has_failed: AtomicBool::new(false),
            _session: session,
        });
        let mut tenants = self.0.tenants.lock();
        tenants.entry(tenant).or_default().insert(id, ahead);
        let registered = Registered {
            writers: self.clone(),
            tenant,
            id,
        };
        (id, registered)
    }

    /// Returns a registered writer.
    pub(crate) fn find(&self, tenant: i32, id: WriterId) -> Option<Arc<Ahead>> {
        self.0.tenants.lock().get(&tenant)?.get(&id).cloned()
    }

    /// Returns objects that a writer of the tenant has put.
    pub(crate) fn pending(&self, tenant: i32, keys: &[ObjectKey]) -> HashMap<ObjectKey, Bytes> {
        let writers: Vec<_> = match self.0.tenants.lock().get(&tenant) {
            Some(writers) => writers.values().cloned().collect(),
            None => return HashMap::new(),
        };
        let mut found = HashMap::new();
        for writer in writers {
            let objects = writer.objects.lock();
            if objects.pending.is_empty() {
                continue;
            }
            let pending = keys.iter().filter_map(|key| {
                let pending = objects.pending.get(key)?;
                Some((*key, pending.data.clone()))
            });
            found.extend(pending);
        }
        found
    }
}

impl Ahead {
    /// Adds objects.
    pub(crate) fn put(&self, objects: Vec<Object>) {
        let mut all = self.objects.lock();
        for object in objects {
            if all.pending.contains_key(&object.key) {
                continue;
            }
            all.waiting[is_chunk(&object.key)].add(&object);
            all.count += 1;
            let pending = Pending {
                number: all.count,
                data: object.data,
                is_uploading: false,
            };
            all.pending.insert(object.key, pending);
        }
    }

    pub(crate) fn has_full_pack(&self) -> bool {
        self.objects
            .lock()
            .waiting
            .into_iter()
            .any(Waiting::is_full)
    }

    /// Takes objects for an upload, if they fill a pack. [`note`](Self::note)
    /// must follow.
    pub(crate) fn take_full_pack(&self) -> Option<Vec<Object>> {
        let mut all = self.objects.lock();
        let full = all.waiting.iter().position(|waiting| waiting.is_full())?;
        let mut room = Room::default();
        let mut taken = all.in_order();
        taken.retain(|object| is_chunk(&object.key) == full);
        let fits = taken.iter().take_while(|object| room.take(object)).count();
        taken.truncate(fits);
        for object in &taken {
            all.waiting[full].take(object);
            if let Some(pending) = all.pending.get_mut(&object.key) {
                pending.is_uploading = true;
            }
        }
        Some(taken)
    }

    /// Whether the last upload failed.
    pub(crate) fn has_failed(&self) -> bool {
        self.has_failed.load(Ordering::Relaxed)
    }

    /// Notes the end of an upload.
    pub(crate) fn note(&self, objects: &[Object], is_stored: bool) {
        self.has_failed.store(!is_stored, Ordering::Relaxed);
        let mut all = self.objects.lock();
        for object in objects {
            if is_stored {
                all.pending.remove(&object.key);
            } else if let Some(pending) = all.pending.get_mut(&object.key) {
                pending.is_uploading = false;
                all.waiting[is_chunk(&object.key)].add(object);
            }
        }
    }

    /// The objects that wait for an upload, in the order in which they were put.
    pub(crate) fn waiting(&self) -> Vec<Object> {
        self.objects.lock().in_order()
    }

    /// Forgets waiting objects that are stored now.
    pub(crate) fn forget(&self, stored: &[Object]) {
        let mut all = self.objects.lock();
        for object in stored {
            if all.pending.remove(&object.key).is_some() {
                all.waiting[is_chunk(&object.key)].take(object);
            }
        }
    }
}

impl Objects {
    fn in_order(&self) -> Vec<Object> {
        let waiting = self.pending.iter().filter(|(_, one)| !one.is_uploading);
        let mut waiting: Vec<_> = waiting.collect();
        waiting.sort_unstable_by_key(|(_, pending)| pending.number);
        let object = |(key, pending): (&ObjectKey, &Pending)| Object {
            key: *key,
            data: pending.data.clone(),
        };
        waiting.into_iter().map(object).collect()
    }
}

/// A registered writer, until dropped.
#[derive(Debug)]
pub(crate) struct Registered {
    writers: Writers,
    tenant: i32,
    id: WriterId,
}

impl Drop for Registered {
    fn drop(&mut self) {
        let mut tenants = self.writers.0.tenants.lock();
        if let Some(writers) = tenants.get_mut(&self.tenant) {
            writers.remove(&self.id);
            if writers.is_empty() {
                tenants.remove(&self.tenant);
            }
        }
    }
}
