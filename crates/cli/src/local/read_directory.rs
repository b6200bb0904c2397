//! Reads a directory into the store, for `import` and `commit`.

use std::path::Path;

use anyhow::Context;
use elevo_engine::{
    CommitInfo, Imported, Loss, LossKind, NewStatCache, Progress, Repository, import,
    import_with_cache,
};
use elevo_objects::{Snapshot, SnapshotId, Tree};

use crate::errors::StoreProblem;
use crate::local::layout::RESERVED;
use crate::local::session::Session;
use crate::local::stat_caches;
use crate::local::wait::wait;
use crate::local::working_tree::{WorkingTree, import_options};
use crate::output::progress::{self, Watch};
use crate::output::saved_snapshot::describe_loss;

/// Returns an error if the directory contains the store outside `.elevo`, or is
/// inside the store.
pub(crate) fn check_apart(store: &Path, directory: &Path) -> Result<(), StoreProblem> {
    let inside = store.starts_with(directory) && !store.starts_with(directory.join(RESERVED));
    if inside || directory.starts_with(store) {
        return Err(StoreProblem::StoreInside {
            store: store.into(),
            directory: directory.into(),
        });
    }
    Ok(())
}

/// A directory that was read into the store, and the metadata of its files.
pub(crate) struct ReadDirectory {
    pub(crate) imported: Imported,
    cache: Option<NewStatCache>,
}

impl ReadDirectory {
    /// Creates a snapshot, which is durable when this returns.
    pub(crate) fn commit(
        self,
        repository: &Repository,
        info: CommitInfo,
    ) -> anyhow::Result<SnapshotId> {
        let id = wait(self.imported.commit(repository, info))?;
        remember(self.cache, id);
        Ok(id)
    }

    /// Returns the files, with their contents.
    pub(crate) fn into_working_tree(self, repository: &Repository) -> WorkingTree {
        WorkingTree {
            tree: self.imported.tree,
            repository: self.imported.view(repository),
        }
    }

    /// Only saves the metadata, for a directory that equals snapshot `id`.
    pub(crate) fn keep(self, id: SnapshotId) {
        remember(self.cache, id);
    }
}

fn remember(cache: Option<NewStatCache>, id: SnapshotId) {
    // On a failure the next read is only slower.
    let _ = cache.map(|cache| cache.finish(id));
}

/// Reads a directory into the store; if it was read before, only files that
/// changed since. Leaves out ignored files, unless `parent` has them.
pub(crate) fn read_directory(
    session: &Session,
    repository: &Repository,
    store: &Path,
    directory: &Path,
    parent: Option<&Snapshot>,
) -> anyhow::Result<ReadDirectory> {
    let tracked = parent.map(|parent| parent.tree).into_iter().collect();
    let read = read_silently(session, repository, store, directory, tracked)?;
    // Like git, a commit does not report ignored files.
    let is_news = |loss: &&Loss| loss.kind != LossKind::Ignored;
    for loss in read.imported.losses.iter().filter(is_news) {
        session.note(&describe_loss(loss));
    }
    Ok(read)
}

/// Reads a directory into the store without notes about losses. Leaves out ignored
/// files, unless a tree of `tracked` has them.
pub(crate) fn read_silently(
    session: &Session,
    repository: &Repository,
    store: &Path,
    directory: &Path,
    tracked: Vec<Tree>,
) -> anyhow::Result<ReadDirectory> {
    let options = import_options(session, tracked);
    let progress = Progress::new();
    let watch = Watch {
        doing: "reading",
        things: "entries",
        total: None,
        counts: || (progress.entries(), progress.bytes()),
    };
    let cache = stat_caches::cache_of(store, directory);
    let imported = progress::watch(session.hides_progress(), watch, || match &cache {
        Some(cache) => import_with_cache(repository, directory, &options, &progress, cache),
        None => import(repository, directory, &options, &progress),
    });
    let imported = imported.with_context(|| format!("cannot read {}", directory.display()))?;
    Ok(ReadDirectory { imported, cache })
}
