//! Writes a cache.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use elevo_core::{MAX_PATH_BYTES, Name};
use elevo_objects::SnapshotId;
use parking_lot::Mutex;
use rustix::fs::{Timespec, Timestamps, UTIME_NOW};

use super::format::{
    BEGIN, Checksum, Item, MAGIC, PAGE_BYTES, PageRef, Record, SLOTS, Slot, checksum,
};
use super::read::{CacheFile, CachedDirectory, Open, StatCache};
use super::{CachedStat, Fingerprint, RecordRef};
use crate::import::TreeWithTimes;

/// Bytes of earlier states that a file may always have before it is compacted.
const SPARE: u64 = 1 << 20;
/// Bytes buffered before they are written to the file.
const BUFFER: usize = 256 << 10;

/// A cache that the running scan is writing.
#[derive(Debug)]
pub struct NewStatCache {
    path: PathBuf,
    /// The state that this one continues.
    old: Option<Open>,
    /// The clock of the file system when the scan began.
    began: (i64, u32),
    out: Mutex<Out>,
}

#[derive(Debug)]
struct Out {
    file: File,
    buffer: Vec<u8>,
    /// Offset at which the buffer is written.
    at: u64,
    root: Option<RecordRef>,
}

impl NewStatCache {
    /// Continues the cache at `path`, which must be on the file system of the
    /// scanned directory; one writer at a time. Call this before anything of
    /// that directory is read. Until the new state is finished, readers of the
    /// cache find the old one.
    pub fn begin(path: &Path) -> io::Result<Self> {
        let (file, old) = match Self::continued(path)? {
            Some((file, old)) => (file, Some(old)),
            None => {
                let file = File::create(path)?;
                file.write_all_at(MAGIC, 0)?;
                (file, None)
            }
        };
        const NOW: Timespec = Timespec {
            tv_sec: 0,
            tv_nsec: UTIME_NOW,
        };
        let now = Timestamps {
            last_access: NOW,
            last_modification: NOW,
        };
        rustix::fs::futimens(&file, &now)?;
        let stat = file.metadata()?;
        let at = old.as_ref().map_or(BEGIN, |old| old.slot.end);
        Ok(Self {
            path: path.into(),
            old,
            began: (stat.ctime(), stat.ctime_nsec() as u32),
            out: Mutex::new(Out {
                file,
                buffer: Vec::new(),
                at,
                root: None,
            }),
        })
    }

    /// Opens the existing cache. If its file has other names, it is copied
    /// first, so that they keep the old state.
    fn continued(path: &Path) -> io::Result<Option<(File, Open)>> {
        let open = || match File::options().read(true).write(true).open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            file => file.map(Some),
        };
        let Some(mut file) = open()? else {
            return Ok(None);
        };
        if file.metadata()?.nlink() > 1 {
            let own = Self::unfinished(path);
            fs::copy(path, &own)?;
            fs::rename(&own, path)?;
            let Some(copy) = open()? else {
                return Ok(None);
            };
            file = copy;
        }
        let old = Open::read(file.try_clone()?);
        // The largest number has no successor.
        let old = old.filter(|old| old.slot.number < u64::MAX);
        Ok(old.map(|old| (file, old)))
    }

    /// The state from before this scan.
    pub fn old(&self) -> StatCache {
        StatCache(self.old.clone())
    }

    /// Path of a copy in progress; an interrupted copy stays there.
    pub fn unfinished(path: &Path) -> PathBuf {
        path.with_extension("new")
    }

    /// Begins a directory with no names yet; `seen` is its earlier state.
    pub(crate) fn directory(&self, seen: Option<&CachedDirectory>) -> DirectoryWriter<'_> {
        let old = seen.map(|seen| (seen.position, seen.record.clone()));
        let pages = old.iter().flat_map(|(_, record)| &record.pages);
        let old_pages = pages.map(|page| (page.checksum, *page)).collect();
        DirectoryWriter {
            cache: self,
            old,
            old_pages,
            page: Vec::new(),
            pages: Vec::new(),
            below: 0,
        }
    }

    /// Sets the record of the directory that was read.
    pub(crate) fn set_root(&self, root: RecordRef) {
        self.out.lock().root = Some(root);
    }

    /// Makes the new state valid, for a directory that was read as `snapshot`,
    /// which must be stored by now.
    pub fn finish(self, snapshot: SnapshotId) -> io::Result<()> {
        let mut out = self.out.into_inner();
        let Some(root) = out.root else { return Ok(()) };
        out.flush()?;
        let (number, at) = match &self.old {
            Some(old) if old.slot.root == root && old.slot.snapshot == snapshot => return Ok(()),
            Some(old) => (old.slot.number + 1, 1 - old.at),
            None => (1, 0),
        };
        let slot = Slot {
            number,
            end: out.at,
            root,
            snapshot,
        };
        out.file.write_all_at(&slot.encode(), SLOTS[at])?;
        let limit = root.live.saturating_mul(2).saturating_add(SPARE);
        if out.at - BEGIN > limit {
            let file = CacheFile::of(out.file, out.at);
            compact(&Open { file, slot, at }, &self.path)?;
        }
        Ok(())
    }
}

impl Out {
    fn add(&mut self, bytes: &[u8]) -> io::Result<u64> {
        if self.buffer.len() + bytes.len() > BUFFER {
            self.flush()?;
        }
        let offset = self.end();
        self.buffer.extend_from_slice(bytes);
        Ok(offset)
    }

    fn end(&self) -> u64 {
        self.at + self.buffer.len() as u64
    }

    fn add_record(&mut self, record: &Record) -> io::Result<RecordRef> {
        let bytes = record.encode();
        Ok(RecordRef {
            offset: self.add(&bytes)?,
            length: u32::try_from(bytes.len()).map_err(io::Error::other)?,
            live: record.live.saturating_add(bytes.len() as u64),
        })
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.write_all_at(&self.buffer, self.at)?;
        self.at += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }
}

/// A directory being written to a cache.
#[derive(Debug)]
pub(crate) struct DirectoryWriter<'a> {
    cache: &'a NewStatCache,
    old: Option<(RecordRef, Record)>,
    old_pages: HashMap<Checksum, PageRef>,
    page: Vec<u8>,
    pages: Vec<PageRef>,
    /// Live bytes of its subdirectories.
    below: u64,
}

impl DirectoryWriter<'_> {
    /// Records a name with its metadata from before the read. Names come in
    /// ascending order.
    pub(crate) fn push(&mut self, name: &Name, mut seen: CachedStat) -> io::Result<()> {
        let began = self.cache.began;
        let Fingerprint {
            changed, modified, ..
        } = seen.fingerprint;
        // A change in the same tick of the clock would leave the times equal.
        if changed >= began || modified >= began {
            seen.fingerprint = seen.fingerprint.unsure();
        }
        Item { name, seen }.encode(&mut self.page);
        let live = seen.below.map_or(0, |below| below.live);
        self.below = self.below.saturating_add(live);
        if Item::ends_page(name) || self.page.len() >= PAGE_BYTES {
            self.end_page()?;
        }
        Ok(())
    }

    fn end_page(&mut self) -> io::Result<()> {
        let checksum = checksum(&self.page);
        let page = match self.old_pages.get(&checksum) {
            Some(page) => *page,
            None => {
                self.page.extend(checksum);
                PageRef {
                    offset: self.cache.out.lock().add(&self.page)?,
                    length: self.page.len() as u32,
                    checksum,
                }
            }
        };
        self.pages.push(page);
        self.page.clear();
        Ok(())
    }

    /// Records the tree that the directory was read as. Returns the position of
    /// the record.
    pub(crate) fn finish(mut self, read_as: TreeWithTimes) -> io::Result<RecordRef> {
        if !self.page.is_empty() {
            self.end_page()?;
        }
        let pages = self.pages.iter().map(|page| u64::from(page.length));
        let record = Record {
            read_as,
            live: self.below.saturating_add(pages.sum()),
            pages: self.pages,
        };
        match self.old {
            Some((place, old)) if old == record => Ok(place),
            _ => self.cache.out.lock().add_record(&record),
        }
    }
}

/// Copies the valid state to a new file, which replaces the old one.
pub(super) fn compact(old: &Open, path: &Path) -> io::Result<()> {
    let unfinished = NewStatCache::unfinished(path);
    let file = File::create(&unfinished)?;
    file.write_all_at(MAGIC, 0)?;
    let mut out = Out {
        file,
        buffer: Vec::new(),
        at: BEGIN,
        root: None,
    };
    let Some(root) = copy(old, old.slot.root, 0, &mut out)? else {
        return fs::remove_file(unfinished);
    };
    out.flush()?;
    let slot = Slot {
        end: out.at,
        root,
        ..old.slot
    };
    out.file.write_all_at(&slot.encode(), SLOTS[old.at])?;
    fs::rename(unfinished, path)
}

/// Copies a directory and everything below it; `None` if it is damaged. This
/// ends even for a malicious cache: the content of a directory was written
/// before it, no path is longer than the limit, and the copy does not exceed
/// the size of the old file.
fn copy(
    old: &Open,
    place: RecordRef,
    depth: usize,
    out: &mut Out,
) -> io::Result<Option<RecordRef>> {
    if depth > MAX_PATH_BYTES || out.end() > old.slot.end {
        return Ok(None);
    }
    let Some(mut seen) = old.directory(place) else {
        return Ok(None);
    };
    let (mut pages, mut page) = (Vec::new(), Vec::new());
    let mut live = 0;
    while let Some(mut items) = seen.next_page() {
        while let Some(item) = Item::decode(&mut items) {
            let below = match item.seen.below {
                Some(below) if below.offset < place.offset => copy(old, below, depth + 1, out)?,
                _ => None,
            };
            live += below.map_or(0, |below| below.live);
            let seen = CachedStat { below, ..item.seen };
            Item { seen, ..item }.encode(&mut page);
        }
        let checksum = checksum(&page);
        page.extend(checksum);
        live += page.len() as u64;
        pages.push(PageRef {
            offset: out.add(&page)?,
            length: page.len() as u32,
            checksum,
        });
        page.clear();
    }
    let read_as = seen.read_as();
    let record = Record {
        read_as,
        live,
        pages,
    };
    out.add_record(&record).map(Some)
}
