//! The marks of a collection: a bit for each object, by its place in its pack.
//! Kept in an S3 file between collections, so that a young one walks only new
//! objects.
//!
//! ```text
//! "ELMK" · version (1) · 0 0 0
//! packs (4), for each: id (8) · bytes (2) · a bit for each place
//! other keys (4), for each: kind (1) · hash (32)
//! XXH3 of everything before (8)
//! ```
//!
//! Numbers are little endian. Packs and keys are in order.

use std::collections::{BTreeMap, BTreeSet};

use elevo_objects::{Hash, Kind, ObjectKey};
use xxhash_rust::xxh3::xxh3_64;

use crate::pack::{MAX_PACK_OBJECTS, code_of_kind, kind_of_code};

const HEADER: &[u8; 8] = b"ELMK\x01\0\0\0";
const SUM: usize = 8;

/// The position of an object in the index of its pack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Position {
    pub(crate) pack: i64,
    pub(crate) place: u16,
}

/// The marks of a tenant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Marks {
    /// Bits of the places of each pack, without zeros at the end.
    packs: BTreeMap<i64, Vec<u8>>,
    /// Snapshots, and keys that are not stored.
    others: BTreeSet<(i8, Hash)>,
}

impl Marks {
    pub(crate) fn has(&self, position: Position) -> bool {
        let (byte, bit) = bit(position.place);
        let bits = self.packs.get(&position.pack);
        bits.and_then(|bits| bits.get(byte))
            .is_some_and(|byte| byte & bit != 0)
    }

    /// Marks an object; returns whether this is its first mark.
    pub(crate) fn add(&mut self, position: Position) -> bool {
        let (byte, bit) = bit(position.place);
        let bits = self.packs.entry(position.pack).or_default();
        if bits.len() <= byte {
            bits.resize(byte + 1, 0);
        }
        let is_first = bits[byte] & bit == 0;
        bits[byte] |= bit;
        is_first
    }

    pub(crate) fn has_key(&self, key: &ObjectKey) -> bool {
        self.others.contains(&(code_of_kind(key.kind), key.hash))
    }

    /// Marks a snapshot, or a key that is not stored.
    pub(crate) fn add_key(&mut self, key: &ObjectKey) -> bool {
        self.others.insert((code_of_kind(key.kind), key.hash))
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = HEADER.to_vec();
        bytes.extend((self.packs.len() as u32).to_le_bytes());
        for (pack, bits) in &self.packs {
            bytes.extend(pack.to_le_bytes());
            bytes.extend((bits.len() as u16).to_le_bytes());
            bytes.extend(bits);
        }
        bytes.extend((self.others.len() as u32).to_le_bytes());
        for (kind, hash) in &self.others {
            bytes.push(*kind as u8);
            bytes.extend(hash.as_bytes());
        }
        bytes.extend(xxh3_64(&bytes).to_le_bytes());
        bytes
    }

    /// Returns `None` for bytes that are not marks, or are damaged.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let (body, sum) = bytes.split_at_checked(bytes.len().checked_sub(SUM)?)?;
        if xxh3_64(body).to_le_bytes() != *sum {
            return None;
        }
        let mut rest = body.strip_prefix(HEADER)?;
        let mut marks = Self::default();
        for _ in 0..take_u32(&mut rest)? {
            let pack = i64::from_le_bytes(take(&mut rest)?);
            let length = usize::from(u16::from_le_bytes(take(&mut rest)?));
            let (bits, after) = rest.split_at_checked(length)?;
            rest = after;
            let is_next = marks
                .packs
                .last_key_value()
                .is_none_or(|(last, _)| *last < pack);
            let is_short =
                length <= MAX_PACK_OBJECTS / 8 && bits.last().is_some_and(|byte| *byte != 0);
            if !is_next || !is_short {
                return None;
            }
            marks.packs.insert(pack, bits.to_vec());
        }
        for _ in 0..take_u32(&mut rest)? {
            let [kind] = take(&mut rest)?;
            let kind = kind as i8;
            if kind_of_code(kind).is_none() && kind != code_of_kind(Kind::Snapshot) {
                return None;
            }
            let key = (kind, Hash::from_bytes(take(&mut rest)?));
            if marks.others.last().is_some_and(|last| *last >= key) {
                return None;
            }
            marks.others.insert(key);
        }
        rest.is_empty().then_some(marks)
    }
}

const fn bit(place: u16) -> (usize, u8) {
    ((place / 8) as usize, 1 << (place % 8))
}

fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (first, after) = rest.split_first_chunk()?;
    *rest = after;
    Some(*first)
}

fn take_u32(rest: &mut &[u8]) -> Option<u32> {
    take(rest).map(u32::from_le_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(pack: i64, place: u16) -> Position {
        Position { pack, place }
    }

    #[test]
    fn a_mark_is_new_once() {
        let mut marks = Marks::default();
        for position in [at(1, 0), at(1, 8191), at(-5, 9), at(1, 8)] {
            assert!(!marks.has(position));
            assert!(marks.add(position));
            assert!(!marks.add(position));
            assert!(marks.has(position));
        }
        assert!(!marks.has(at(1, 7)));
        assert!(!marks.has(at(2, 0)));
        let key = Kind::Snapshot.key(b"one");
        assert!(marks.add_key(&key) && !marks.add_key(&key) && marks.has_key(&key));
        assert!(!marks.has_key(&Kind::Chunk.key(b"one")));
    }

    /// The fixture was made by another program, from `docs/formats.md`.
    #[test]
    fn marks_have_the_bytes_of_the_fixture() {
        let mut marks = Marks::default();
        for position in [at(-3, 0), at((5 << 39) | 7, 8), at((5 << 39) | 7, 15)] {
            marks.add(position);
        }
        for key in [
            Kind::Snapshot.key(b"two"),
            Kind::Directory.key(b"not stored"),
            Kind::Snapshot.key(b"one"),
        ] {
            marks.add_key(&key);
        }
        let fixture = include_bytes!("../fixtures/v1/some.marks");
        assert_eq!(marks.encode(), fixture);
        assert_eq!(Marks::decode(fixture), Some(marks));
    }

    #[test]
    fn marks_read_back() {
        let mut marks = Marks::default();
        assert_eq!(Marks::decode(&marks.encode()), Some(marks.clone()));
        for n in 0..50 {
            marks.add(at(n % 7 - 3, (n * 131 % 8192) as u16));
            marks.add_key(&[Kind::Snapshot, Kind::Times][n as usize % 2].key(&n.to_le_bytes()));
        }
        let bytes = marks.encode();
        assert_eq!(Marks::decode(&bytes), Some(marks));
        for at in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 1;
            assert_eq!(Marks::decode(&changed), None, "byte {at}");
            assert_eq!(Marks::decode(&bytes[..at]), None, "cut at {at}");
        }
    }
}
