//! Going through everything a store holds for a tenant: is it what was put,
//! and is everything there that a snapshot needs?
//!
//! First all objects are read and hashed, in the order of the store, needed or
//! not. Then all snapshots are walked, to find what is missing, and which paths
//! need what is damaged. A subtree that was found whole is not walked again.
//! Memory is bounded: if it does not suffice to remember what is whole, objects
//! are read more than once.

mod edges;
mod pages;
mod report;
mod seen;
mod walk;

use std::collections::{BTreeMap, HashSet};

use bytes::Bytes;
use elevo_core::TenantId;
use elevo_objects::{Hash, Kind, ObjectKey, Snapshot, SnapshotId};

use crate::error;
use crate::inspect::Inspect;
use crate::progress::Progress;
use crate::store::StoreError;
use pages::Pages;
use seen::{Seen, Touched};

pub use report::{Damage, Place, Problem, Verified};

/// Objects that are read at once.
const BATCH: usize = 64;

/// How a store is gone through.
#[derive(Clone, Copy, Debug)]
pub struct VerifyOptions {
    /// Bytes of memory to remember what is whole in.
    pub memory: usize,
    /// How many damaged objects, places and references are listed, each. More
    /// are counted.
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

/// Reads and hashes all that `store` holds for `tenant`, and looks whether all
/// is there that its snapshots need. Damage is no error, but in the answer.
/// Commits may go on meanwhile; what they add is looked at or not.
///
/// Counts objects and bytes in `progress`, and can be cancelled by it.
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
    /// Chunks that are as they were put.
    whole: Seen,
    /// Nodes that are, with all that is below them.
    clean: Seen,
    touched: Touched,
    damage: BTreeMap<ObjectKey, Damage>,
    places: usize,
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
            touched: Touched::within(quarter),
            damage: BTreeMap::new(),
            places: 0,
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

    /// Takes objects for whole that were put right.
    pub(crate) fn forget(&mut self, mended: &HashSet<ObjectKey>) {
        for key in mended {
            self.damage.remove(key);
        }
    }

    /// Reads and hashes every object there is.
    pub(crate) async fn read_all(&mut self) -> error::Result<()> {
        for kind in [Kind::Directory, Kind::Times, Kind::ChunkList, Kind::Chunk] {
            let (store, tenant) = (self.store, self.tenant);
            let list = async |after, limit| store.list_objects(tenant, kind, after, limit).await;
            let mut pages = Pages::new();
            while let Some(page) = pages.next(list).await {
                for batch in page.chunks(BATCH) {
                    self.progress.check()?;
                    self.read_batch(kind, batch).await;
                }
            }
            self.gaps += pages.gaps;
        }
        Ok(())
    }

    async fn read_batch(&mut self, kind: Kind, hashes: &[Hash]) {
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
            // One of them is damaged.
            Err(_) => {
                for key in keys {
                    let read = self.read(key).await;
                    self.note(key, read);
                }
            }
        }
    }

    /// What became of an object that was listed. If it has gone meanwhile,
    /// nobody needed it, or a walk will find that somebody does.
    fn note(&mut self, key: ObjectKey, read: Option<Result<Bytes, Problem>>) {
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
            Err(problem) => self.damaged(key, problem),
        }
    }

    /// The bytes of one object; `None` if it is not there.
    async fn read(&self, key: ObjectKey) -> Option<Result<Bytes, Problem>> {
        match self.store.get(self.tenant, &[key]).await {
            Ok(found) => found.into_iter().next().flatten().map(Ok),
            Err(error) => Some(Err(unreadable(&error))),
        }
    }

    fn damaged(&mut self, key: ObjectKey, problem: Problem) {
        if self.damage.len() >= self.listed && !self.damage.contains_key(&key) {
            self.report.more_damage += 1;
            return;
        }
        self.damage.entry(key).or_insert(Damage {
            key,
            problem,
            needed: false,
            places: Vec::new(),
        });
    }

    /// A snapshot; `None` if it is not there.
    async fn snapshot(&self, id: SnapshotId) -> Option<Result<Snapshot, Problem>> {
        let found = match self.store.snapshots(self.tenant, &[id]).await {
            Ok(found) => found.into_iter().next().flatten()?,
            Err(error) => return Some(Err(unreadable(&error))),
        };
        let is_it = found.encode().is_ok_and(|(its, _)| its == id);
        Some(is_it.then_some(found).ok_or(Problem::OtherBytes))
    }
}

/// Whether `data` is the object.
fn judge(key: ObjectKey, data: &Bytes) -> Result<(), Problem> {
    if key.kind.hash(data) != key.hash {
        return Err(Problem::OtherBytes);
    }
    edges::of_object(key.kind, data).map_err(|_| Problem::Meaningless)?;
    Ok(())
}

fn unreadable(error: &StoreError) -> Problem {
    let source = std::error::Error::source(error);
    Problem::Unreadable(source.map_or_else(|| error.to_string(), ToString::to_string))
}

const fn snapshot_key(id: SnapshotId) -> ObjectKey {
    ObjectKey {
        kind: Kind::Snapshot,
        hash: id.0,
    }
}
