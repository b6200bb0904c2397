//! Reads a directory into the store, for `import` and `commit`.

use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use elevo_engine::{
    CommitInfo, Ignoring, ImportOptions, Imported, Loss, LossKind, NewStatCache, Progress,
    Repository, import, import_with_cache,
};
use elevo_merge::IgnoreFiles;
use elevo_objects::{Snapshot, SnapshotId};

use crate::errors::StoreProblem;
use crate::local::layout::RESERVED;
use crate::local::session::Session;
use crate::local::stat_caches;
use crate::local::wait::{left_out, wait};
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
    let options = ImportOptions {
        threads: session.threads(),
        leave_out: left_out(),
        ignoring: Some(Ignoring {
            rules: Arc::new(IgnoreFiles::default()),
            tracked: parent.map(|parent| parent.tree).into_iter().collect(),
        }),
    };
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
    // Like git, a commit does not report ignored files.
    let is_news = |loss: &&Loss| loss.kind != LossKind::Ignored;
    for loss in imported.losses.iter().filter(is_news) {
        session.note(&describe_loss(loss));
    }
    Ok(ReadDirectory { imported, cache })
}
