//! An import that stores only wanted objects.

use std::collections::{BTreeMap, HashSet};
use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use elevo_core::{TenantId, Timestamp};
use elevo_objects::ObjectKey;
use parking_lot::Mutex;

use crate::blocking::Workers;
use crate::error::Result;
use crate::guards::{Guard, Writer};
use crate::import::{ImportOptions, import};
use crate::inspect::{Inspect, RowRepair};
use crate::progress::Progress;
use crate::repository::Repository;
use crate::state::CommitInfo;
use crate::store::{
    Collection, Commit, Committed, GcScope, Object, Store, StoreError, StoreResult,
};
use crate::store_layer::StoreLayer;

/// Small, since an import creates nodes and never reads any.
const CACHE_BYTES: u64 = 1 << 20;

/// Passes wanted objects on to a store and ignores the others.
pub(super) struct FilteringStore {
    below: Arc<dyn Inspect>,
    wanted: HashSet<ObjectKey>,
    found: Mutex<HashSet<ObjectKey>>,
}

impl FilteringStore {
    pub(super) fn new(below: Arc<dyn Inspect>, wanted: HashSet<ObjectKey>) -> Arc<Self> {
        Arc::new(Self {
            below,
            wanted,
            found: Mutex::default(),
        })
    }

    /// Imports a directory, and returns the keys that were passed on.
    pub(super) fn read(
        self: Arc<Self>,
        tenant: TenantId,
        directory: &Path,
        options: &ImportOptions,
        progress: &Progress,
        workers: &Workers,
    ) -> Result<HashSet<ObjectKey>> {
        let repository = Repository::new(self.clone(), tenant, CACHE_BYTES);
        let imported = import(&repository, directory, options, progress)?;
        workers.wait(imported.commit(&repository, unstored()))?;
        Ok(std::mem::take(&mut *self.found.lock()))
    }
}

/// Metadata for a snapshot that is never stored.
fn unstored() -> CommitInfo {
    CommitInfo {
        parents: Vec::new(),
        author: String::new(),
        message: String::new(),
        created: Timestamp::EPOCH,
        labels: BTreeMap::new(),
        reference: None,
    }
}

#[async_trait]
impl StoreLayer for FilteringStore {
    fn below(&self) -> &dyn Store {
        &*self.below
    }

    async fn put(&self, tenant: TenantId, _: &Writer, objects: Vec<Object>) -> StoreResult<()> {
        let is_wanted = |object: &Object| self.wanted.contains(&object.key);
        let objects: Vec<_> = objects.into_iter().filter(is_wanted).collect();
        if objects.is_empty() {
            return Ok(());
        }
        let keys: Vec<_> = objects.iter().map(|object| object.key).collect();
        let repair = RowRepair {
            objects,
            ..RowRepair::default()
        };
        self.below.repair_rows(tenant, repair).await?;
        self.found.lock().extend(keys);
        Ok(())
    }

    async fn commit(&self, tenant: TenantId, commit: Commit) -> StoreResult<Committed> {
        let writer = self.below.writing(tenant).await?;
        StoreLayer::put(self, tenant, &writer, commit.objects).await?;
        let ids = Vec::new();
        let held = Guard::new(writer);
        Ok(Committed { ids, held })
    }

    async fn collection(&self, _: TenantId, _: GcScope) -> StoreResult<Box<dyn Collection + '_>> {
        Err(StoreError::ReadOnly)
    }
}
