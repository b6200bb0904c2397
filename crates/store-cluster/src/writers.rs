//! Writers, and the objects that they have put and that are not stored yet.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use elevo_engine::{Object, WriterId};
use elevo_objects::ObjectKey;
use parking_lot::Mutex;

use crate::session::Joined;

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
    /// Locked while objects are stored.
    pub(crate) storing: tokio::sync::Mutex<()>,
    _session: Joined,
}

#[derive(Debug, Default)]
struct Objects {
    pending: HashMap<ObjectKey, Bytes>,
    bytes: usize,
}

impl Writers {
    /// Registers a writer.
    pub(crate) fn add(&self, tenant: i32, session: Joined) -> (WriterId, Registered) {
        let id = WriterId(self.0.last.fetch_add(1, Ordering::Relaxed) + 1);
        let ahead = Arc::new(Ahead {
            objects: Mutex::default(),
            storing: tokio::sync::Mutex::default(),
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
                let data = objects.pending.get(key)?;
                Some((*key, data.clone()))
            });
            found.extend(pending);
        }
        found
    }
}

impl Ahead {
    /// Adds objects; returns the bytes that wait to be stored.
    pub(crate) fn put(&self, objects: Vec<Object>) -> usize {
        let mut waiting = self.objects.lock();
        for Object { key, data } in objects {
            let size = data.len();
            if waiting.pending.insert(key, data).is_none() {
                waiting.bytes += size;
            }
        }
        waiting.bytes
    }

    /// The objects that wait to be stored.
    pub(crate) fn waiting(&self) -> Vec<Object> {
        let objects = self.objects.lock();
        let of = |(key, data): (&ObjectKey, &Bytes)| Object {
            key: *key,
            data: data.clone(),
        };
        objects.pending.iter().map(of).collect()
    }

    /// Forgets objects that are stored now.
    pub(crate) fn forget(&self, stored: &[Object]) {
        let mut objects = self.objects.lock();
        for object in stored {
            if let Some(data) = objects.pending.remove(&object.key) {
                objects.bytes -= data.len();
            }
        }
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
