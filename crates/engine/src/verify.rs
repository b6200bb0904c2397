//! Verifies everything a store holds for a tenant: whether objects are intact,
//! and whether every object that a snapshot needs is stored.
//!
//! First all objects are read and hashed, in the order of the store, needed or
//! not. Then all snapshots are walked to find missing objects, and the paths
//! that need damaged ones. A subtree that was found intact is not walked again.
//! Memory is bounded: if it does not suffice to remember intact objects, they
//! are read more than once.

mod edges;
pub(crate) mod pages;
mod report;
pub(crate) mod seen;
mod walk;

use std::collections::{BTreeMap, HashSet};

use bytes::Bytes;
use elevo_core::{Retry, TenantId};
use elevo_objects::{Hash, Kind, ObjectKey, Snapshot, SnapshotId};

use crate::error;
use crate::inspect::Inspect;
use crate::progress::Progress;
use crate::store::StoreError;
use pages::Pages;
use seen::{DamageCounts, Seen};

pub use report::{Damage, DamageKind, DamagedPath, Verified};

/// Objects read at a time.
const BATCH: usize = 64;

/// Options of a verification.
#[derive(Clone, Copy, Debug)]
pub struct VerifyOptions {
    /// Bytes of memory for remembering intact objects.
    pub memory: usize,
    /// Maximum number of damaged objects, paths and refs listed, each. Further
    /// ones are only counted.
    pub listed: usize,
}

impl Default for VerifyOptions {
    fn default() -> Self {
        Self {
            memory: 256 << 20,
            listed: 10_000,
        }
    }
}

/// Reads and hashes everything that `store` holds for `tenant`, and checks that
/// everything its snapshots need is stored. Damage is part of the result, not
/// an error; a store that is away is an error. Commits may go on during this; the objects they add may or may not
/// be examined.
///
/// Counts objects and bytes in `progress`, which can also cancel this.
pub async fn verify(
    store: &dyn Inspect,
    tenant: TenantId,
    options: &VerifyOptions,
    progress: &Progress,
) -> error::Result<Verified> {
    let mut verifier = Verifier::new(store, tenant, options, progress);
    verifier.read_all().await?;
    verifier.walk_all().await?;
    Ok(verifier.report())
}

pub(crate) struct Verifier<'a> {
    store: &'a dyn Inspect,
    tenant: TenantId,
    progress: &'a Progress,
    listed: usize,
    /// Intact chunks.
    whole: Seen,
    /// Intact nodes with everything below them intact.
    clean: Seen,
    touched: DamageCounts,
    damage: BTreeMap<ObjectKey, Damage>,
    listed_paths: usize,
    /// Gaps in the lists of objects.
    gaps: u64,
    report: Verified,
}

impl<'a> Verifier<'a> {
    pub(crate) fn new(
        store: &'a dyn Inspect,
        tenant: TenantId,
        options: &VerifyOptions,
        progress: &'a Progress,
    ) -> Self {
        let quarter = options.memory / 4;
        Self {
            store,
            tenant,
            progress,
            listed: options.listed,
            whole: Seen::within(quarter * 2),
            clean: Seen::within(quarter),
            touched: DamageCounts::within(quarter),
            damage: BTreeMap::new(),
            listed_paths: 0,
            gaps: 0,
            report: Verified::default(),
        }
    }

    pub(crate) fn report(&self) -> Verified {
        Verified {
            damage: self.damage.values().cloned().collect(),
            ..self.report.clone()
        }
    }

    /// Removes repaired objects from the damage.
    pub(crate) fn forget(&mut self, mended: &HashSet<ObjectKey>) {
        for key in mended {
            self.damage.remove(key);
        }
    }

    /// Reads and hashes every stored object.
    pub(crate) async fn read_all(&mut self) -> error::Result<()> {
        for kind in [Kind::Directory, Kind::Times, Kind::ChunkList, Kind::Chunk] {
            let (store, tenant) = (self.store, self.tenant);
            let list = async |after, limit| store.list_objects(tenant, kind, after, limit).await;
            let mut pages = Pages::new();
            while let Some(page) = pages.next(list).await? {
                for batch in page.chunks(BATCH) {
                    self.progress.check()?;
                    self.read_batch(kind, batch).await?;
                }
            }
            self.gaps += pages.gaps;
        }
        Ok(())
    }

    async fn read_batch(&mut self, kind: Kind, hashes: &[Hash]) -> error::Result<()> {
        let keys: Vec<_> = hashes
            .iter()
            .map(|hash| ObjectKey { kind, hash: *hash })
            .collect();
        match self.store.get(self.tenant, &keys).await {
            Ok(found) => {
                for (key, data) in keys.into_iter().zip(found) {
                    self.note(key, data.map(Ok));
                }
            }
            // One of the objects is damaged; read them one by one.
            Err(_) => {
                for key in keys {
                    let read = self.read(key).await?;
                    self.note(key, read);
                }
            }
        }
        Ok(())
    }

    /// Records the result of reading a listed object. Ignores an object that
    /// was deleted since the listing: if a snapshot needs it, the walk finds
    /// that it is missing.
    fn note(&mut self, key: ObjectKey, read: Option<Result<Bytes, DamageKind>>) {
        let Some(read) = read else { return };
        self.report.objects += 1;
        let read = read.and_then(|data| {
            self.report.bytes += data.len() as u64;
            self.progress.add(1, data.len() as u64);
            judge(key, &data)
        });
        match read {
            Ok(()) if key.kind == Kind::Chunk => self.whole.add(key),
            Ok(()) => {}
            Err(kind) => self.damaged(key, kind),
        }
    }

    /// Returns the bytes of one object; `None` if it is not stored.
    async fn read(&self, key: ObjectKey) -> error::Result<Option<Result<Bytes, DamageKind>>> {
        match self.store.get(self.tenant, &[key]).await {
            Ok(found) => Ok(found.into_iter().next().flatten().map(Ok)),
            Err(error) => Ok(Some(Err(unreadable(error)?))),
        }
    }

    fn damaged(&mut self, key: ObjectKey, kind: DamageKind) {
        if self.damage.len() >= self.listed && !self.damage.contains_key(&key) {
            self.report.more_damage += 1;
            return;
        }
        self.damage.entry(key).or_insert(Damage {
            key,
            kind,
            needed: false,
            paths: Vec::new(),
        });
    }

    /// Returns a snapshot; `None` if it is not stored.
    async fn snapshot(
        &self,
        id: SnapshotId,
    ) -> error::Result<Option<Result<Snapshot, DamageKind>>> {
        let found = match self.store.snapshots(self.tenant, &[id]).await {
            Ok(found) => found.into_iter().next().flatten(),
            Err(error) => return Ok(Some(Err(unreadable(error)?))),
        };
        Ok(found.map(|found| {
            let is_it = found.encode().is_ok_and(|(its, _)| its == id);
            is_it.then_some(found).ok_or(DamageKind::HashMismatch)
        }))
    }
}

/// Checks that `data` is the object.
fn judge(key: ObjectKey, data: &Bytes) -> Result<(), DamageKind> {
    if key.kind.hash(data) != key.hash {
        return Err(DamageKind::HashMismatch);
    }
    edges::of_object(key.kind, data).map_err(|_| DamageKind::Undecodable)?;
    Ok(())
}

/// Returns the damage that an error of a read is a sign of. Fails with the error if
/// it is about the whole store: what cannot be read while a store is away is not
/// damaged.
pub(crate) fn unreadable(error: StoreError) -> error::Result<DamageKind> {
    if matches!(error.retry(), Retry::Later | Retry::AfterChange) {
        return Err(error.into());
    }
    let source = std::error::Error::source(&error);
    let cause = source.map_or_else(|| error.to_string(), ToString::to_string);
    Ok(DamageKind::Unreadable(cause))
}

const fn snapshot_key(id: SnapshotId) -> ObjectKey {
    ObjectKey {
        kind: Kind::Snapshot,
        hash: id.0,
    }
}
