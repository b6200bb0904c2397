//! Garbage collection: deletes objects that no root needs, while commits and
//! reads go on.
//!
//! Marks are kept in the store, so memory does not grow with its size, and the
//! next collection walks only new objects. An interrupted collection leaves
//! garbage, and the next one is a full one.

mod needs;
mod remove;

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use elevo_core::Timestamp;
use elevo_objects::{Kind, ObjectKey, SnapshotId};
use futures::executor::block_on;

use crate::error::{Error, Result};
use crate::repository::Repository;
use crate::store::{Collection, GcScope, StoreError};
use needs::{history_key, needed_by, roots_of, snapshot_key};
use remove::remove_rest;

/// Snapshots and refs listed at a time.
const PAGE: usize = 1000;
/// Nodes read at a time.
const NODES: usize = 256;
/// If more nodes than this wait to be examined, nodes are read one at a time,
/// the deepest first. The list then grows by at most one path of a tree.
const MANY: usize = 100_000;

/// Options of a collection.
#[derive(Clone, Copy, Debug)]
pub struct GcOptions {
    /// Scope of the collection.
    pub scope: GcScope,
    /// Only counts the objects that would be deleted. Always a full collection.
    pub dry_run: bool,
    /// Keeps snapshots that were created at this time or later, even if nothing
    /// refers to them: their creator may be about to record a reference.
    pub keep_since: Option<Timestamp>,
}

/// A snapshot that must be kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GcRoot {
    /// Id of the snapshot.
    pub snapshot: SnapshotId,
    /// Whether to keep the snapshot's ancestors as well.
    pub history: bool,
}

impl GcRoot {
    /// A snapshot without its ancestors.
    const fn alone(snapshot: SnapshotId) -> Self {
        Self {
            snapshot,
            history: false,
        }
    }
}

/// Result of a collection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GcReport {
    /// Scope of the collection.
    pub scope: GcScope,
    /// Snapshots deleted, or to be deleted in a dry run.
    pub snapshots_removed: u64,
    /// Objects marked as needed; an object that several nodes need may be
    /// counted more than once.
    pub objects_marked: u64,
    /// Objects examined for deletion.
    pub objects_seen: u64,
    /// Objects deleted, or to be deleted in a dry run.
    pub objects_removed: u64,
}

/// Progress of a collection, for another thread to read.
#[derive(Debug, Default)]
pub struct GcProgress {
    waiting: AtomicU64,
    marked: AtomicU64,
    seen: AtomicU64,
    removed: AtomicU64,
}

impl GcProgress {
    /// Writers that the collection waits for.
    pub fn waiting(&self) -> u64 {
        self.waiting.load(Ordering::Relaxed)
    }

    /// Objects marked so far.
    pub fn marked(&self) -> u64 {
        self.marked.load(Ordering::Relaxed)
    }

    /// Objects examined so far.
    pub fn seen(&self) -> u64 {
        self.seen.load(Ordering::Relaxed)
    }

    /// Objects deleted so far.
    pub fn removed(&self) -> u64 {
        self.removed.load(Ordering::Relaxed)
    }
}

/// Deletes the objects that neither `roots` nor refs nor guards need. Reads
/// `roots` only after the collection has begun. A snapshot that becomes a root
/// later is kept, because it is held or new. Blocks the thread.
///
/// While writers that began earlier are active, `wait` is called with their
/// number. It should pause briefly and return whether to keep waiting.
pub fn collect_garbage(
    repository: &Repository,
    roots: &mut dyn Iterator<Item = Result<GcRoot>>,
    options: &GcOptions,
    wait: &mut dyn FnMut(usize) -> bool,
    progress: &GcProgress,
) -> Result<GcReport> {
    let mut run = block_on(GcRun::begin(repository, options, progress))?;
    wait_for_writers(&run, wait)?;
    block_on(run.references())?;
    for root in roots {
        block_on(run.root(root?))?;
    }
    block_on(run.finish())
}

fn wait_for_writers(run: &GcRun<'_>, wait: &mut dyn FnMut(usize) -> bool) -> Result<()> {
    loop {
        let count = run.older_writers();
        if count == 0 {
            return Ok(());
        }
        if !wait(count) {
            let writers = if count == 1 { "writer" } else { "writers" };
            let message = format!(
                "{count} {writers} began before the garbage collection and did not finish; retry \
                 later"
            );
            return Err(StoreError::Refused(message).into());
        }
    }
}

/// The steps of [`collect_garbage`], for callers that must not block. Begin;
/// wait for older writers; mark refs and the other roots; finish. Dropping it
/// before the end leaves garbage.
pub struct GcRun<'a> {
    repository: &'a Repository,
    collection: Box<dyn Collection + 'a>,
    /// Marked nodes whose content was not examined yet.
    waiting: Vec<ObjectKey>,
    options: GcOptions,
    progress: &'a GcProgress,
}

impl fmt::Debug for GcRun<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GcRun")
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

impl<'a> GcRun<'a> {
    /// Begins a collection. Objects written or found from now on are kept.
    pub async fn begin(
        repository: &'a Repository,
        options: &GcOptions,
        progress: &'a GcProgress,
    ) -> Result<Self> {
        let scope = if options.dry_run {
            GcScope::Full
        } else {
            options.scope
        };
        let store = repository.store();
        let collection = store.collection(repository.tenant(), scope).await?;
        Ok(Self {
            repository,
            collection,
            waiting: Vec::new(),
            options: *options,
            progress,
        })
    }

    /// Number of writers that began earlier: mark nothing until it is 0.
    pub fn older_writers(&self) -> usize {
        let count = self.collection.older_writers();
        self.progress.waiting.store(count as u64, Ordering::Relaxed);
        count
    }

    /// Marks the snapshots of all refs with their histories.
    pub async fn references(&mut self) -> Result<()> {
        let (store, tenant) = (self.repository.store(), self.repository.tenant());
        let mut after: Option<String> = None;
        loop {
            let page = store.list_references(tenant, "", after.as_deref(), PAGE);
            let page = page.await?;
            for (_, snapshot) in &page {
                let root = GcRoot {
                    snapshot: *snapshot,
                    history: true,
                };
                self.root(root).await?;
            }
            match page.into_iter().nth(PAGE - 1) {
                Some((name, _)) => after = Some(name),
                None => return Ok(()),
            }
        }
    }

    /// Marks the snapshots created at `since` or later.
    async fn recent(&mut self, since: Timestamp) -> Result<()> {
        let (store, tenant) = (self.repository.store(), self.repository.tenant());
        let mut after = None;
        loop {
            let ids = store.list_snapshots(tenant, after, PAGE).await?;
            let found = store.snapshots(tenant, &ids).await?;
            for (id, snapshot) in ids.iter().zip(found) {
                if snapshot.is_some_and(|snapshot| snapshot.created >= since) {
                    self.mark_snapshot(GcRoot::alone(*id)).await?;
                }
            }
            match ids.get(PAGE - 1) {
                Some(last) => after = Some(*last),
                None => return Ok(()),
            }
        }
    }

    /// Marks a root and everything it needs. A missing root is an error: the
    /// store is damaged, and a collection would make it worse.
    pub async fn root(&mut self, root: GcRoot) -> Result<()> {
        if self.mark_snapshot(root).await? {
            Ok(())
        } else {
            Err(Error::NoSuchSnapshot(root.snapshot))
        }
    }

    /// Marks a snapshot and everything it needs; false if it is not stored.
    async fn mark_snapshot(&mut self, root: GcRoot) -> Result<bool> {
        let mut next = vec![root.snapshot];
        let mut is_there = true;
        while let Some(at) = next.pop() {
            // A history has its own mark, because the mark of a snapshot does
            // not mean that its ancestors are marked. The walk of a history
            // ends at a snapshot with both marks.
            let both = [snapshot_key(at), history_key(at)];
            let keys = if root.history { &both[..] } else { &both[..1] };
            let marked = self.collection.marked(keys).await?;
            if !marked.contains(&false) {
                continue;
            }
            let found = match self.repository.snapshot(at).await {
                // Ancestors may have been deleted.
                Err(Error::NoSuchSnapshot(_)) => {
                    is_there &= at != root.snapshot;
                    continue;
                }
                found => found?,
            };
            // Mark only now: a snapshot that is missing may be stored later,
            // and then has to be walked.
            self.collection.mark(keys).await?;
            if !marked[0] {
                self.mark(roots_of(&found)).await?;
                self.mark_below().await?;
            }
            if root.history {
                next.extend(found.parents);
            }
        }
        Ok(is_there)
    }

    /// Marks objects. Nodes that had no mark wait to be examined.
    async fn mark(&mut self, keys: Vec<ObjectKey>) -> Result<()> {
        if keys.is_empty() {
            return Ok(());
        }
        let first = self.collection.mark(&keys).await?;
        let marked = &self.progress.marked;
        marked.fetch_add(keys.len() as u64, Ordering::Relaxed);
        let nodes = keys
            .into_iter()
            .zip(first)
            .filter(|(key, first)| *first && key.kind != Kind::Chunk);
        self.waiting.extend(nodes.map(|(key, _)| key));
        Ok(())
    }

    /// Marks everything that the waiting nodes lead to.
    async fn mark_below(&mut self) -> Result<()> {
        while !self.waiting.is_empty() {
            let nodes = take_last(&mut self.waiting);
            let store = self.repository.store();
            let found = store.get(self.repository.tenant(), &nodes).await?;
            let mut needed = Vec::new();
            for (key, data) in nodes.iter().zip(found) {
                let data = data.ok_or(Error::MissingObject(*key))?;
                needed_by(*key, &data, &mut needed)?;
            }
            self.mark(needed).await?;
        }
        Ok(())
    }

    /// Marks recent and held snapshots, and deletes the rest.
    pub async fn finish(mut self) -> Result<GcReport> {
        if let Some(since) = self.options.keep_since {
            self.recent(since).await?;
        }
        loop {
            // More snapshots may be held while these are marked; `close` ends
            // the marking only if all held snapshots are marked or kept.
            for id in self.collection.arrivals() {
                self.mark_snapshot(GcRoot::alone(id)).await?;
            }
            if self.collection.close() {
                break;
            }
        }
        let dry_run = self.options.dry_run;
        remove_rest(self.repository, self.collection, dry_run, self.progress).await
    }
}

/// Takes the last nodes of a list: a batch, or one if the list is long.
fn take_last(from: &mut Vec<ObjectKey>) -> Vec<ObjectKey> {
    let count = if from.len() > MANY { 1 } else { NODES };
    from.split_off(from.len().saturating_sub(count))
}
