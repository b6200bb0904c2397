//! Putting a store right: what is damaged or missing is taken from where it
//! still is, and what is damaged and needed by nobody is removed.

mod sieve;

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;

use elevo_core::TenantId;
use elevo_objects::{Kind, ObjectKey, SnapshotId};

use crate::blocking::Workers;
use crate::error::{Result, at_root};
use crate::import::ImportOptions;
use crate::inspect::{Inspect, Mend};
use crate::progress::Progress;
use crate::store::{Object, Store};
use crate::verify::{Problem, Verified, Verifier, VerifyOptions, verify};
use sieve::Sieve;

/// Objects that are asked for at once.
const BATCH: usize = 64;
/// Snapshots and references that are listed at once.
const PAGE: usize = 256;

/// Where what is missing may still be.
#[derive(Clone, Copy)]
pub enum Source<'a> {
    /// Another store: a backup, or a copy of this one.
    Store(&'a dyn Store),
    /// A directory that has some of the files. They are cut and hashed as by
    /// an import, so that what is found is what was lost. Nodes of directories
    /// that are just as they were are found as well.
    Directory(&'a Path, &'a ImportOptions),
}

/// What was put right.
#[derive(Clone, Debug, Default)]
pub struct Repaired {
    /// What was found before.
    pub before: Verified,
    /// Objects and snapshots that were written anew.
    pub mended: u64,
    /// References that could not be read and were set to where they point to
    /// in the other store.
    pub references: Vec<String>,
    /// Damaged objects that nobody needs, removed.
    pub removed: u64,
    /// What is still to be found.
    pub after: Verified,
}

/// Goes through a store, takes what is damaged or missing from `sources`, and
/// goes through it again. Blocks, as an import does.
pub fn repair(
    store: &Arc<dyn Inspect>,
    tenant: TenantId,
    sources: &[Source<'_>],
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
        if let Source::Store(other) = source {
            workers.wait(job.records(*other, &mut repaired))?;
        }
    }
    // A node that was put right may refer to more that is missing.
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

struct Job<'a> {
    store: &'a Arc<dyn Inspect>,
    tenant: TenantId,
    progress: &'a Progress,
    workers: &'a Workers,
}

impl Job<'_> {
    /// Takes what is `wanted` from a source; says what was there.
    fn fetch(&self, source: Source<'_>, wanted: &HashSet<ObjectKey>) -> Result<HashSet<ObjectKey>> {
        match source {
            Source::Store(other) => self.workers.wait(self.take_from(other, wanted)),
            Source::Directory(path, options) => {
                let sieve = Sieve::new(self.store.clone(), wanted.clone());
                sieve.read(self.tenant, path, options, self.progress, self.workers)
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
            let mut mend = Mend::default();
            for key in keys {
                let found = other.get(self.tenant, &[*key]).await;
                let data = found.ok().and_then(|mut found| found.pop().flatten());
                let data = data.filter(|data| key.kind.hash(data) == key.hash);
                let object = data.map(|data| Object { key: *key, data });
                mend.objects.extend(object);
            }
            mended.extend(mend.objects.iter().map(|object| object.key));
            self.store.mend(self.tenant, mend).await?;
        }
        let snapshots = wanted.iter().filter(|key| key.kind == Kind::Snapshot);
        for key in snapshots {
            mended.extend(self.snapshot(other, SnapshotId(key.hash)).await?);
        }
        Ok(mended)
    }

    /// Takes a snapshot from another store, if it is whole there.
    async fn snapshot(&self, other: &dyn Store, id: SnapshotId) -> Result<Option<ObjectKey>> {
        let found = other.snapshots(self.tenant, &[id]).await;
        let found = found.ok().and_then(|mut found| found.pop().flatten());
        let is_it =
            |found: &elevo_objects::Snapshot| found.encode().is_ok_and(|(its, _)| its == id);
        let Some(snapshot) = found.filter(is_it) else {
            return Ok(None);
        };
        let mend = Mend {
            snapshots: vec![snapshot],
            ..Mend::default()
        };
        self.store.mend(self.tenant, mend).await?;
        let (kind, hash) = (Kind::Snapshot, id.0);
        Ok(Some(ObjectKey { kind, hash }))
    }

    /// Snapshots and references of another store that cannot be read here.
    /// Those that are merely not here may have been removed on purpose.
    async fn records(&self, other: &dyn Store, repaired: &mut Repaired) -> Result<()> {
        let mut after = None;
        while let Ok(ids) = other.list_snapshots(self.tenant, after, PAGE).await {
            let Some(last) = ids.last() else { break };
            after = Some(*last);
            for id in ids {
                self.progress.check()?;
                if self.store.snapshots(self.tenant, &[id]).await.is_err() {
                    let mended = self.snapshot(other, id).await?;
                    repaired.mended += u64::from(mended.is_some());
                }
            }
        }
        let mut after: Option<String> = None;
        while let Ok(page) = other
            .list_references(self.tenant, "", after.as_deref(), PAGE)
            .await
        {
            let Some((last, _)) = page.last() else { break };
            after = Some(last.clone());
            for (name, id) in page {
                if self.store.reference(self.tenant, &name).await.is_err() {
                    self.reference(other, &name, id).await?;
                    repaired.references.push(name);
                }
            }
        }
        Ok(())
    }

    async fn reference(&self, other: &dyn Store, name: &str, id: SnapshotId) -> Result<()> {
        self.snapshot(other, id).await?;
        let mend = Mend {
            references: vec![(name.into(), id)],
            ..Mend::default()
        };
        Ok(self.store.mend(self.tenant, mend).await?)
    }

    /// Removes damaged objects that no snapshot needs. Whoever stores the same
    /// again would otherwise find it there.
    async fn remove(&self, left: &Verified) -> Result<u64> {
        let removable = left.damage.iter().filter(|damage| {
            !damage.needed
                && damage.problem != Problem::Missing
                && damage.key.kind != Kind::Snapshot
        });
        let remove: Vec<_> = removable.map(|damage| damage.key).collect();
        let removed = remove.len() as u64;
        let mend = Mend {
            remove,
            ..Mend::default()
        };
        self.store.mend(self.tenant, mend).await?;
        Ok(removed)
    }
}
