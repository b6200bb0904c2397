use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use elevo_objects::SnapshotId;

use super::format::{self, BEGIN, Item, MAGIC, Record, SLOT, SLOTS, Slot};
use super::{Noted, Seen};
use crate::import::ReadAs;

/// What an earlier scan noted.
#[derive(Clone, Debug, Default)]
pub struct StatCache(pub(super) Option<Open>);

/// A cache with a state that counts.
#[derive(Clone, Debug)]
pub(super) struct Open {
    pub(super) file: Source,
    pub(super) slot: Slot,
    /// Which of the two slots that is.
    pub(super) at: usize,
}

impl StatCache {
    /// The cache in the file at `path`; an empty one if there is none that can
    /// be used.
    pub fn open(path: &Path) -> Self {
        Self(File::open(path).ok().and_then(Open::read))
    }

    /// What the directory was read as. It may be gone from the store, and what
    /// it needs with it: then the cache says nothing.
    pub(crate) fn snapshot(&self) -> Option<SnapshotId> {
        self.0.as_ref().map(|open| open.slot.snapshot)
    }

    /// The directory that was read.
    pub(crate) fn root(&self) -> Option<Noted> {
        self.0.as_ref().map(|open| open.slot.root)
    }

    /// What was seen in a directory.
    pub(crate) fn directory(&self, noted: Noted) -> Option<SeenDirectory> {
        self.0.as_ref()?.directory(noted)
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
        let file = Source::of(file, length);
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
        // The newest may have lost what it leads to, with the power.
        let mut states = states.into_iter();
        states.find(|open| open.record(open.slot.root).is_some())
    }

    pub(super) fn directory(&self, noted: Noted) -> Option<SeenDirectory> {
        Some(SeenDirectory {
            file: self.file.clone(),
            end: self.slot.end,
            noted,
            record: self.record(noted)?,
            next_page: 0,
            page: Vec::new(),
            at: 0,
        })
    }

    fn record(&self, noted: Noted) -> Option<Record> {
        let bytes = self.file.read(self.slot.end, noted.offset, noted.length)?;
        Record::decode(&bytes)
    }
}

/// A cache up to this size is read in one go: that of some hundred thousand
/// files.
const IN_ONE_GO: u64 = 32 << 20;

/// The bytes of a cache.
#[derive(Clone, Debug)]
pub(super) struct Source {
    file: Arc<File>,
    /// All of them, unless there are many.
    bytes: Option<Arc<Vec<u8>>>,
}

impl Source {
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

    /// Some of them. Whoever asks for more than there are would have had them
    /// reserved.
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

/// A directory as it was seen.
#[derive(Debug)]
pub(crate) struct SeenDirectory {
    file: Source,
    end: u64,
    pub(super) noted: Noted,
    pub(super) record: Record,
    next_page: usize,
    page: Vec<u8>,
    at: usize,
}

impl SeenDirectory {
    /// What it was read as.
    pub(crate) const fn read_as(&self) -> ReadAs {
        self.record.read_as
    }

    /// Begins anew.
    pub(crate) fn rewind(&mut self) {
        self.at = 0;
        // The first page may still be there, and most have no other.
        if self.next_page != 1 {
            self.next_page = 0;
            self.page.clear();
        }
    }

    /// Hands on all names with their modes, as long as `take` says so; false if
    /// it did not, or if some are damaged. Begins anew.
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
            // Damaged ones are left out.
            is_whole &= self.next_page == page;
        }
        self.rewind();
        is_whole
    }

    /// What was seen of `name`. Names must be asked for in rising order.
    pub(crate) fn find(&mut self, name: &[u8]) -> Option<Seen> {
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

    /// The same if it is the next name of all.
    pub(crate) fn next(&mut self, name: &[u8]) -> Option<Seen> {
        match self.peek()?.0.name == name {
            true => self.find(name),
            false => None,
        }
    }

    /// Whether there is no name behind those that were asked for.
    pub(crate) fn is_at_end(&mut self) -> bool {
        self.peek().is_none()
    }

    /// The next item, and where the one after it is.
    fn peek(&mut self) -> Option<(Item<'_>, usize)> {
        while self.at >= self.page.len() {
            self.next_page()?;
        }
        let mut rest = &self.page[self.at..];
        let item = Item::decode(&mut rest)?;
        Some((item, self.page.len() - rest.len()))
    }

    /// The items of the next page; those that are damaged are left out.
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
