//! Changed files that a checkout kept.

use std::path::Path;

use elevo_core::TreePath;
use elevo_engine::{Diff, Repository};
use elevo_objects::{Entry, Snapshot};

use crate::local::session::Session;
use crate::local::wait::wait;
use crate::local::working_tree::WorkingTree;

/// Maximum number of paths in the note.
const NAMED: usize = 3;

/// Files that differ from the snapshot: changed or missing.
#[derive(Debug, Default)]
pub(crate) struct ChangedFiles {
    pub(crate) count: u64,
    /// The first of them.
    pub(crate) first: Vec<TreePath>,
}

impl ChangedFiles {
    /// Compares a directory with the snapshot that was just checked out there.
    pub(crate) fn find(
        session: &Session,
        repository: &Repository,
        store: &Path,
        directory: &Path,
        snapshot: &Snapshot,
    ) -> anyhow::Result<Self> {
        let tracked = vec![snapshot.tree];
        let now = WorkingTree::scan(session, repository, store, directory, tracked)?;
        wait(Self::among(Diff::new(
            &now.repository,
            snapshot.tree,
            now.tree,
        )))
    }

    async fn among(mut changes: Diff) -> anyhow::Result<Self> {
        let mut changed = Self::default();
        while let Some(change) = changes.next().await? {
            let is_file = matches!(
                change.kind.before(),
                Some(Entry::File { .. } | Entry::Link(_))
            );
            if is_file {
                changed.count += 1;
                if changed.first.len() < NAMED {
                    changed.first.push(change.path);
                }
            }
        }
        Ok(changed)
    }
}
