//! Changed files that a checkout kept.

use std::path::Path;
use std::sync::Arc;

use elevo_core::TreePath;
use elevo_engine::{Diff, Ignoring, ImportOptions, Progress, Repository, scan_with_cache};
use elevo_merge::IgnoreFiles;
use elevo_objects::{Entry, Snapshot};

use crate::local::session::Session;
use crate::local::stat_caches;
use crate::local::wait::{left_out, wait};
use crate::output::progress::{self, Watch};

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
    /// Does not read files that are unchanged since the last commit.
    pub(crate) fn find(
        session: &Session,
        repository: &Repository,
        store: &Path,
        directory: &Path,
        snapshot: &Snapshot,
    ) -> anyhow::Result<Self> {
        let options = ImportOptions {
            threads: session.threads(),
            leave_out: left_out(),
            ignoring: Some(Ignoring {
                rules: Arc::new(IgnoreFiles::default()),
                tracked: vec![snapshot.tree],
            }),
        };
        let progress = Progress::new();
        let watch = Watch {
            doing: "looking",
            things: "entries",
            total: None,
            counts: || (progress.entries(), 0),
        };
        let cache = stat_caches::known(store, directory);
        let (found, view) = progress::watch(session.hides_progress(), watch, || {
            scan_with_cache(repository, directory, &options, &progress, &cache)
        })?;
        wait(Self::among(Diff::new(&view, snapshot.tree, found)))
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
