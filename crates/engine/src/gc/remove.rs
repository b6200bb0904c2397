//! Deletes the snapshots and objects that were not marked.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::Ordering;

use elevo_objects::{Kind, ObjectKey, SnapshotId};

use super::needs::{needed_by, roots_of, snapshot_key};
use super::{GcProgress, GcReport, MANY, PAGE, take_last};
use crate::error::Result;
use crate::repository::Repository;
use crate::store::{Collection, GcScope};

/// Deletes all snapshots and objects without a mark, or only counts them.
pub(super) async fn remove_rest(
    repository: &Repository,
    mut collection: Box<dyn Collection + '_>,
    dry_run: bool,
    progress: &GcProgress,
) -> Result<GcReport> {
    let mut report = GcReport {
        scope: collection.scope(),
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
            remove_snapshots(repository, &*collection, &ids, progress).await?;
        }
        match ids.get(PAGE - 1) {
            Some(last) => after = Some(*last),
            None => break,
        }
    }
    if collection.scope() == GcScope::Full {
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
async fn remove_snapshots(
    repository: &Repository,
    collection: &dyn Collection,
    ids: &[SnapshotId],
    progress: &GcProgress,
) -> Result<()> {
    // The snapshots are read before they are deleted, since a young collection
    // then needs their roots.
    let found = repository.store().snapshots(repository.tenant(), ids);
    let found = found.await?;
    let keys: Vec<_> = ids.iter().map(|id| snapshot_key(*id)).collect();
    let removed = collection.remove(&keys).await?;
    if collection.scope() == GcScope::Full {
        // The sweep examines every object anyway.
        return Ok(());
    }
    let gone = found
        .into_iter()
        .zip(removed)
        .filter(|(_, removed)| *removed);
    let gone = gone.filter_map(|(snapshot, _)| snapshot);
    let roots = gone.flat_map(|snapshot| roots_of(&snapshot)).collect();
    remove_below(repository, collection, roots, progress).await
}

/// Deletes the objects reached from a deleted snapshot, down to those that are
/// needed or already deleted. Versions of a tree share most objects: `known`
/// caches those found to be needed.
async fn remove_below(
    repository: &Repository,
    collection: &dyn Collection,
    mut waiting: Vec<ObjectKey>,
    progress: &GcProgress,
) -> Result<()> {
    let mut known = HashSet::new();
    while !waiting.is_empty() {
        let mut keys = take_last(&mut waiting);
        // Several snapshots may refer to one object.
        keys.sort_unstable();
        keys.dedup();
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
        // A bound on memory: a forgotten key only costs another lookup.
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
