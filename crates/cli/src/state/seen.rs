//! How the files of the directories were that were read into a store: beside
//! it, so that the next time only what has changed is read.

use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use elevo_engine::{NewStatCache, StatCache};
use elevo_objects::Kind;

const DIRECTORY: &str = "stat";
/// How many directories are remembered.
const KEPT: usize = 64;

/// The cache of a directory; `None` where there can be none.
pub(super) fn cache_of(store: &Path, directory: &Path) -> Option<NewStatCache> {
    open(store, directory).ok().flatten()
}

/// The same to read only; one that knows nothing where there is none.
pub(super) fn known(store: &Path, directory: &Path) -> StatCache {
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

/// Where the cache of a directory is, or would be.
fn path_of(store: &Path, directory: &Path) -> io::Result<Option<PathBuf>> {
    // The times of files are those of their own file system.
    if fs::metadata(store)?.dev() != fs::metadata(directory)?.dev() {
        return Ok(None);
    }
    let path = fs::canonicalize(directory)?;
    let name = Kind::Chunk.hash(path.as_os_str().as_bytes()).to_string();
    Ok(Some(store.join(DIRECTORY).join(name)))
}

/// Forgets the directories that were read longest ago.
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
