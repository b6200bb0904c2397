//! What the file system said of every file when a directory was last read, so
//! that the next time only files that changed are read.
//!
//! ```text
//! "elevostat" 2                              magic, version
//! { item … checksum }  …                     a block for each directory, in any order
//! { path hash, offset, length } …            index: the blocks, sorted by hash
//! snapshot                                   what the directory was read as
//! index offset, blocks, checksum of all from the index on
//!
//! item: name length u8, name, mode u32, size u64,
//!       modified i64 u32, changed i64 u32, inode u64                little endian, sorted by name
//! ```
//!
//! A file is trusted to be unchanged if all of it is equal, and if it was last
//! changed before the scan that noted it began, by the clock of the file system
//! itself: whatever is written later then has a later time. A cache is never
//! needed: one that is missing, torn or damaged counts as empty.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use elevo_core::{Name, TreePath};
use elevo_objects::{Hash, SnapshotId};
use rustix::fs::Stat;

use crate::disk;

const MAGIC: &[u8] = b"elevostat\x02";
const CHECKSUM: usize = 16;
const INDEX_ENTRY: usize = 16 + 8 + 4;
/// Snapshot, index offset, blocks, checksum.
const END: usize = 32 + 8 + 8 + CHECKSUM;
/// An index larger than this is not read: some ten million directories.
const LONGEST_INDEX: u64 = 256 << 20;

/// What tells a file from itself after a change. Without the device: that of
/// a snapshot of a file system is another, and a directory that is scanned is
/// all on one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fingerprint {
    mode: u32,
    size: u64,
    modified: (i64, u32),
    changed: (i64, u32),
    inode: u64,
}

impl Fingerprint {
    pub(crate) fn of(stat: &Stat) -> Self {
        Self {
            mode: disk::mode(stat),
            size: stat.st_size as u64,
            modified: (stat.st_mtime, stat.st_mtime_nsec as u32),
            changed: (stat.st_ctime, stat.st_ctime_nsec as u32),
            inode: stat.st_ino,
        }
    }

    fn write(&self, out: &mut Vec<u8>) {
        out.extend(self.mode.to_le_bytes());
        out.extend(self.size.to_le_bytes());
        for (seconds, nanoseconds) in [self.modified, self.changed] {
            out.extend(seconds.to_le_bytes());
            out.extend(nanoseconds.to_le_bytes());
        }
        out.extend(self.inode.to_le_bytes());
    }

    fn read(bytes: &mut &[u8]) -> Option<Self> {
        Some(Self {
            mode: u32::from_le_bytes(take(bytes)?),
            size: u64::from_le_bytes(take(bytes)?),
            modified: time(bytes)?,
            changed: time(bytes)?,
            inode: u64::from_le_bytes(take(bytes)?),
        })
    }
}

fn time(bytes: &mut &[u8]) -> Option<(i64, u32)> {
    let seconds = i64::from_le_bytes(take(bytes)?);
    Some((seconds, u32::from_le_bytes(take(bytes)?)))
}

fn take<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    let (first, rest) = bytes.split_first_chunk::<N>()?;
    *bytes = rest;
    Some(*first)
}

fn checksum(bytes: &[u8]) -> [u8; CHECKSUM] {
    first_half(&elevo_objects::Kind::Chunk.hash(bytes))
}

fn path_hash(path: &TreePath) -> [u8; 16] {
    checksum(path.as_bytes())
}

fn first_half(hash: &Hash) -> [u8; 16] {
    let mut half = [0; 16];
    half.copy_from_slice(&hash.as_bytes()[..16]);
    half
}

/// What an earlier scan noted.
#[derive(Debug, Default)]
pub struct StatCache(Option<Open>);

#[derive(Debug)]
struct Open {
    file: File,
    index: Vec<u8>,
    snapshot: SnapshotId,
}

impl StatCache {
    /// The cache in the file at `path`; an empty one if there is none that can
    /// be used.
    pub fn open(path: &Path) -> Self {
        Self(Open::read(path).ok().flatten())
    }

    /// What the directory was read as. It may be gone from the store, and what
    /// it needs with it: then the cache says nothing.
    pub(crate) fn snapshot(&self) -> Option<SnapshotId> {
        self.0.as_ref().map(|open| open.snapshot)
    }

    /// The files of a directory, to be asked for in rising order.
    pub(crate) fn files(&self, directory: &TreePath) -> SeenFiles {
        let block = self.0.as_ref().and_then(|open| open.block(directory));
        SeenFiles {
            bytes: block.unwrap_or_default(),
            at: 0,
        }
    }
}

impl Open {
    fn read(path: &Path) -> io::Result<Option<Self>> {
        let file = File::open(path)?;
        let length = file.metadata()?.len();
        let Some(end_at) = length.checked_sub(END as u64) else {
            return Ok(None);
        };
        let mut magic = [0; MAGIC.len()];
        file.read_exact_at(&mut magic, 0)?;
        let mut end = [0; END];
        file.read_exact_at(&mut end, end_at)?;
        let place = &end[END - CHECKSUM - 16..];
        let (offset, blocks) = (number(&place[..8]), number(&place[8..16]));
        let index_bytes = blocks.saturating_mul(INDEX_ENTRY as u64);
        if magic != MAGIC
            || index_bytes > LONGEST_INDEX
            || offset.checked_add(index_bytes) != Some(end_at)
        {
            return Ok(None);
        }
        let mut index = vec![0; index_bytes as usize];
        file.read_exact_at(&mut index, offset)?;
        index.extend_from_slice(&end[..END - CHECKSUM]);
        if checksum(&index) != end[END - CHECKSUM..] {
            return Ok(None);
        }
        index.truncate(index_bytes as usize);
        let mut snapshot = [0; 32];
        snapshot.copy_from_slice(&end[..32]);
        Ok(Some(Self {
            file,
            index,
            snapshot: SnapshotId(Hash::from_bytes(snapshot)),
        }))
    }

    fn block(&self, directory: &TreePath) -> Option<Vec<u8>> {
        let wanted = path_hash(directory);
        let (entries, _) = self.index.as_chunks::<INDEX_ENTRY>();
        let at = entries
            .binary_search_by(|entry| entry[..16].cmp(&wanted))
            .ok()?;
        let (offset, length) = (number(&entries[at][16..24]), number(&entries[at][24..28]));
        let mut block = vec![0; length as usize];
        self.file.read_exact_at(&mut block, offset).ok()?;
        let items = block.len().checked_sub(CHECKSUM)?;
        (checksum(&block[..items]) == block[items..]).then(|| {
            block.truncate(items);
            block
        })
    }
}

fn number(bytes: &[u8]) -> u64 {
    let mut whole = [0; 8];
    whole[..bytes.len()].copy_from_slice(bytes);
    u64::from_le_bytes(whole)
}

/// The files of one directory as they were seen.
#[derive(Debug, Default)]
pub(crate) struct SeenFiles {
    bytes: Vec<u8>,
    at: usize,
}

impl SeenFiles {
    /// What was seen of `name`. Names must be asked for in rising order.
    pub(crate) fn find(&mut self, name: &Name) -> Option<Fingerprint> {
        loop {
            let rest = &self.bytes[self.at..];
            let (length, rest) = rest.split_first()?;
            let (seen, mut rest) = rest.split_at_checked(usize::from(*length))?;
            if seen > name.as_bytes() {
                return None;
            }
            let is_it = seen == name.as_bytes();
            let fingerprint = Fingerprint::read(&mut rest)?;
            self.at = self.bytes.len() - rest.len();
            if is_it {
                return Some(fingerprint);
            }
        }
    }
}

/// A cache that is being written by the scan under way.
#[derive(Debug)]
pub struct NewStatCache {
    path: PathBuf,
    /// The clock of the file system when the scan began.
    began: (i64, u32),
    out: Mutex<Out>,
}

#[derive(Debug)]
struct Out {
    file: BufWriter<File>,
    at: u64,
    index: Vec<[u8; INDEX_ENTRY]>,
}

impl NewStatCache {
    /// Begins a cache that will replace the one at `path`, which must be on
    /// the file system of the directory that is scanned. To be called before
    /// anything of that directory is read.
    pub fn begin(path: &Path) -> io::Result<Self> {
        let mut file = File::create(Self::unfinished(path))?;
        file.write_all(MAGIC)?;
        let stat = file.metadata()?;
        Ok(Self {
            path: path.into(),
            began: (stat.ctime(), stat.ctime_nsec() as u32),
            out: Mutex::new(Out {
                file: BufWriter::new(file),
                at: MAGIC.len() as u64,
                index: Vec::new(),
            }),
        })
    }

    /// Where the cache at `path` is until it is finished; it stays there if it
    /// never is.
    pub fn unfinished(path: &Path) -> PathBuf {
        path.with_extension("new")
    }

    /// Notes the files of a directory.
    pub(crate) fn add(&self, directory: &TreePath, files: FilesToSee) -> io::Result<()> {
        let FilesToSee { mut block, .. } = files;
        if block.is_empty() {
            return Ok(());
        }
        block.extend(checksum(&block));
        // A directory with more files than that is read anew each time.
        let Ok(length) = u32::try_from(block.len()) else {
            return Ok(());
        };
        let mut out = self.out.lock().unwrap_or_else(PoisonError::into_inner);
        let mut entry = [0; INDEX_ENTRY];
        entry[..16].copy_from_slice(&path_hash(directory));
        entry[16..24].copy_from_slice(&out.at.to_le_bytes());
        entry[24..].copy_from_slice(&length.to_le_bytes());
        out.index.push(entry);
        out.at += u64::from(length);
        out.file.write_all(&block)
    }

    /// A directory with no files noted yet.
    pub(crate) fn files(&self) -> FilesToSee {
        FilesToSee {
            began: self.began,
            block: Vec::new(),
        }
    }

    /// Puts the cache into its place, for a directory that was read as
    /// `snapshot`, which must be stored by now.
    pub fn finish(self, snapshot: SnapshotId) -> io::Result<()> {
        let out = self.out.into_inner();
        let Out {
            mut file,
            at,
            mut index,
        } = out.unwrap_or_else(PoisonError::into_inner);
        index.sort_unstable();
        let mut end = index.concat();
        end.extend(snapshot.0.as_bytes());
        end.extend(at.to_le_bytes());
        end.extend((index.len() as u64).to_le_bytes());
        end.extend(checksum(&end));
        file.write_all(&end)?;
        file.into_inner().map_err(io::IntoInnerError::into_error)?;
        fs::rename(Self::unfinished(&self.path), &self.path)
    }
}

/// The files of one directory, on their way into a cache.
pub(crate) struct FilesToSee {
    began: (i64, u32),
    block: Vec<u8>,
}

impl FilesToSee {
    /// Notes a file as it was before it was read. Names come in rising order.
    pub(crate) fn push(&mut self, name: &Name, fingerprint: &Fingerprint) {
        // Otherwise it may be changed again without a trace.
        if fingerprint.changed < self.began && fingerprint.modified < self.began {
            self.block.push(name.len() as u8);
            self.block.extend_from_slice(name);
            fingerprint.write(&mut self.block);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const READ: SnapshotId = SnapshotId(Hash::from_bytes([7; 32]));

    fn fingerprint(n: u64) -> Fingerprint {
        Fingerprint {
            mode: 0o100_644,
            size: n,
            modified: (n as i64, 1),
            changed: (n as i64, 2),
            inode: n,
        }
    }

    fn name(n: u64) -> Name {
        Name::copy_from(format!("{n:04}").as_bytes()).unwrap()
    }

    fn written(path: &Path) {
        let new = NewStatCache::begin(path).unwrap();
        for directory in ["", "a", "b"] {
            let directory = TreePath::new(directory).unwrap();
            let mut files = new.files();
            (0..100).for_each(|n| files.push(&name(n), &fingerprint(n)));
            new.add(&directory, files).unwrap();
        }
        new.finish(READ).unwrap();
    }

    #[test]
    fn what_was_noted_is_found_again() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("stat");
        written(&path);
        let cache = StatCache::open(&path);
        assert_eq!(cache.snapshot(), Some(READ));
        let mut files = cache.files(&TreePath::new("a").unwrap());
        for n in [3, 4, 50, 99] {
            assert_eq!(files.find(&name(n)), Some(fingerprint(n)));
        }
        assert_eq!(files.find(&name(100)), None);
        let mut none = cache.files(&TreePath::new("c").unwrap());
        assert_eq!(none.find(&name(1)), None);
    }

    #[test]
    fn a_file_changed_since_the_scan_began_is_not_noted() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("stat");
        let new = NewStatCache::begin(&path).unwrap();
        let late = Fingerprint {
            changed: new.began,
            ..fingerprint(1)
        };
        let mut files = new.files();
        files.push(&name(1), &late);
        files.push(&name(2), &fingerprint(2));
        new.add(&TreePath::root(), files).unwrap();
        new.finish(READ).unwrap();
        let mut files = StatCache::open(&path).files(&TreePath::root());
        assert_eq!(files.find(&name(1)), None);
        assert_eq!(files.find(&name(2)), Some(fingerprint(2)));
    }

    #[test]
    fn a_damaged_cache_is_an_empty_one_or_lacks_a_directory() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("stat");
        written(&path);
        let good = fs::read(&path).unwrap();
        for at in (0..good.len()).step_by(13) {
            let mut bad = good.clone();
            bad[at] ^= 0x10;
            fs::write(&path, bad).unwrap();
            let cache = StatCache::open(&path);
            let mut files = cache.files(&TreePath::new("a").unwrap());
            let found = files.find(&name(50));
            assert!(found.is_none_or(|found| found == fingerprint(50)), "{at}");
            assert!(cache.snapshot().is_none_or(|read| read == READ));
        }
        for length in (0..good.len()).step_by(17) {
            fs::write(&path, &good[..length]).unwrap();
            assert_eq!(StatCache::open(&path).snapshot(), None);
        }
    }
}
