//! A store that records the calls to it.

use std::collections::HashSet;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use elevo_core::TenantId;
use elevo_engine::{Commit, Committed, Object, Store, StoreLayer, StoreResult, Writer};
use elevo_objects::{ObjectKey, Snapshot};
use parking_lot::Mutex;

/// Passes every call on to another store. Recording is cheap; the counting happens outside of the
/// measured time.
pub(super) struct Recorder {
    below: Arc<dyn Store>,
    log: Mutex<Log>,
}

/// The calls since the log was last taken.
#[derive(Debug, Default)]
pub(super) struct Log {
    pub(super) commits: Vec<Commit>,
    pub(super) put: Vec<Object>,
    pub(super) read_bytes: u64,
}

impl Log {
    /// Bytes of snapshots, and of objects that are not in `known`. Adds them to `known`.
    pub(super) fn new_bytes(&self, known: &mut HashSet<ObjectKey>) -> u64 {
        let committed = self.commits.iter().flat_map(|commit| &commit.objects);
        let new = self
            .put
            .iter()
            .chain(committed)
            .filter(|object| known.insert(object.key));
        let objects: usize = new.map(|object| object.data.len()).sum();
        let snapshots = self.commits.iter().flat_map(|commit| &commit.snapshots);
        let encoded = snapshots.flat_map(Snapshot::encode);
        let snapshots: usize = encoded.map(|(_, data)| data.len()).sum();
        (objects + snapshots) as u64
    }
}

impl Recorder {
    pub(super) fn new(below: Arc<dyn Store>) -> Arc<Self> {
        Arc::new(Self {
            below,
            log: Mutex::default(),
        })
    }

    pub(super) fn take(&self) -> Log {
        std::mem::take(&mut *self.log.lock())
    }
}

#[async_trait]
impl StoreLayer for Recorder {
    fn below(&self) -> &dyn Store {
        &*self.below
    }

    async fn get(&self, tenant: TenantId, keys: &[ObjectKey]) -> StoreResult<Vec<Option<Bytes>>> {
        let found = self.below.get(tenant, keys).await?;
        let bytes = found.iter().flatten().map(|data| data.len() as u64);
        self.log.lock().read_bytes += bytes.sum::<u64>();
        Ok(found)
    }

    async fn put(
        &self,
        tenant: TenantId,
        writer: &Writer,
        objects: Vec<Object>,
    ) -> StoreResult<()> {
        self.log.lock().put.extend(objects.iter().cloned());
        self.below.put(tenant, writer, objects).await
    }

    async fn commit(&self, tenant: TenantId, commit: Commit) -> StoreResult<Committed> {
        self.log.lock().commits.push(commit.clone());
        self.below.commit(tenant, commit).await
    }
}
