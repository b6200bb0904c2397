//! The destination of imported objects: the store, or memory.

use std::collections::{HashMap, HashSet};

use bytes::Bytes;
use elevo_objects::{Item, Kind, NewNode, ObjectKey};
use parking_lot::Mutex;

use crate::blocking::Workers;
use crate::error::Result;
use crate::guards::Writer;
use crate::repository::Repository;
use crate::store::Object;

/// Directory nodes by key.
pub(crate) type Nodes = HashMap<ObjectKey, Bytes>;

/// Destination of the objects of an import.
pub(super) struct Sink<'a> {
    target: Option<Target<'a>>,
    batch: Mutex<Batch>,
}

/// Where batches are put.
struct Target<'a> {
    repository: &'a Repository,
    workers: &'a Workers,
    writer: &'a Writer,
}

#[derive(Default)]
struct Batch {
    objects: Vec<Object>,
    keys: HashSet<ObjectKey>,
    bytes: usize,
}

/// Bytes put into the store at once.
const BATCH_BYTES: usize = 4 * 1024 * 1024;

impl<'a> Sink<'a> {
    /// Puts objects into the store, a batch at a time, on the thread that fills
    /// the batch: while the store is busy, the readers wait.
    pub(super) fn store(
        repository: &'a Repository,
        workers: &'a Workers,
        writer: &'a Writer,
    ) -> Self {
        Self {
            target: Some(Target {
                repository,
                workers,
                writer,
            }),
            batch: Mutex::default(),
        }
    }

    /// Keeps directory nodes in memory and discards all other objects.
    pub(super) fn memory() -> Self {
        Self {
            target: None,
            batch: Mutex::default(),
        }
    }

    pub(super) fn add_nodes<I: Item>(&self, nodes: Vec<NewNode<I>>) -> Result<()> {
        if nodes.is_empty() {
            return Ok(());
        }
        let key = |hash| ObjectKey {
            kind: I::KIND,
            hash,
        };
        let objects = nodes.into_iter().map(|new| Object {
            key: key(new.hash),
            data: new.data,
        });
        self.add(objects.collect())
    }

    pub(super) fn add(&self, objects: Vec<Object>) -> Result<()> {
        let mut batch = self.batch.lock();
        let Some(target) = &self.target else {
            batch.objects.extend(
                objects
                    .into_iter()
                    .filter(|o| o.key.kind == Kind::Directory),
            );
            return Ok(());
        };
        for object in objects {
            if batch.keys.insert(object.key) {
                batch.bytes += object.data.len();
                batch.objects.push(object);
            }
        }
        if batch.bytes < BATCH_BYTES {
            return Ok(());
        }
        let full = std::mem::take(&mut *batch);
        drop(batch);
        let (store, tenant) = (target.repository.store(), target.repository.tenant());
        let put = store.put(tenant, target.writer, full.objects);
        target.workers.wait(put)?;
        Ok(())
    }

    /// Returns the objects that were not put into the store yet.
    pub(super) fn into_rest(self) -> Vec<Object> {
        self.batch.into_inner().objects
    }

    /// Returns the nodes that were kept in memory.
    pub(super) fn into_nodes(self) -> Nodes {
        self.into_rest()
            .into_iter()
            .map(|object| (object.key, object.data))
            .collect()
    }
}
