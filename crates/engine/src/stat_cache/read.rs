//! Reads a cache.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use elevo_objects::SnapshotId;

use super::format::{self, BEGIN, Item, MAGIC, Record, SLOT, SLOTS, Slot};
use super::{CachedStat, RecordRef};
use crate::import::TreeWithTimes;

/// Metadata that an earlier scan recorded.
#[derive(Clone, Debug, Default)]
pub struct StatCache(pub(super) Option<Open>);

/// A cache with a valid state.
#[derive(Clone, Debug)]
pub(super) struct Open {
    pub(super) file: CacheFile,
    pub(super) slot: Slot,
    /// Index of the slot in `SLOTS`.
    pub(super) at: usize,
}

impl StatCache {
    /// Opens the cache in the file at `path`; returns an empty one if there is
    /// no usable cache.
    pub fn open(path: &Path) -> Self {
        Self(File::open(path).ok().and_then(Open::read))
    }

    /// The snapshot that the directory was read as. It may have been collected;
    /// then the cache is useless.
    pub(crate) fn snapshot(&self) -> Option<SnapshotId> {
        self.0.as_ref().map(|open| open.slot.snapshot)
    }

    /// The record of the directory that was read.
    pub(crate) fn root(&self) -> Option<RecordRef> {
        self.0.as_ref().map(|open| open.slot.root)
    }

    /// Returns the recorded metadata of a directory's entries.
    pub(crate) fn directory(&self, position: RecordRef) -> Option<CachedDirectory> {
        self.0.as_ref()?.directory(position)
    }
}

impl Open {
    pub(super) fn read(file: File) -> Option<Self> {
        let mut magic = [0; MAGIC.len()];
        file.read_exact_at(&mut magic, 0).ok()?;
        if magic != *MAGIC {
            return None;
        }
        let length = file.metadata().ok()?.len();
        let file = CacheFile::of(file, length);
        let mut states: Vec<_> = (0..SLOTS.len())
            .filter_map(|at| {
                let mut bytes = [0; SLOT];
                file.file.read_exact_at(&mut bytes, SLOTS[at]).ok()?;
                let (file, mut slot) = (file.clone(), Slot::decode(&bytes)?);
                slot.end = slot.end.min(length);
                (slot.end >= BEGIN).then_some(Self { file, slot, at })
            })
            .collect();
        states.sort_by_key(|open| std::cmp::Reverse(open.slot.number));
        // After a power loss, the newest state may refer to data that is
        // missing.
        let mut states = states.into_iter();
        states.find(|open| open.record(open.slot.root).is_some())
    }

    pub(super) fn directory(&self, position: RecordRef) -> Option<CachedDirectory> {
        Some(CachedDirectory {
            file: self.file.clone(),
            end: self.slot.end,
            position,
            record: self.record(position)?,
            next_page: 0,
            page: Vec::new(),
            at: 0,
        })
    }

    fn record(&self, position: RecordRef) -> Option<Record> {
        let bytes = self
            .file
            .read(self.slot.end, position.offset, position.length)?;
        Record::decode(&bytes)
    }
}

/// Maximum size of a cache that is read at once: that of some hundred thousand
/// files.
const IN_ONE_GO: u64 = 32 << 20;

/// The bytes of a cache.
#[derive(Clone, Debug)]
pub(super) struct CacheFile {
    file: Arc<File>,
    /// All of them, unless the file is large.
    bytes: Option<Arc<Vec<u8>>>,
}

impl CacheFile {
    pub(super) fn of(file: File, length: u64) -> Self {
        let all = || {
            let mut bytes = vec![0; length as usize];
            file.read_exact_at(&mut bytes, 0).ok()?;
            Some(Arc::new(bytes))
        };
        let bytes = (length <= IN_ONE_GO).then(all).flatten();
        let file = Arc::new(file);
        Self { file, bytes }
    }

    /// Returns a range of the bytes. Rejects a range beyond the end first, so
    /// that damaged lengths do not reserve memory.
    fn read(&self, end: u64, offset: u64, length: u32) -> Option<Vec<u8>> {
        let after = offset.checked_add(length.into())?;
        if after > end {
            return None;
        }
        if let Some(bytes) = &self.bytes {
            let some = bytes.get(offset as usize..after as usize)?;
            return Some(some.to_vec());
        }
        let mut bytes = vec![0; length as usize];
        self.file.read_exact_at(&mut bytes, offset).ok()?;
        Some(bytes)
    }
}

/// Recorded metadata of a directory.
#[derive(Debug)]
pub(crate) struct CachedDirectory {
    file: CacheFile,
    end: u64,
    pub(super) position: RecordRef,
    pub(super) record: Record,
    next_page: usize,
    page: Vec<u8>,
    at: usize,
}

impl CachedDirectory {
    /// The tree that the directory was read as.
    pub(crate) const fn read_as(&self) -> TreeWithTimes {
        self.record.read_as
    }

    /// Goes back to the first name.
    pub(crate) fn rewind(&mut self) {
        self.at = 0;
        // The first page may still be loaded, and most directories have no
        // other.
        if self.next_page != 1 {
            self.next_page = 0;
            self.page.clear();
        }
    }

    /// Passes all names with their modes to `take`, until it returns false.
    /// Returns whether `take` returned true for every name and none was
    /// damaged. Goes back to the first name.
    pub(crate) fn each(&mut self, mut take: impl FnMut(&[u8], u32) -> bool) -> bool {
        self.next_page = 0;
        let mut is_whole = true;
        for page in 1..=self.record.pages.len() {
            let Some(mut rest) = self.next_page() else {
                is_whole = false;
                break;
            };
            while !rest.is_empty() && is_whole {
                let item = Item::decode(&mut rest);
                is_whole = item.is_some_and(|item| take(item.name, item.seen.fingerprint.mode));
            }
            // False if `next_page` has skipped damaged pages.
            is_whole &= self.next_page == page;
        }
        self.rewind();
        is_whole
    }

    /// Returns the recorded metadata of `name`. Names must be given in
    /// ascending order.
    pub(crate) fn find(&mut self, name: &[u8]) -> Option<CachedStat> {
        loop {
            let (item, next) = self.peek()?;
            if item.name > name {
                return None;
            }
            let found = (item.name == name).then_some(item.seen);
            self.at = next;
            if found.is_some() {
                return found;
            }
        }
    }

    /// Returns the recorded metadata of `name` if it is the next name.
    pub(crate) fn next(&mut self, name: &[u8]) -> Option<CachedStat> {
        if self.peek()?.0.name == name {
            self.find(name)
        } else {
            None
        }
    }

    /// Whether all names were read.
    pub(crate) fn is_at_end(&mut self) -> bool {
        self.peek().is_none()
    }

    /// Returns the next item, and the offset of the one after it.
    fn peek(&mut self) -> Option<(Item<'_>, usize)> {
        while self.at >= self.page.len() {
            self.next_page()?;
        }
        let mut rest = &self.page[self.at..];
        let item = Item::decode(&mut rest)?;
        Some((item, self.page.len() - rest.len()))
    }

    /// Returns the items of the next page; damaged pages are skipped.
    pub(super) fn next_page(&mut self) -> Option<&[u8]> {
        loop {
            let page = self.record.pages.get(self.next_page)?;
            self.next_page += 1;
            let bytes = self.file.read(self.end, page.offset, page.length);
            if let Some(mut bytes) = bytes
                && let Some((items, sum)) = format::checked(&bytes)
                && sum == page.checksum
            {
                let items = items.len();
                bytes.truncate(items);
                (self.page, self.at) = (bytes, 0);
                return Some(&self.page);
            }
        }
    }
}
