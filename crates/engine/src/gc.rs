//! Garbage collection: deletes objects that no root needs, while commits and
//! reads go on.
//!
//! Marks are kept in the store, so memory does not grow with its size, and the
//! next collection walks only new objects. An interrupted collection leaves
//! garbage, and the next one is a full one.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use elevo_core::Timestamp;
use elevo_objects::{
    ChunkItem, Content, DirItem, Entry, Hash, Item, Kind, Node, ObjectKey, SnapshotId, TimeItem,
};
use futures::executor::block_on;

use crate::error::{Error, Result};
use crate::repository::Repository;
use crate::store::{Collection, Depth, StoreError};

/// Snapshots and refs listed at a time.
const PAGE: usize = 1000;
/// Nodes read at a time.
const NODES: usize = 256;
/// With more nodes waiting than this, nodes are read one at a time, the deepest
/// first. The list then grows by at most one path of a tree.
const MANY: usize = 100_000;

/// Options of a collection.
#[derive(Clone, Copy, Debug)]
pub struct GcOptions {
    /// Scope of the collection.
    pub depth: Depth,
    /// Only counts the objects that would be deleted. Always a full collection.
    pub dry_run: bool,
    /// Keeps snapshots created at this time or later though nothing refers to
    /// them: their creators may be about to.
    pub keep_since: Option<Timestamp>,
}

/// A snapshot that must be kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Root {
    /// Id of the snapshot.
    pub snapshot: SnapshotId,
    /// Whether to keep the snapshot's ancestors as well.
    pub history: bool,
}

/// Result of a collection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GcReport {
    /// Scope of the collection.
    pub depth: Depth,
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
/// `roots` only once the collection has begun: a snapshot that becomes a root
/// later is held or new. Blocks the thread.
///
/// While writers that began earlier are active, `wait` is called with their
/// number: it pauses briefly and returns whether to keep waiting.
pub fn collect_garbage(
    repository: &Repository,
    roots: &mut dyn Iterator<Item = Result<Root>>,
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
                "{count} {writers} began before the collection and did not end; retry later"
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
        let depth = if options.dry_run {
            Depth::Full
        } else {
            options.depth
        };
        let store = repository.store();
        let collection = store.collection(repository.tenant(), depth).await?;
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
                let history = true;
                let snapshot = *snapshot;
                self.root(Root { snapshot, history }).await?;
            }
            match page.into_iter().nth(PAGE - 1) {
                Some((name, _)) => after = Some(name),
                None => return Ok(()),
            }
        }
    }

    async fn recent(&mut self, since: Timestamp) -> Result<()> {
        let (store, tenant) = (self.repository.store(), self.repository.tenant());
        let mut after = None;
        loop {
            let ids = store.list_snapshots(tenant, after, PAGE).await?;
            let found = store.snapshots(tenant, &ids).await?;
            for (id, snapshot) in ids.iter().zip(found) {
                if snapshot.is_some_and(|snapshot| snapshot.created >= since) {
                    self.snapshot(*id, false).await?;
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
    pub async fn root(&mut self, root: Root) -> Result<()> {
        if self.snapshot(root.snapshot, root.history).await? {
            Ok(())
        } else {
            Err(Error::NoSuchSnapshot(root.snapshot))
        }
    }

    /// Marks a snapshot and everything it needs; false if it is not stored.
    async fn snapshot(&mut self, id: SnapshotId, history: bool) -> Result<bool> {
        let mut next = vec![id];
        let mut is_there = true;
        while let Some(at) = next.pop() {
            let keys = [snapshot_key(at), history_key(at)];
            let keys = &keys[..1 + usize::from(history)];
            let known = self.collection.marked(keys).await?;
            if !known.contains(&false) {
                continue;
            }
            let found = match self.repository.snapshot(at).await {
                // Ancestors may have been deleted.
                Err(Error::NoSuchSnapshot(_)) => {
                    is_there &= at != id;
                    continue;
                }
                found => found?,
            };
            // Mark only now: a snapshot that is missing may be stored later,
            // and then has to be walked.
            self.collection.mark(keys).await?;
            if !known[0] {
                let tree = found.tree.root.map(|hash| key(Kind::Directory, hash));
                let times = found.times.map(|hash| key(Kind::Times, hash));
                self.objects(tree.into_iter().chain(times).collect())
                    .await?;
                self.look_inside().await?;
            }
            if history {
                next.extend(found.parents);
            }
        }
        Ok(is_there)
    }

    async fn objects(&mut self, keys: Vec<ObjectKey>) -> Result<()> {
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

    async fn look_inside(&mut self) -> Result<()> {
        while !self.waiting.is_empty() {
            let count = if self.waiting.len() > MANY { 1 } else { NODES };
            let nodes = take_last(&mut self.waiting, count);
            let mut needed = Vec::new();
            for (key, data) in nodes.iter().zip(self.read(&nodes).await?) {
                let data = data.ok_or(Error::MissingObject(*key))?;
                needed_by(*key, &data, &mut needed)?;
            }
            self.objects(needed).await?;
        }
        Ok(())
    }

    async fn read(&self, keys: &[ObjectKey]) -> Result<Vec<Option<bytes::Bytes>>> {
        let store = self.repository.store();
        Ok(store.get(self.repository.tenant(), keys).await?)
    }

    /// Marks recent and held snapshots, and deletes the rest.
    pub async fn finish(mut self) -> Result<GcReport> {
        if let Some(since) = self.options.keep_since {
            self.recent(since).await?;
        }
        loop {
            // More snapshots may be held while these are marked; `close` ends
            // the marking only if all of them are known.
            for id in self.collection.arrivals() {
                self.snapshot(id, false).await?;
            }
            if self.collection.close() {
                break;
            }
        }
        let dry_run = self.options.dry_run;
        remove_rest(self.repository, self.collection, dry_run, self.progress).await
    }
}

async fn remove_rest(
    repository: &Repository,
    mut collection: Box<dyn Collection + '_>,
    dry_run: bool,
    progress: &GcProgress,
) -> Result<GcReport> {
    let mut report = GcReport {
        depth: collection.depth(),
        snapshots_removed: 0,
        objects_marked: progress.marked(),
        objects_seen: 0,
        objects_removed: 0,
    };
    // Snapshots before objects: a crash in between leaves objects that nothing
    // needs, never a snapshot with missing objects.
    let mut after = None;
    loop {
        let ids = collection.unmarked_snapshots(after, PAGE).await?;
        report.snapshots_removed += ids.len() as u64;
        if !dry_run {
            drop_snapshots(repository, &*collection, &ids, progress).await?;
        }
        match ids.get(PAGE - 1) {
            Some(last) => after = Some(*last),
            None => break,
        }
    }
    if collection.depth() == Depth::Full {
        while let Some(swept) = collection.sweep(dry_run).await? {
            progress.seen.fetch_add(swept.seen, Ordering::Relaxed);
            progress.removed.fetch_add(swept.removed, Ordering::Relaxed);
        }
    }
    collection.finish().await?;
    report.objects_seen = progress.seen();
    report.objects_removed = progress.removed();
    Ok(report)
}

/// Deletes snapshots, and in a young collection the objects that only they
/// need.
async fn drop_snapshots(
    repository: &Repository,
    collection: &dyn Collection,
    ids: &[SnapshotId],
    progress: &GcProgress,
) -> Result<()> {
    let found = repository.store().snapshots(repository.tenant(), ids);
    let found = found.await?;
    let keys: Vec<_> = ids.iter().map(|id| snapshot_key(*id)).collect();
    let removed = collection.remove(&keys).await?;
    if collection.depth() == Depth::Full {
        return Ok(());
    }
    let gone = found
        .into_iter()
        .zip(removed)
        .filter(|(_, removed)| *removed);
    let mut needed = HashSet::new();
    for snapshot in gone.filter_map(|(snapshot, _)| snapshot) {
        let tree = snapshot.tree.root.map(|hash| key(Kind::Directory, hash));
        let times = snapshot.times.map(|hash| key(Kind::Times, hash));
        let below = tree.into_iter().chain(times).collect();
        remove_below(repository, collection, below, &mut needed, progress).await?;
    }
    Ok(())
}

/// Deletes the objects reached from a deleted snapshot, down to those that are
/// needed or already deleted. Versions of a tree share most objects: `known`
/// caches those found to be needed.
async fn remove_below(
    repository: &Repository,
    collection: &dyn Collection,
    mut waiting: Vec<ObjectKey>,
    known: &mut HashSet<ObjectKey>,
    progress: &GcProgress,
) -> Result<()> {
    while !waiting.is_empty() {
        let count = if waiting.len() > MANY { 1 } else { NODES };
        let mut keys = take_last(&mut waiting, count);
        keys.retain(|key| !known.contains(key));
        let store = repository.store();
        let nodes: Vec<_> = keys
            .iter()
            .filter(|key| key.kind != Kind::Chunk)
            .copied()
            .collect();
        // Read before the deletion: the content leads to the objects below.
        let data = store.get(repository.tenant(), &nodes).await?;
        let data: HashMap<_, _> = nodes.into_iter().zip(data).collect();
        let removed = collection.remove(&keys).await?;
        progress
            .seen
            .fetch_add(keys.len() as u64, Ordering::Relaxed);
        if known.len() > MANY {
            known.clear();
        }
        for (key, removed) in keys.iter().zip(removed) {
            if !removed {
                known.insert(*key);
                continue;
            }
            match data.get(key) {
                // An interrupted collection has already deleted this node.
                Some(None) => continue,
                Some(Some(data)) => needed_by(*key, data, &mut waiting)?,
                None => {}
            }
            progress.removed.fetch_add(1, Ordering::Relaxed);
        }
    }
    Ok(())
}

fn take_last(from: &mut Vec<ObjectKey>, count: usize) -> Vec<ObjectKey> {
    from.split_off(from.len().saturating_sub(count))
}

fn key(kind: Kind, hash: Hash) -> ObjectKey {
    ObjectKey { kind, hash }
}

fn snapshot_key(id: SnapshotId) -> ObjectKey {
    key(Kind::Snapshot, id.0)
}

/// A key that stands for a snapshot with its whole history. No object has this
/// hash.
fn history_key(id: SnapshotId) -> ObjectKey {
    Kind::Snapshot.key(id.0.as_bytes())
}

/// Collects the keys of the objects that a node refers to.
fn needed_by(node: ObjectKey, data: &bytes::Bytes, needed: &mut Vec<ObjectKey>) -> Result<()> {
    match node.kind {
        Kind::Directory => items::<DirItem>(node, data, needed, |item| match item.entry {
            Entry::Directory { tree, .. } => tree.root.map(|hash| key(Kind::Directory, hash)),
            Entry::Link(link) => Some(key(Kind::Chunk, link.hash)),
            Entry::File { content, .. } => match content {
                Content::Empty => None,
                Content::Chunk { hash, .. } => Some(key(Kind::Chunk, hash)),
                Content::List { hash, .. } => Some(key(Kind::ChunkList, hash)),
            },
        }),
        Kind::Times => items::<TimeItem>(node, data, needed, |item| {
            item.entry.children.map(|hash| key(Kind::Times, hash))
        }),
        Kind::ChunkList => {
            items::<ChunkItem>(node, data, needed, |item| Some(key(Kind::Chunk, item.hash)))
        }
        Kind::Chunk | Kind::Snapshot => Ok(()),
    }
}

fn items<I: Item>(
    node: ObjectKey,
    data: &bytes::Bytes,
    needed: &mut Vec<ObjectKey>,
    of: impl Fn(I) -> Option<ObjectKey>,
) -> Result<()> {
    let decoded = Node::<I>::decode(data);
    match decoded.map_err(|source| Error::Damaged { key: node, source })? {
        Node::Leaf(items) => needed.extend(items.into_iter().filter_map(of)),
        Node::Index { children, .. } => {
            needed.extend(children.into_iter().map(|child| key(I::KIND, child.hash)));
        }
    }
    Ok(())
}
