//! How the files of the directories were that were read into a store: beside
//! it, so that the next time only what has changed is read.

use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use elevo_engine::NewStatCache;
use elevo_objects::Kind;

const DIRECTORY: &str = "stat";
/// How many directories are remembered.
const KEPT: usize = 64;

/// The cache of a directory; `None` where there can be none.
pub(super) fn cache_of(store: &Path, directory: &Path) -> Option<NewStatCache> {
    open(store, directory).ok().flatten()
}

fn open(store: &Path, directory: &Path) -> io::Result<Option<NewStatCache>> {
    // The times of files are those of their own file system.
    if fs::metadata(store)?.dev() != fs::metadata(directory)?.dev() {
        return Ok(None);
    }
    let caches = store.join(DIRECTORY);
    fs::create_dir_all(&caches)?;
    let path = fs::canonicalize(directory)?;
    let name = Kind::Chunk.hash(path.as_os_str().as_bytes()).to_string();
    let cache = caches.join(name);
    if !cache.exists() {
        make_room(&caches)?;
    }
    NewStatCache::begin(&cache).map(Some)
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
