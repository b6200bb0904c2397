//! The files of a working directory, compared with snapshots.

use std::path::Path;
use std::sync::Arc;

use elevo_engine::{Ignoring, ImportOptions, Progress, Repository, scan_with_cache};
use elevo_merge::IgnoreFiles;
use elevo_objects::{Snapshot, SnapshotId, Tree};

use crate::errors::DirectoryProblem;
use crate::local::checkout_record::{CheckoutRecord, CheckoutState};
use crate::local::revision::{HEAD, reference_at};
use crate::local::session::Session;
use crate::local::stat_caches;
use crate::local::wait::{left_out, wait};
use crate::output::progress::{self, Watch};

/// The current files of a directory.
pub(crate) struct WorkingTree {
    pub(crate) tree: Tree,
    /// The repository that has the tree.
    pub(crate) repository: Repository,
}

impl WorkingTree {
    /// Scans a directory and stores nothing: the contents of changed files cannot
    /// be read from the result. Does not read files that are unchanged since the
    /// last commit. Leaves out ignored files, unless a tree of `tracked` has them.
    pub(crate) fn scan(
        session: &Session,
        repository: &Repository,
        store: &Path,
        directory: &Path,
        tracked: Vec<Tree>,
    ) -> anyhow::Result<Self> {
        let options = import_options(session, tracked);
        let progress = Progress::new();
        let watch = Watch {
            doing: "looking",
            things: "entries",
            total: None,
            counts: || (progress.entries(), 0),
        };
        let cache = stat_caches::known(store, directory);
        let (tree, repository) = progress::watch(session.hides_progress(), watch, || {
            scan_with_cache(repository, directory, &options, &progress, &cache)
        })?;
        Ok(Self { tree, repository })
    }
}

/// The options for reading a directory: ignored files are left out, unless a tree
/// of `tracked` has them.
pub(crate) fn import_options(session: &Session, tracked: Vec<Tree>) -> ImportOptions {
    ImportOptions {
        threads: session.threads(),
        leave_out: left_out(),
        ignoring: Some(Ignoring {
            rules: Arc::new(IgnoreFiles::default()),
            tracked,
        }),
    }
}

/// Returns the snapshot that the changes in a working directory are counted from:
/// that of the last commit or checkout there, otherwise `head`. Fails if a
/// checkout was interrupted.
pub(crate) fn base_of(
    repository: &Repository,
    directory: &Path,
) -> anyhow::Result<Option<(SnapshotId, Snapshot)>> {
    let recorded = match CheckoutRecord::read(directory).map(|record| record.held) {
        Some(CheckoutState::Changing { to, .. }) => {
            let (directory, source) = (directory.into(), None);
            let problem = DirectoryProblem::Interrupted {
                directory,
                to,
                source,
            };
            return Err(problem.into());
        }
        Some(CheckoutState::Snapshot(id)) => find(repository, id)?,
        None => None,
    };
    match recorded {
        Some(recorded) => Ok(Some(recorded)),
        None => match reference_at(repository, HEAD)? {
            Some(head) => Ok(Some((head, wait(repository.snapshot(head))?))),
            None => Ok(None),
        },
    }
}

/// Returns a snapshot if it is in this store. The directory may have been checked
/// out from another store.
fn find(repository: &Repository, id: SnapshotId) -> anyhow::Result<Option<(SnapshotId, Snapshot)>> {
    let found = wait(repository.store().snapshots(repository.tenant(), &[id]))?;
    let found = found.into_iter().next().flatten();
    Ok(found.map(|snapshot| (id, snapshot)))
}
