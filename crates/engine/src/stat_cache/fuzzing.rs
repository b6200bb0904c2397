//! Checks of the reader of stat caches on arbitrary bytes. Only tests and
//! fuzzers compile them.

use std::fs;
use std::path::Path;

use elevo_core::Name;
use elevo_objects::{Hash, SnapshotId, Tree};

use super::format::{BEGIN, Item, MAGIC, PageRef, Record, SLOTS, Slot, checksum, take};
use super::read::{Open, StatCache};
use super::write::{NewStatCache, compact};
use super::{CachedStat, Fingerprint, RecordRef};

const READ: SnapshotId = SnapshotId(Hash::from_bytes([7; 32]));
const MOST_DIRECTORIES: usize = 200;

/// Writes arbitrary bytes to the file at `path`, reads them as a stat cache,
/// and continues it. After a first byte of 0, the data is used unchanged; after
/// any other byte, it describes parts that get correct checksums.
///
/// # Panics
///
/// If the cache is read as something it is not, or recorded metadata is not
/// found again.
pub fn read_any_stat_cache(path: &Path, data: &[u8]) {
    let bytes = match data.split_first() {
        None => return,
        Some((0, raw)) => raw.to_vec(),
        Some((_, parts)) => sealed(parts),
    };
    fs::write(path, bytes).expect("there is room for it");
    if let StatCache(Some(open)) = StatCache::open(path) {
        walk(&open);
        copied(&open, &path.with_extension("copy"));
    }
    continued(path);
    fs::remove_file(path).expect("it is there");
}

/// Builds a file from parts. The first byte of a part is its kind:
///
/// - `p`: a page; its length (2 bytes) and its items follow.
/// - `r`: a record of the last pages; its live bytes (8 bytes) and the number
///   of pages (1 byte) follow.
/// - `s`: a slot for the last record; its number (8 bytes) and whether to store
///   the end (1 byte) follow.
/// - `x`: a slot; its encoding without the checksum follows.
fn sealed(mut parts: &[u8]) -> Vec<u8> {
    let mut file = MAGIC.to_vec();
    file.resize(BEGIN as usize, 0);
    let mut pages = Vec::new();
    let mut root = RecordRef {
        offset: BEGIN,
        length: 0,
        live: 0,
    };
    while part(&mut parts, &mut file, &mut pages, &mut root).is_some() {}
    file
}

fn part(
    parts: &mut &[u8],
    file: &mut Vec<u8>,
    pages: &mut Vec<PageRef>,
    root: &mut RecordRef,
) -> Option<()> {
    let offset = file.len() as u64;
    match take(parts)? {
        [b'p'] => {
            let length = usize::from(u16::from_le_bytes(take(parts)?));
            let (items, rest) = parts.split_at_checked(length)?;
            *parts = rest;
            let checksum = checksum(items);
            file.extend(items);
            file.extend(checksum);
            pages.push(PageRef {
                offset,
                length: (length + checksum.len()) as u32,
                checksum,
            });
        }
        [b'r'] => {
            let live = u64::from_le_bytes(take(parts)?);
            let [count] = take(parts)?;
            let first = pages.len().saturating_sub(count.into());
            let record = Record {
                read_as: (Tree::EMPTY, None),
                live,
                pages: pages[first..].to_vec(),
            };
            let bytes = record.encode();
            let length = bytes.len() as u32;
            file.extend(bytes);
            *root = RecordRef {
                offset,
                length,
                live,
            };
        }
        [b's'] => {
            let number = u64::from_le_bytes(take(parts)?);
            let [has_end] = take(parts)?;
            let slot = Slot {
                number,
                end: if has_end == 0 { u64::MAX } else { offset },
                root: *root,
                snapshot: READ,
            };
            put_slot(file, number, &slot.encode());
        }
        [b'x'] => {
            let bytes: [u8; 68] = take(parts)?;
            let sum = checksum(&bytes);
            put_slot(file, bytes[0].into(), &[&bytes[..], &sum].concat());
        }
        _ => return None,
    }
    Some(())
}

fn put_slot(file: &mut [u8], number: u64, slot: &[u8]) {
    let at = SLOTS[(number % 2) as usize] as usize;
    file[at..at + slot.len()].copy_from_slice(slot);
}

/// Reads every directory, up to a limit, and checks that each encodes to the
/// bytes it was read from.
fn walk(open: &Open) {
    assert_eq!(Slot::decode(&open.slot.encode()), Some(open.slot));
    let mut places = vec![open.slot.root];
    for _ in 0..MOST_DIRECTORIES {
        let Some(mut seen) = places.pop().and_then(|place| open.directory(place)) else {
            continue;
        };
        assert_eq!(
            Record::decode(&seen.record.encode()).as_ref(),
            Some(&seen.record)
        );
        let mut names = Vec::new();
        'pages: while let Some(mut items) = seen.next_page() {
            while !items.is_empty() {
                let before = items;
                // Items after an unreadable one are not found.
                let Some(item) = Item::decode(&mut items) else {
                    break 'pages;
                };
                let mut again = Vec::new();
                item.encode(&mut again);
                assert_eq!(again, before[..before.len() - items.len()]);
                names.push(item.name.to_vec());
                places.extend(item.seen.below);
            }
            // A page without items is never written.
            if names.is_empty() {
                break;
            }
        }
        seen.rewind();
        let mut listed = Vec::new();
        if seen.each(|name, _| {
            listed.push(name.to_vec());
            true
        }) {
            assert!(listed.starts_with(&names), "every name is listed");
        }
        if names.is_sorted_by(|one, next| one < next) {
            assert!(names.iter().all(|name| seen.find(name).is_some()));
        }
    }
}

/// Checks that a copy has the same state, if a copy can be made.
fn copied(open: &Open, path: &Path) {
    compact(open, path).expect("there is room for it");
    if let StatCache(Some(copy)) = StatCache::open(path) {
        assert_eq!(copy.slot.snapshot, open.slot.snapshot);
        assert_eq!(copy.slot.number, open.slot.number);
        assert!(
            copy.slot.end <= 2 * open.slot.end,
            "the copy is at most twice as large"
        );
        walk(&copy);
    }
    for path in [path, &NewStatCache::unfinished(path)] {
        // Only one of the two files exists.
        let _ = fs::remove_file(path);
    }
}

/// Checks that a continued cache has the new snapshot and the new metadata.
fn continued(path: &Path) {
    let new = NewStatCache::begin(path).expect("it can be written");
    let old = new.old();
    let before = old.root().and_then(|root| old.directory(root));
    let names = [&b"a"[..], b"b", b"c"].map(|name| Name::copy_from(name).expect("a name"));
    let fingerprint = Fingerprint {
        mode: 0o100_644,
        size: 5,
        modified: (1, 2),
        changed: (3, 4),
        inode: 6,
    };
    let mut writer = new.directory(before.as_ref());
    for (name, below) in names.iter().zip([None, old.root(), None]) {
        let seen = CachedStat {
            fingerprint,
            has_attributes: false,
            below,
        };
        writer.push(name, seen).expect("it can be written");
    }
    let root = writer
        .finish((Tree::EMPTY, None))
        .expect("it can be written");
    new.set_root(root);
    let other = SnapshotId(Hash::from_bytes([9; 32]));
    new.finish(other).expect("it can be written");
    let cache = StatCache::open(path);
    assert_eq!(cache.snapshot(), Some(other));
    let after = cache.root().and_then(|root| cache.directory(root));
    let mut directory = after.expect("the directory was recorded");
    for name in &names {
        let found = directory.find(name).map(|seen| seen.fingerprint);
        assert_eq!(found, Some(fingerprint));
    }
    assert!(directory.is_at_end());
}

#[cfg(test)]
#[allow(unreachable_pub, reason = "shared with the fuzz targets")]
#[path = "../../../../fuzz/src/corpus.rs"]
mod corpus;

#[cfg(test)]
mod tests {
    use super::{corpus, read_any_stat_cache};

    #[test]
    fn every_stat_cache_of_the_corpus_is_read_and_continued() {
        let directory = tempfile::tempdir().expect("there is room for it");
        let path = directory.path().join("stat");
        corpus::replay("engine_stat_cache", |data| {
            read_any_stat_cache(&path, data);
        });
    }
}
