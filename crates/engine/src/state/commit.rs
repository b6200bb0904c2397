//! Commits a tree as a snapshot.

use std::collections::BTreeMap;
use std::sync::Arc;

use elevo_core::Timestamp;
use elevo_objects::{Hash, Snapshot, SnapshotId, Tree};

use super::StateTree;
use super::directory::Directory;
use super::seal::{Sealed, seal};
use crate::error::Result;
use crate::guards::WriterId;
use crate::store::{Commit, Expected, Object, ReferenceUpdate};

/// Maximum bytes of objects in one commit; the others are put ahead of it.
const MAX_COMMIT_BYTES: usize = 64 * 1024 * 1024;

/// Metadata of a commit.
#[derive(Clone, Debug)]
pub struct CommitInfo {
    /// Snapshots that this one was made from.
    pub parents: Vec<SnapshotId>,
    /// Author of the commit.
    pub author: String,
    /// Reason for the commit.
    pub message: String,
    /// Time of the commit.
    pub created: Timestamp,
    /// Further keys and values to find the snapshot by.
    pub labels: BTreeMap<String, String>,
    /// Ref to move to the snapshot in the same commit.
    pub reference: Option<(String, Expected)>,
}

impl CommitInfo {
    /// Returns the snapshot of `tree` and `times` with this metadata, and its
    /// commit, which names the writers `after`.
    pub(crate) fn into_commit(
        self,
        tree: Tree,
        times: Option<Hash>,
        objects: Vec<Object>,
        after: Vec<WriterId>,
    ) -> Result<(SnapshotId, Commit)> {
        let snapshot = Snapshot {
            tree,
            times,
            parents: self.parents,
            author: self.author,
            message: self.message,
            created: self.created,
            labels: self.labels,
        };
        let (id, _) = snapshot.encode()?;
        let references = self
            .reference
            .map(|(name, expected)| ReferenceUpdate {
                name,
                expected,
                target: Some(id),
            })
            .into_iter()
            .collect();
        Ok((
            id,
            Commit {
                objects,
                snapshots: vec![snapshot],
                references,
                after,
            },
        ))
    }
}

impl StateTree {
    /// Stores the tree as a snapshot: all new objects, in one atomic batch that
    /// is durable when this returns. Writers wait; readers do not.
    pub async fn commit(&self, info: CommitInfo) -> Result<SnapshotId> {
        let _writer = self.writer.lock().await;
        let Sealed {
            tree,
            times,
            objects,
        } = self.seal_ahead().await?;
        let after = self.repository.ids_of_writers_ahead();
        let (id, commit) = info.into_commit(tree, times, objects, after)?;
        let (store, tenant) = (self.repository.store(), self.repository.tenant());
        let held = store.commit(tenant, commit).await?.held;
        self.repository.release_objects_ahead();
        let root = Arc::new(Directory::stored(tree, times));
        self.publish(root, Some(Arc::new(held)));
        Ok(id)
    }

    /// Seals the current tree and stores the bulk of a large one, so that the
    /// batch of its commit stays small.
    pub(super) async fn seal_ahead(&self) -> Result<Sealed> {
        let mut sealed = seal(&self.repository, &self.current().root).await?;
        sealed.objects = self.put_ahead(sealed.objects).await?;
        Ok(sealed)
    }

    async fn put_ahead(&self, mut objects: Vec<Object>) -> Result<Vec<Object>> {
        let mut bytes: usize = objects.iter().map(|object| object.data.len()).sum();
        while bytes > MAX_COMMIT_BYTES {
            let mut taken = 0;
            let count = objects
                .iter()
                .take_while(|object| {
                    taken += object.data.len();
                    taken <= MAX_COMMIT_BYTES
                })
                .count()
                .max(1);
            let rest = objects.split_off(count);
            bytes = rest.iter().map(|object| object.data.len()).sum();
            self.repository.put_ahead(objects).await?;
            objects = rest;
        }
        Ok(objects)
    }
}
