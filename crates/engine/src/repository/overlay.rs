//! A store in which some objects are visible before they are stored.

use std::collections::HashMap;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use elevo_core::TenantId;
use elevo_objects::ObjectKey;

use crate::guards::Guard;
use crate::store::{Commit, Committed, Store, StoreError, StoreResult};
use crate::store_layer::StoreLayer;

/// Objects that are not stored yet, on top of a store.
pub(super) struct Overlay {
    pub(super) objects: Arc<HashMap<ObjectKey, Bytes>>,
    pub(super) below: Arc<dyn Store>,
    /// Released when the overlay is dropped.
    pub(super) _held: Guard,
}

#[async_trait]
impl StoreLayer for Overlay {
    fn below(&self) -> &dyn Store {
        &*self.below
    }

    async fn get(&self, tenant: TenantId, keys: &[ObjectKey]) -> StoreResult<Vec<Option<Bytes>>> {
        let mut found: Vec<_> = keys
            .iter()
            .map(|key| self.objects.get(key).cloned())
            .collect();
        let is_missing = |(_, data): &(&ObjectKey, &mut Option<Bytes>)| data.is_none();
        let (missing, gaps): (Vec<_>, Vec<_>) = keys
            .iter()
            .zip(&mut found)
            .filter(is_missing)
            .map(|(key, gap)| (*key, gap))
            .unzip();
        if !missing.is_empty() {
            let below = self.below.get(tenant, &missing).await?;
            gaps.into_iter()
                .zip(below)
                .for_each(|(gap, data)| *gap = data);
        }
        Ok(found)
    }

    async fn contains(&self, tenant: TenantId, keys: &[ObjectKey]) -> StoreResult<Vec<bool>> {
        let below = self.below.contains(tenant, keys).await?;
        let here = keys.iter().map(|key| self.objects.contains_key(key));
        Ok(here.zip(below).map(|(here, below)| here || below).collect())
    }

    async fn commit(&self, _: TenantId, _: Commit) -> StoreResult<Committed> {
        Err(StoreError::ReadOnly)
    }
}
