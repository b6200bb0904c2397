//! Encoding of a cache.

use elevo_core::Name;
use elevo_objects::{Hash, Kind, SnapshotId, Tree};

use super::{CachedStat, Fingerprint, RecordRef};
use crate::import::TreeWithTimes;

pub(super) const MAGIC: &[u8; 10] = b"elevostat\x03";
pub(super) const CHECKSUM: usize = 16;
/// Offsets of the two slots.
pub(super) const SLOTS: [u64; 2] = [64, 192];
/// Offset of the first page or record.
pub(super) const BEGIN: u64 = 4096;
pub(super) const SLOT: usize = 8 + 8 + RECORD_REF + 32 + CHECKSUM;
const RECORD_REF: usize = 8 + 4 + 8;
pub(super) const PAGE_REF: usize = 8 + 4 + CHECKSUM;

/// A page ends when it has reached this size.
pub(super) const PAGE_BYTES: usize = 32 << 10;
/// On average, one in this many names ends a page.
const PAGE_NAMES: u64 = 128;

pub(super) type Checksum = [u8; CHECKSUM];

pub(super) fn checksum(bytes: &[u8]) -> Checksum {
    let hash = Kind::Chunk.hash(bytes);
    let mut half = [0; CHECKSUM];
    half.copy_from_slice(&hash.as_bytes()[..CHECKSUM]);
    half
}

/// Returns the bytes before a checksum, if it matches them.
pub(super) fn checked(bytes: &[u8]) -> Option<(&[u8], Checksum)> {
    let (bytes, sum) = bytes.split_last_chunk::<CHECKSUM>()?;
    (checksum(bytes) == *sum).then_some((bytes, *sum))
}

pub(super) fn take<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    let (first, rest) = bytes.split_first_chunk::<N>()?;
    *bytes = rest;
    Some(*first)
}

fn number(bytes: &mut &[u8]) -> Option<u64> {
    take(bytes).map(u64::from_le_bytes)
}

/// A state of the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slot {
    pub(super) number: u64,
    /// Nothing after this offset counts.
    pub(super) end: u64,
    pub(super) root: RecordRef,
    pub(super) snapshot: SnapshotId,
}

impl Slot {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(SLOT);
        out.extend(self.number.to_le_bytes());
        out.extend(self.end.to_le_bytes());
        self.root.encode(&mut out);
        out.extend(self.snapshot.0.as_bytes());
        out.extend(checksum(&out));
        out
    }

    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let (mut bytes, _) = checked(bytes)?;
        let bytes = &mut bytes;
        Some(Self {
            number: number(bytes)?,
            end: number(bytes)?,
            root: RecordRef::decode(bytes)?,
            snapshot: SnapshotId(Hash::from_bytes(take(bytes)?)),
        })
    }
}

impl RecordRef {
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        out.extend(self.offset.to_le_bytes());
        out.extend(self.length.to_le_bytes());
        out.extend(self.live.to_le_bytes());
    }

    fn decode(bytes: &mut &[u8]) -> Option<Self> {
        Some(Self {
            offset: number(bytes)?,
            length: take(bytes).map(u32::from_le_bytes)?,
            live: number(bytes)?,
        })
    }
}

/// Reference to a page in a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PageRef {
    pub(super) offset: u64,
    pub(super) length: u32,
    pub(super) checksum: Checksum,
}

/// A directory: the tree it was read as, and the pages with its names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) read_as: TreeWithTimes,
    /// Bytes of everything it leads to.
    pub(super) live: u64,
    pub(super) pages: Vec<PageRef>,
}

impl Record {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(128 + self.pages.len() * PAGE_REF);
        let (tree, times) = self.read_as;
        encode_hash(tree.root, &mut out);
        out.extend(tree.count.to_le_bytes());
        out.extend(tree.bytes.to_le_bytes());
        encode_hash(times, &mut out);
        out.extend(self.live.to_le_bytes());
        for page in &self.pages {
            out.extend(page.offset.to_le_bytes());
            out.extend(page.length.to_le_bytes());
            out.extend(page.checksum);
        }
        out.extend(checksum(&out));
        out
    }

    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let (mut bytes, _) = checked(bytes)?;
        let bytes = &mut bytes;
        let tree = Tree {
            root: decode_hash(bytes)?,
            count: number(bytes)?,
            bytes: number(bytes)?,
        };
        let times = decode_hash(bytes)?;
        let live = number(bytes)?;
        let mut pages = Vec::with_capacity(bytes.len() / PAGE_REF);
        while !bytes.is_empty() {
            pages.push(PageRef {
                offset: number(bytes)?,
                length: take(bytes).map(u32::from_le_bytes)?,
                checksum: take(bytes)?,
            });
        }
        Some(Self {
            read_as: (tree, times),
            live,
            pages,
        })
    }
}

fn encode_hash(hash: Option<Hash>, out: &mut Vec<u8>) {
    out.push(u8::from(hash.is_some()));
    if let Some(hash) = hash {
        out.extend(hash.as_bytes());
    }
}

#[allow(clippy::option_option, reason = "a hash that is not there can be read")]
fn decode_hash(bytes: &mut &[u8]) -> Option<Option<Hash>> {
    match take(bytes)? {
        [0] => Some(None),
        [1] => Some(Some(Hash::from_bytes(take(bytes)?))),
        _ => None,
    }
}

/// An entry of a page: a name and the metadata of its file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Item<'a> {
    pub(super) name: &'a [u8],
    pub(super) seen: CachedStat,
}

impl<'a> Item<'a> {
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        let Fingerprint {
            mode,
            size,
            modified,
            changed,
            inode,
        } = self.seen.fingerprint;
        out.push(self.name.len() as u8);
        out.extend_from_slice(self.name);
        out.extend(mode.to_le_bytes());
        out.extend(size.to_le_bytes());
        for (seconds, nanoseconds) in [modified, changed] {
            out.extend(seconds.to_le_bytes());
            out.extend(nanoseconds.to_le_bytes());
        }
        out.extend(inode.to_le_bytes());
        let has_attributes = u8::from(self.seen.has_attributes);
        out.push(u8::from(self.seen.below.is_some()) | has_attributes << 1);
        if let Some(below) = self.seen.below {
            below.encode(out);
        }
    }

    pub(super) fn decode(bytes: &mut &'a [u8]) -> Option<Self> {
        let [length] = take(bytes)?;
        let (name, rest) = bytes.split_at_checked(length.into())?;
        *bytes = rest;
        let fingerprint = Fingerprint {
            mode: take(bytes).map(u32::from_le_bytes)?,
            size: number(bytes)?,
            modified: time(bytes)?,
            changed: time(bytes)?,
            inode: number(bytes)?,
        };
        let [flags] = take(bytes)?;
        if flags > 3 {
            return None;
        }
        let is_directory = flags & 1 == 1;
        let seen = CachedStat {
            fingerprint,
            has_attributes: flags & 2 == 2,
            below: if is_directory {
                Some(RecordRef::decode(bytes)?)
            } else {
                None
            },
        };
        Some(Self { name, seen })
    }

    /// Whether a page ends after this name.
    pub(super) fn ends_page(name: &Name) -> bool {
        let hash = name.iter().fold(0_u64, |hash, byte| {
            let mixed = (hash ^ u64::from(*byte)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            mixed ^ (mixed >> 32)
        });
        hash.is_multiple_of(PAGE_NAMES)
    }
}

fn time(bytes: &mut &[u8]) -> Option<(i64, u32)> {
    let seconds = take(bytes).map(i64::from_le_bytes)?;
    Some((seconds, take(bytes).map(u32::from_le_bytes)?))
}
