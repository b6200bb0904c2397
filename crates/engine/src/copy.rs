//! Copies everything that a store holds for a tenant into another store:
//! snapshots with all objects they need, and refs. [`check_copy`] then reads it
//! back.
//!
//! ```text
//! for each snapshot that the target does not have, parents before children:
//!     walk its trees in the source, not into subtrees that this run has copied
//!     put the objects that the target does not have
//!     commit the snapshot once everything below it was put
//! then set the refs whose snapshots the target has
//! ```
//!
//! An interrupted copy is repeated from the start, and sends nothing twice. The
//! record of its progress is the target itself: a stored snapshot is whole,
//! since it was committed after everything it needs. A stored *object* is no
//! such record, because stores promise nothing about the objects below it: an
//! interrupted copy or collection may have left it alone. So only this run's
//! own memory ([`CopyOptions::memory`]) makes the walk skip a subtree. A writer
//! that is registered in the target for the whole run keeps collections from
//! making that memory wrong.
//!
//! The age of a snapshot in [`Store::snapshots_since`] may begin with the copy: a
//! store that measures it by its own clock knows only when the snapshot was
//! stored in it. Everything else is equal, including the ids.

mod references;
mod report;
mod walk;

use std::collections::BTreeMap;

use elevo_core::TenantId;
use elevo_objects::{ObjectKey, Snapshot, SnapshotId};

use crate::error::Result;
use crate::gc::needs::snapshot_key;
use crate::guards::Writer;
use crate::progress::Progress;
use crate::store::{Commit, Store, StoreError, StoreResult};
use crate::verify::pages::Pages;
use crate::verify::seen::Seen;
use crate::verify::{DamageKind, unreadable};

pub use report::Copied;

/// Maximum number of snapshots in a commit, and of those looked up at a time.
const SNAPSHOTS: usize = 256;
/// Maximum number of ancestors that are copied before a snapshot. Beyond it,
/// the oldest one is walked in full.
const LINEAGE: usize = 4096;

/// Options of a copy.
#[derive(Clone, Copy, Debug)]
pub struct CopyOptions {
    /// Bytes of memory for remembering what the target has. At least 1 MiB is
    /// used.
    pub memory: usize,
    /// Bytes that are put ahead of a commit, which makes them durable. An
    /// interruption loses at most these.
    pub commit_bytes: usize,
    /// Maximum number of damaged objects, snapshots and refs listed, each.
    /// Further ones are only counted.
    pub listed: usize,
}

impl Default for CopyOptions {
    fn default() -> Self {
        Self {
            memory: 256 << 20,
            commit_bytes: 64 << 20,
            listed: 10_000,
        }
    }
}

/// Copies all snapshots of `tenant` from `source` into `target`, with all
/// objects they need, then all refs. Snapshots that `target` has are not read
/// again, so a repeated call continues an interrupted one. Nothing is written
/// to `source`.
///
/// Every object is hashed when it is read. A snapshot that needs a damaged or
/// missing object is not copied, and neither are refs to it; the others are.
/// Damage is part of the result. Only a store that cannot be reached or written
/// to ends the copy with an error.
///
/// Refs of `target` get the values of `source`. Those that only `target` has
/// are listed in the result and stay.
///
/// The caller guarantees that
///
/// - no other process writes to `source` or collects its garbage: stop the
///   server, and keep writers out of a local store. Collections in this process
///   do no harm. A snapshot that is added during the copy may be missing from
///   the target, and a ref may have an old value; run it again.
/// - nothing else moves the refs of the tenant in `target`. Its collections
///   wait until the copy ends.
///
/// Counts objects and bytes in `progress`, which can also cancel this.
pub async fn copy_tenant(
    source: &dyn Store,
    target: &dyn Store,
    tenant: TenantId,
    options: &CopyOptions,
    progress: &Progress,
) -> Result<Copied> {
    // Before the first look at the target, so that nothing found there is
    // collected before it is needed.
    let writer = target.writing(tenant).await?;
    let to = Target {
        store: target,
        writer,
    };
    let mut copy = Copy::new(source, Some(to), tenant, options, progress);
    copy.all_snapshots(source).await?;
    copy.settle().await?;
    copy.set_references(source, target).await?;
    copy.find_extra_references(source, target).await?;
    Ok(copy.report())
}

/// Checks that `target` has every snapshot and ref of `source`: reads all objects
/// that the snapshots need from `target`, and hashes them. Writes nothing. Damage
/// in `target` is part of the result, in the same fields as that of a copy.
///
/// Unlike [`verify`](crate::verify()), this ignores objects that no snapshot
/// needs, and reads in the order of the trees, in which a store in the network
/// has them together.
pub async fn check_copy(
    source: &dyn Store,
    target: &dyn Store,
    tenant: TenantId,
    options: &CopyOptions,
    progress: &Progress,
) -> Result<Copied> {
    let mut copy = Copy::new(target, None, tenant, options, progress);
    copy.all_snapshots(source).await?;
    copy.compare_references(source, target).await?;
    copy.find_extra_references(source, target).await?;
    Ok(copy.report())
}

/// The store that a copy writes to.
struct Target<'a> {
    store: &'a dyn Store,
    writer: Writer,
}

/// A copy. Without a target, it is a check.
struct Copy<'a> {
    /// The store whose objects are read.
    from: &'a dyn Store,
    to: Option<Target<'a>>,
    tenant: TenantId,
    progress: &'a Progress,
    commit_bytes: usize,
    listed: usize,
    /// Nodes that the target has with everything below them.
    nodes: Seen,
    /// Chunks that the target has.
    chunks: Seen,
    /// Snapshots that were copied, or could not be.
    tried: Seen,
    damage: BTreeMap<ObjectKey, DamageKind>,
    /// Snapshots to commit, everything below which was put.
    pending: Vec<(SnapshotId, Snapshot)>,
    /// Bytes put since the last commit.
    unsettled: usize,
    report: Copied,
}

impl<'a> Copy<'a> {
    fn new(
        from: &'a dyn Store,
        to: Option<Target<'a>>,
        tenant: TenantId,
        options: &CopyOptions,
        progress: &'a Progress,
    ) -> Self {
        let eighth = options.memory.max(1 << 20) / 8;
        Self {
            from,
            to,
            tenant,
            progress,
            commit_bytes: options.commit_bytes,
            listed: options.listed,
            nodes: Seen::within(eighth * 5),
            chunks: Seen::within(eighth * 2),
            tried: Seen::within(eighth),
            damage: BTreeMap::new(),
            pending: Vec::new(),
            unsettled: 0,
            report: Copied::default(),
        }
    }

    /// Copies or checks all snapshots that `source` lists.
    async fn all_snapshots(&mut self, source: &dyn Store) -> Result<()> {
        let tenant = self.tenant;
        let list = async |after: Option<_>, limit| {
            let ids = source.list_snapshots(tenant, after.map(SnapshotId), limit);
            Ok(ids.await?.into_iter().map(|id| id.0).collect())
        };
        let mut pages = Pages::new();
        while let Some(page) = pages.next(list).await? {
            let ids: Vec<_> = page.into_iter().map(SnapshotId).collect();
            self.report.snapshots += ids.len() as u64;
            for ids in ids.chunks(SNAPSHOTS) {
                for id in self.missing(ids).await? {
                    self.lineage(id).await?;
                }
            }
        }
        self.report.gaps += pages.gaps;
        Ok(())
    }

    /// Returns the snapshots that the target does not have; all of them for a
    /// check.
    async fn missing(&self, ids: &[SnapshotId]) -> Result<Vec<SnapshotId>> {
        let Some(to) = &self.to else {
            return Ok(ids.to_vec());
        };
        match to.store.snapshots(self.tenant, ids).await {
            Ok(found) => {
                let found = ids.iter().zip(found);
                let missing = found.filter(|(_, found)| found.is_none());
                return Ok(missing.map(|(id, _)| *id).collect());
            }
            Err(error) => unreadable(error)?,
        };
        // One of the records is damaged. A commit may replace it.
        let mut missing = Vec::new();
        for id in ids {
            match to.store.snapshots(self.tenant, &[*id]).await {
                Ok(found) if found.iter().all(Option::is_some) => {}
                Ok(_) => missing.push(*id),
                Err(error) => {
                    unreadable(error)?;
                    missing.push(*id);
                }
            }
        }
        Ok(missing)
    }

    /// Copies a snapshot after those of its ancestors that the target does not
    /// have: they share most objects, which are then still remembered.
    async fn lineage(&mut self, id: SnapshotId) -> Result<()> {
        if self.was_tried(id) {
            return Ok(());
        }
        let mut line = vec![id];
        let mut last = id;
        while self.to.is_some() && line.len() < LINEAGE {
            let found = self.from.snapshots(self.tenant, &[last]).await;
            let found = match found {
                Ok(found) => found.into_iter().next().flatten(),
                Err(error) => unreadable(error).map(|_| None)?,
            };
            let parent = found.and_then(|found| found.parents.first().copied());
            let Some(parent) = parent.filter(|parent| !self.was_tried(*parent)) else {
                break;
            };
            if self.missing(&[parent]).await?.is_empty() {
                break;
            }
            line.push(parent);
            last = parent;
        }
        for id in line.into_iter().rev() {
            self.snapshot(id).await?;
        }
        Ok(())
    }

    fn was_tried(&mut self, id: SnapshotId) -> bool {
        self.tried.has(snapshot_key(id)) || self.pending.iter().any(|(pending, _)| *pending == id)
    }

    /// Copies or checks a snapshot.
    async fn snapshot(&mut self, id: SnapshotId) -> Result<()> {
        self.tried.add(snapshot_key(id));
        let held = match self.from.hold(self.tenant, &[id]).await {
            Ok(held) => held,
            Err(error) => {
                let kind = unreadable(error)?;
                self.damaged(snapshot_key(id), kind);
                self.failed(id);
                return Ok(());
            }
        };
        // Until everything below it was read.
        let Some(held) = held else {
            // It was collected since it was listed, or is an ancestor that was
            // collected before.
            if self.to.is_none() {
                self.damaged(snapshot_key(id), DamageKind::Missing);
                self.failed(id);
            }
            return Ok(());
        };
        let Some(snapshot) = held.snapshots.into_iter().next() else {
            return Ok(());
        };
        if !snapshot.encode().is_ok_and(|(its, _)| its == id) {
            self.damaged(snapshot_key(id), DamageKind::HashMismatch);
            self.failed(id);
        } else if !self.walk(id, &snapshot).await? {
            self.failed(id);
        } else if self.to.is_some() {
            self.pending.push((id, snapshot));
            if self.pending.len() >= SNAPSHOTS {
                self.settle().await?;
            }
        }
        Ok(())
    }

    /// Commits the pending snapshots, and makes everything durable that was put.
    async fn settle(&mut self) -> Result<()> {
        let pending = std::mem::take(&mut self.pending);
        if self.unsettled == 0 && pending.is_empty() {
            return Ok(());
        }
        let snapshots = pending.iter().map(|(_, snapshot)| snapshot.clone());
        match self.commit(snapshots.collect()).await {
            Err(StoreError::Refused(_)) => {
                // The others are committed without the one that is at fault.
                for (id, snapshot) in pending {
                    match self.commit(vec![snapshot]).await {
                        Err(StoreError::Refused(_)) => self.failed(id),
                        other => other?,
                    }
                }
            }
            other => other?,
        }
        self.unsettled = 0;
        Ok(())
    }

    async fn commit(&mut self, snapshots: Vec<Snapshot>) -> StoreResult<()> {
        let Some(to) = &self.to else {
            return Ok(());
        };
        let count = snapshots.len() as u64;
        let commit = Commit {
            snapshots,
            after: vec![to.writer.id()],
            ..Commit::default()
        };
        // The writer protects the snapshots until the end of the copy.
        to.store.commit(self.tenant, commit).await?;
        self.report.snapshots_sent += count;
        Ok(())
    }
}
