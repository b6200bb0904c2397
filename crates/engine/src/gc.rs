//! Garbage collection: deletes objects that no root needs, while commits and
//! reads go on.
//!
//! Marks are kept in the store, so memory does not grow with its size, and the
//! next collection walks only new objects. An interrupted collection leaves
//! garbage, and the next one is a full one.

pub(crate) mod needs;
mod remove;

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use elevo_objects::{Kind, ObjectKey, SnapshotId};
use futures::executor::block_on;

use crate::error::{Error, Result};
use crate::repository::Repository;
use crate::store::{Collection, GcScope, PINS, Recent, StoreError};
use needs::{history_key, needed_by, roots_of, snapshot_key};
use remove::remove_rest;

/// Snapshots and refs listed at a time.
const PAGE: usize = 1000;
/// Snapshots marked, and nodes read, at a time.
const BATCH: usize = 256;
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
    /// Keeps recent snapshots, even if nothing refers to them: their creator may
    /// be about to record a reference.
    pub keep_recent: Option<Recent>,
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

/// A snapshot that is to be marked.
struct Next {
    root: GcRoot,
    /// Whether it was asked for, not found as a parent of another one.
    is_root: bool,
    /// Whether the snapshot itself is marked.
    is_marked: bool,
}

impl Next {
    const fn root(root: GcRoot) -> Self {
        Self {
            root,
            is_root: true,
            is_marked: false,
        }
    }

    const fn ancestor(snapshot: SnapshotId) -> Self {
        let root = GcRoot {
            snapshot,
            history: true,
        };
        Self {
            is_root: false,
            ..Self::root(root)
        }
    }

    /// Returns the keys of the snapshot's marks. A history has its own mark,
    /// because the mark of a snapshot does not mean that its ancestors are
    /// marked. The walk of a history ends at a snapshot with both marks.
    fn keys(&self) -> Vec<ObjectKey> {
        let GcRoot { snapshot, history } = self.root;
        let history = history.then(|| history_key(snapshot));
        [snapshot_key(snapshot)]
            .into_iter()
            .chain(history)
            .collect()
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
    loop {
        let some: Result<Vec<_>> = roots.take(BATCH).collect();
        let some = some?;
        if some.is_empty() {
            break;
        }
        block_on(run.roots(some))?;
    }
    block_on(run.finish())
}

fn wait_for_writers(run: &GcRun<'_>, wait: &mut dyn FnMut(usize) -> bool) -> Result<()> {
    loop {
        let count = block_on(run.older_writers())?;
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
    pub async fn older_writers(&self) -> Result<usize> {
        let count = self.collection.older_writers().await?;
        self.progress.waiting.store(count as u64, Ordering::Relaxed);
        Ok(count)
    }

    /// Marks the snapshots of all refs with their histories; those of pins alone.
    pub async fn references(&mut self) -> Result<()> {
        let (store, tenant) = (self.repository.store(), self.repository.tenant());
        let mut after: Option<String> = None;
        loop {
            let page = store.list_references(tenant, "", after.as_deref(), PAGE);
            let page = page.await?;
            let root = |(name, snapshot): &(String, SnapshotId)| GcRoot {
                snapshot: *snapshot,
                history: !name.starts_with(PINS),
            };
            self.roots(page.iter().map(root)).await?;
            match page.into_iter().nth(PAGE - 1) {
                Some((name, _)) => after = Some(name),
                None => return Ok(()),
            }
        }
    }

    /// Marks the recent snapshots.
    async fn recent(&mut self, recent: Recent) -> Result<()> {
        let (store, tenant) = (self.repository.store(), self.repository.tenant());
        let mut after = None;
        loop {
            let ids = store.snapshots_since(tenant, recent, after, PAGE).await?;
            let last = ids.get(PAGE - 1).copied();
            // One that was deleted meanwhile is not an error.
            self.mark_snapshots(ids.into_iter().map(GcRoot::alone))
                .await?;
            match last {
                Some(last) => after = Some(last),
                None => return Ok(()),
            }
        }
    }

    /// Marks roots and everything they need. A missing root is an error: the
    /// store is damaged, and a collection would make it worse.
    pub async fn roots(&mut self, roots: impl IntoIterator<Item = GcRoot>) -> Result<()> {
        match self.mark_snapshots(roots).await? {
            None => Ok(()),
            Some(missing) => Err(Error::NoSuchSnapshot(missing)),
        }
    }

    /// Marks snapshots and everything they need, many at a time. Returns one of
    /// `roots` that is not stored.
    async fn mark_snapshots(
        &mut self,
        roots: impl IntoIterator<Item = GcRoot>,
    ) -> Result<Option<SnapshotId>> {
        let mut next: Vec<_> = roots.into_iter().map(Next::root).collect();
        let mut missing = None;
        while !next.is_empty() {
            let mut some = next.split_off(next.len().saturating_sub(BATCH));
            let keys: Vec<_> = some.iter().flat_map(Next::keys).collect();
            let mut marked = self.collection.marked(&keys).await?.into_iter();
            some.retain_mut(|next| {
                let marks: Vec<_> = marked.by_ref().take(next.keys().len()).collect();
                next.is_marked = marks.first() == Some(&true);
                marks.contains(&false)
            });
            if some.is_empty() {
                continue;
            }
            let ids: Vec<_> = some.iter().map(|next| next.root.snapshot).collect();
            let (store, tenant) = (self.repository.store(), self.repository.tenant());
            let found = store.snapshots(tenant, &ids).await?;
            // Mark only those that were found: a snapshot that is missing may
            // be stored later, and then has to be walked.
            let (mut keys, mut needed) = (Vec::new(), Vec::new());
            for (at, found) in some.into_iter().zip(found) {
                let Some(found) = found else {
                    // Ancestors may have been deleted.
                    missing = missing.or(at.is_root.then_some(at.root.snapshot));
                    continue;
                };
                keys.extend(at.keys());
                if !at.is_marked {
                    needed.extend(roots_of(&found));
                }
                if at.root.history {
                    next.extend(found.parents.into_iter().map(Next::ancestor));
                }
            }
            self.collection.mark(&keys).await?;
            self.mark(needed).await?;
            self.mark_below().await?;
        }
        Ok(missing)
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
        if let Some(recent) = self.options.keep_recent {
            self.recent(recent).await?;
        }
        loop {
            // More snapshots may be held while these are marked; `close` ends
            // the marking only if all held snapshots are marked or kept.
            let arrivals = self.collection.arrivals().await?;
            self.mark_snapshots(arrivals.into_iter().map(GcRoot::alone))
                .await?;
            if self.collection.close().await? {
                break;
            }
        }
        let dry_run = self.options.dry_run;
        remove_rest(self.repository, self.collection, dry_run, self.progress).await
    }
}

/// Takes the last nodes of a list: a batch, or one if the list is long.
fn take_last(from: &mut Vec<ObjectKey>) -> Vec<ObjectKey> {
    let count = if from.len() > MANY { 1 } else { BATCH };
    from.split_off(from.len().saturating_sub(count))
}
