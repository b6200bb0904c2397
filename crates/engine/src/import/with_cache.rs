//! Imports of directories that were read before.

use std::path::Path;

use elevo_objects::{Snapshot, Tree};

use super::{ImportOptions, Imported, Job, LastRead};
use crate::error::Result;
use crate::progress::Progress;
use crate::repository::Repository;
use crate::stat_cache::{NewStatCache, StatCache};

/// Like [`import`](crate::import()), but files that are unchanged since the
/// scan recorded in `cache` are not read again. Records the new state in
/// `cache`.
pub fn import_with_cache(
    repository: &Repository,
    directory: &Path,
    options: &ImportOptions,
    progress: &Progress,
    cache: &NewStatCache,
) -> Result<Imported> {
    let old = cache.old();
    let job = Job {
        cache: Some(&old),
        new_cache: Some(cache),
        ..Job::new(repository, directory, options, progress)
    };
    job.into_store(|importer| importer.run_again())
}

/// Returns the current tree of a directory that was read before without storing
/// anything, and a repository in which the tree's directories can be read as if they were
/// stored. File content cannot be read.
pub fn scan_with_cache(
    repository: &Repository,
    directory: &Path,
    options: &ImportOptions,
    progress: &Progress,
    cache: &StatCache,
) -> Result<(Tree, Repository)> {
    let job = Job {
        cache: Some(cache),
        ..Job::new(repository, directory, options, progress)
    };
    job.into_view(|importer| importer.run_again())
}

/// Records in `new` the files of a directory into which `snapshot` was just
/// checked out. Returns whether the directory matches the snapshot and its times,
/// judging by names, sizes and times; if it does not, `new` must not be used.
pub fn record_checkout(
    repository: &Repository,
    directory: &Path,
    options: &ImportOptions,
    progress: &Progress,
    snapshot: &Snapshot,
    new: &NewStatCache,
) -> Result<bool> {
    let job = Job {
        new_cache: Some(new),
        ..Job::new(repository, directory, options, progress)
    };
    let before = LastRead {
        read_as: Some((snapshot.tree, snapshot.times)),
        ..LastRead::default()
    };
    let (read, _) = job.into_memory(|importer| importer.run(before))?;
    // The record refers to the times as they were read. If the snapshot has
    // others, or none, no object in the store has the times of the record.
    Ok((read.tree, read.times) == (snapshot.tree, snapshot.times))
}
