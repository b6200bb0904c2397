//! Directories that were read before.

use std::path::Path;

use elevo_objects::{Snapshot, Tree};

use super::{Before, ImportOptions, Imported, Job};
use crate::error::Result;
use crate::progress::Progress;
use crate::repository::Repository;
use crate::stat_cache::{NewStatCache, StatCache};

/// As [`import`](crate::import()): files that are as `cache` has them are not
/// read again. Notes there how they are now.
pub fn import_again(
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

/// Finds out what such a directory is now, without storing anything: its tree,
/// and a repository in which that tree's directories can be read as if they
/// were stored. File content cannot.
pub fn look_again(
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

/// Notes in `new` how the files of a directory are that holds `snapshot`
/// because it was just checked out there. Returns whether it really does, as
/// far as names, sizes and times can tell.
pub fn note_checkout(
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
    let before = Before {
        read_as: Some((snapshot.tree, snapshot.times)),
        ..Before::default()
    };
    let (read, _) = job.into_memory(|importer| importer.run(before))?;
    Ok(read.tree == snapshot.tree)
}
