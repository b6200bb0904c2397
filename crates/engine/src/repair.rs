//! Repairs a store: fetches damaged or missing objects from other sources, and
//! deletes damaged objects that nothing needs.

mod filtering_store;

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;

use elevo_core::TenantId;
use elevo_objects::{Kind, ObjectKey, SnapshotId};

use crate::blocking::Workers;
use crate::error::{Result, at_root};
use crate::import::ImportOptions;
use crate::inspect::{Inspect, RowRepair};
use crate::progress::Progress;
use crate::store::{Object, Store};
use crate::verify::pages::readable;
use crate::verify::{DamageKind, Verified, Verifier, VerifyOptions, verify};
use filtering_store::FilteringStore;

/// Objects requested at a time.
const BATCH: usize = 64;
/// Snapshots and refs listed at a time.
const PAGE: usize = 256;

/// A source of damaged or missing objects.
#[derive(Clone, Copy)]
pub enum RepairSource<'a> {
    /// Another store: a backup, or a copy of this one.
    Store(&'a dyn Store),
    /// A directory with some of the files. They are chunked and hashed as in an
    /// import, so their chunks are equal to the lost ones. Nodes of unchanged
    /// directories are found as well.
    Directory(&'a Path, &'a ImportOptions),
}

/// Result of a repair.
#[derive(Clone, Debug, Default)]
pub struct Repaired {
    /// Findings before the repair.
    pub before: Verified,
    /// Objects and snapshots that were written again.
    pub mended: u64,
    /// Refs that could not be read and were set to their values in the other
    /// store.
    pub references: Vec<String>,
    /// Deleted objects that were damaged and that nothing needed.
    pub removed: u64,
    /// Findings after the repair.
    pub after: Verified,
}

/// Verifies a store, fetches damaged or missing objects from `sources`, and
/// verifies the store again. Blocks, like an import.
pub fn repair(
    store: &Arc<dyn Inspect>,
    tenant: TenantId,
    sources: &[RepairSource<'_>],
    options: &VerifyOptions,
    progress: &Progress,
) -> Result<Repaired> {
    let workers = Workers::start(1).map_err(at_root("start threads for"))?;
    let mut verifier = Verifier::new(store.as_ref(), tenant, options, progress);
    workers.wait(verifier.read_all())?;
    workers.wait(verifier.walk_all())?;
    let mut repaired = Repaired {
        before: verifier.report(),
        ..Repaired::default()
    };
    if repaired.before.is_whole() {
        repaired.after = repaired.before.clone();
        return Ok(repaired);
    }
    let job = Job {
        store,
        tenant,
        progress,
        workers: &workers,
    };
    for source in sources {
        if let RepairSource::Store(other) = source {
            workers.wait(job.records(*other, &mut repaired))?;
        }
    }
    // Repeated, since a repaired node may refer to more missing objects.
    let mut done = HashSet::new();
    loop {
        workers.wait(verifier.walk_all())?;
        let damage = verifier.report().damage.into_iter();
        let mut wanted: HashSet<_> = damage.map(|damage| damage.key).collect();
        wanted.retain(|key| !done.contains(key));
        let mut mended = HashSet::new();
        for source in sources {
            mended.extend(job.fetch(*source, &wanted)?);
            wanted.retain(|key| !mended.contains(key));
        }
        if mended.is_empty() {
            // Delete only now, when no source has the objects that are still
            // damaged.
            repaired.removed = workers.wait(job.remove(&verifier.report()))?;
            break;
        }
        repaired.mended += mended.len() as u64;
        verifier.forget(&mended);
        done.extend(mended);
    }
    let again = verify(store.as_ref(), tenant, options, progress);
    repaired.after = workers.wait(again)?;
    Ok(repaired)
}

/// A repair of one tenant's objects.
struct Job<'a> {
    store: &'a Arc<dyn Inspect>,
    tenant: TenantId,
    progress: &'a Progress,
    workers: &'a Workers,
}

impl Job<'_> {
    /// Fetches the `wanted` objects from a source, and returns those it had.
    fn fetch(
        &self,
        source: RepairSource<'_>,
        wanted: &HashSet<ObjectKey>,
    ) -> Result<HashSet<ObjectKey>> {
        match source {
            RepairSource::Store(other) => self.workers.wait(self.take_from(other, wanted)),
            RepairSource::Directory(path, options) => {
                let filtering_store = FilteringStore::new(self.store.clone(), wanted.clone());
                filtering_store.read(self.tenant, path, options, self.progress, self.workers)
            }
        }
    }

    async fn take_from(
        &self,
        other: &dyn Store,
        wanted: &HashSet<ObjectKey>,
    ) -> Result<HashSet<ObjectKey>> {
        let objects = wanted.iter().filter(|key| key.kind != Kind::Snapshot);
        let objects: Vec<_> = objects.copied().collect();
        let mut mended = HashSet::new();
        for keys in objects.chunks(BATCH) {
            self.progress.check()?;
            let mut repair = RowRepair::default();
            for key in keys {
                // Objects are read one at a time and checked, since the other
                // store may be damaged as well.
                let found = readable(other.get(self.tenant, &[*key]).await)?;
                let data = found.and_then(|mut found| found.pop().flatten());
                let data = data.filter(|data| key.kind.hash(data) == key.hash);
                let object = data.map(|data| Object { key: *key, data });
                repair.objects.extend(object);
            }
            mended.extend(repair.objects.iter().map(|object| object.key));
            self.store.repair_rows(self.tenant, repair).await?;
        }
        let snapshots = wanted.iter().filter(|key| key.kind == Kind::Snapshot);
        for key in snapshots {
            mended.extend(self.snapshot(other, SnapshotId(key.hash)).await?);
        }
        Ok(mended)
    }

    /// Copies a snapshot from another store, if it is intact there.
    async fn snapshot(&self, other: &dyn Store, id: SnapshotId) -> Result<Option<ObjectKey>> {
        let found = readable(other.snapshots(self.tenant, &[id]).await)?;
        let found = found.and_then(|mut found| found.pop().flatten());
        let is_it =
            |found: &elevo_objects::Snapshot| found.encode().is_ok_and(|(its, _)| its == id);
        let Some(snapshot) = found.filter(is_it) else {
            return Ok(None);
        };
        let repair = RowRepair {
            snapshots: vec![snapshot],
            ..RowRepair::default()
        };
        self.store.repair_rows(self.tenant, repair).await?;
        let (kind, hash) = (Kind::Snapshot, id.0);
        Ok(Some(ObjectKey { kind, hash }))
    }

    /// Restores from another store the snapshots and refs that cannot be read
    /// here. A snapshot or ref that does not exist here is not restored: it may
    /// have been deleted on purpose.
    async fn records(&self, other: &dyn Store, repaired: &mut Repaired) -> Result<()> {
        let mut after = None;
        while let Some(ids) = readable(other.list_snapshots(self.tenant, after, PAGE).await)? {
            let Some(last) = ids.last() else { break };
            after = Some(*last);
            for id in ids {
                self.progress.check()?;
                let found = self.store.snapshots(self.tenant, &[id]).await;
                if readable(found)?.is_none() {
                    let mended = self.snapshot(other, id).await?;
                    repaired.mended += u64::from(mended.is_some());
                }
            }
        }
        let mut after: Option<String> = None;
        loop {
            let page = other.list_references(self.tenant, "", after.as_deref(), PAGE);
            let Some(page) = readable(page.await)? else {
                break;
            };
            let Some((last, _)) = page.last() else { break };
            after = Some(last.clone());
            for (name, id) in page {
                let found = self.store.reference(self.tenant, &name).await;
                if readable(found)?.is_none() {
                    self.reference(other, &name, id).await?;
                    repaired.references.push(name);
                }
            }
        }
        Ok(())
    }

    /// Sets a ref that cannot be read to its value in another store.
    async fn reference(&self, other: &dyn Store, name: &str, id: SnapshotId) -> Result<()> {
        self.snapshot(other, id).await?;
        let repair = RowRepair {
            references: vec![(name.into(), id)],
            ..RowRepair::default()
        };
        Ok(self.store.repair_rows(self.tenant, repair).await?)
    }

    /// Deletes damaged objects that no snapshot needs. Otherwise a writer of
    /// the same object would find it present and not store it.
    async fn remove(&self, left: &Verified) -> Result<u64> {
        let removable = left.damage.iter().filter(|damage| {
            !damage.needed
                && damage.kind != DamageKind::Missing
                && damage.key.kind != Kind::Snapshot
        });
        let remove: Vec<_> = removable.map(|damage| damage.key).collect();
        let removed = remove.len() as u64;
        let repair = RowRepair {
            remove,
            ..RowRepair::default()
        };
        self.store.repair_rows(self.tenant, repair).await?;
        Ok(removed)
    }
}
