//! Metadata of the files of directories that were read into a store. It is kept in
//! the store's directory, so that the next read only reads changed files.

use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::{fs, io};

use elevo_engine::{NewStatCache, StatCache};
use elevo_objects::Kind;

const DIRECTORY: &str = "stat";

/// Maximum number of directories whose metadata is kept.
const KEPT: usize = 64;

/// Opens the cache of a directory for writing; `None` if that is not possible.
pub(crate) fn cache_of(store: &Path, directory: &Path) -> Option<NewStatCache> {
    open(store, directory).ok().flatten()
}

/// Opens the cache of a directory for reading; empty if there is none.
pub(crate) fn known(store: &Path, directory: &Path) -> StatCache {
    let path = path_of(store, directory).ok().flatten();
    StatCache::open(&path.unwrap_or_default())
}

fn open(store: &Path, directory: &Path) -> io::Result<Option<NewStatCache>> {
    let Some(cache) = path_of(store, directory)? else {
        return Ok(None);
    };
    let caches = store.join(DIRECTORY);
    fs::create_dir_all(&caches)?;
    if !cache.exists() {
        make_room(&caches)?;
    }
    NewStatCache::begin(&cache).map(Some)
}

/// The path of a directory's cache; `None` if it cannot have one.
fn path_of(store: &Path, directory: &Path) -> io::Result<Option<PathBuf>> {
    // Timestamps can be compared only within one file system.
    if fs::metadata(store)?.dev() != fs::metadata(directory)?.dev() {
        return Ok(None);
    }
    let path = fs::canonicalize(directory)?;
    let name = Kind::Chunk.hash(path.as_os_str().as_bytes()).to_string();
    Ok(Some(store.join(DIRECTORY).join(name)))
}

/// Deletes the caches of the directories that were read longest ago.
fn make_room(caches: &Path) -> io::Result<()> {
    let mut found = Vec::new();
    for entry in fs::read_dir(caches)? {
        let entry = entry?;
        found.push((entry.metadata()?.modified()?, entry.path()));
    }
    found.sort();
    let spare = (found.len() + 1).saturating_sub(KEPT);
    found[..spare]
        .iter()
        .try_for_each(|(_, path)| fs::remove_file(path))
}
