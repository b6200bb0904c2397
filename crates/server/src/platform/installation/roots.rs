//! Checks that a store has the snapshots that a catalog refers to.

use std::fmt;

use anyhow::Context;
use elevo_catalog::{Catalog, SqliteCatalog, SqliteOptions};
use elevo_core::TenantId;
use elevo_engine::Store;
use elevo_objects::SnapshotId;

use crate::platform::catalog_place::{CatalogPlace, FILE};
use crate::platform::store_place::StorePlace;

/// Maximum roots read at a time.
const PAGE: u32 = 1000;

/// Snapshots that a catalog refers to, but that a store does not have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    /// The number of missing snapshots. A snapshot with two references counts
    /// twice.
    pub count: u64,
    /// The first missing snapshot.
    pub first: SnapshotId,
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.count {
            1 => write!(f, "the snapshot {}", self.first),
            count => write!(f, "{count} snapshots ({} is the first)", self.first),
        }
    }
}

/// Returns the roots of a catalog that a store lacks, if any.
pub(crate) async fn missing(
    catalog: &dyn Catalog,
    store: &dyn Store,
) -> anyhow::Result<Option<Missing>> {
    let mut missing = None;
    for tenant in catalog.tenants().await? {
        // An erasure deletes rows and snapshots one after the other, so
        // snapshots may already be missing.
        if tenant.erasing.is_some() {
            continue;
        }
        let mut after = None;
        loop {
            let page = catalog.roots(tenant.id, after.as_ref(), PAGE).await?;
            note_absent(&mut missing, store, tenant.id, &page.snapshots).await?;
            match page.next {
                Some(next) => after = Some(next),
                None => break,
            }
        }
    }
    Ok(missing)
}

async fn note_absent(
    missing: &mut Option<Missing>,
    store: &dyn Store,
    tenant: TenantId,
    ids: &[SnapshotId],
) -> anyhow::Result<()> {
    let found = store.snapshots(tenant, ids).await?;
    let absent = ids.iter().zip(found).filter(|(_, found)| found.is_none());
    for (id, _) in absent {
        let missing = missing.get_or_insert(Missing {
            count: 0,
            first: *id,
        });
        missing.count += 1;
    }
    Ok(())
}

/// Returns the missing roots of an installation without changing its files: the
/// check opens a copy of a catalog in a file, which is migrated to the current
/// format. A catalog in a database is migrated in place.
pub(crate) async fn missing_at(
    place: &CatalogPlace,
    store: &StorePlace,
) -> anyhow::Result<Option<Missing>> {
    match place {
        CatalogPlace::Database(_) => missing_beside(&*place.open().await?, store).await,
        CatalogPlace::File(file) => {
            let directory = file
                .parent()
                .context("the path of the catalog names no directory")?;
            let scratch = tempfile::TempDir::with_prefix_in(".catalog-", directory);
            let scratch = scratch.context("cannot copy the catalog")?;
            let copy = scratch.path().join(FILE);
            SqliteCatalog::copy_file(file, &copy).await?;
            let catalog = SqliteCatalog::open(&copy, &SqliteOptions::default()).await?;
            missing_beside(&*catalog, store).await
        }
    }
}

/// Returns the missing roots of a catalog that nothing else uses, and closes it.
async fn missing_beside(
    catalog: &dyn Catalog,
    store: &StorePlace,
) -> anyhow::Result<Option<Missing>> {
    let store = store.open_to_compare().await?;
    let missing = missing(catalog, &*store.store()).await;
    if let Some(store) = store.cluster() {
        store.close().await?;
    }
    catalog.close().await;
    missing
}
