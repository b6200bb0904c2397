//! Packs: many objects in one run of bytes, which can be read without a
//! database. `docs/formats.md` draws them.
//!
//! ```text
//! header   "ELPK" · version (1) · contents (1) · key (2): 0, not encrypted
//! objects  as stores keep them, one after the other
//! index    for each object, in the order of hash and kind:
//!          hash (32) · kind (1) · start (4) · size (4)
//! footer   objects (4) · start of the index (4) · XXH3 of the index, the
//!          header and the first 8 bytes of the footer (8) · "KPLE"
//! ```
//!
//! Numbers are little endian, and starts count from the first byte of the
//! header.

use std::ops::Range;

use bytes::Bytes;
use elevo_engine::Object;
use elevo_objects::{Hash, Kind, ObjectKey, StoredEncoder, decode_stored};
use xxhash_rust::xxh3::Xxh3;

/// Maximum size of a pack.
pub(crate) const MAX_PACK_BYTES: usize = 16 << 20;
/// Maximum number of objects in a pack.
pub(crate) const MAX_PACK_OBJECTS: usize = 8192;

const MAGIC: &[u8; 4] = b"ELPK";
const END: &[u8; 4] = b"KPLE";
const VERSION: u8 = 1;
const HEADER: usize = 8;
const ENTRY: usize = 41;
const FOOTER: usize = 20;

/// The objects that a pack may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Contents {
    Nodes,
    Chunks,
    /// Nodes and chunks of one small commit.
    Both,
}

/// Place of an object in a pack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) key: ObjectKey,
    pub(crate) start: u32,
    pub(crate) size: u32,
}

/// The room in a pack, as if no object could be compressed.
#[derive(Debug)]
pub(crate) struct Room {
    bytes: usize,
    objects: usize,
}

impl Default for Room {
    fn default() -> Self {
        Self {
            bytes: MAX_PACK_BYTES - HEADER - FOOTER,
            objects: MAX_PACK_OBJECTS,
        }
    }
}

impl Room {
    /// The bytes that an object takes, with its entry in the index.
    pub(crate) const fn taken_by(object: &Object) -> usize {
        object.data.len() + 1 + ENTRY
    }

    /// Takes the room of an object; false if there is not enough. A pack has at
    /// least one object.
    pub(crate) fn take(&mut self, object: &Object) -> bool {
        let bytes = Self::taken_by(object);
        let fits = self.objects == MAX_PACK_OBJECTS || (self.objects > 0 && bytes <= self.bytes);
        if fits {
            self.bytes = self.bytes.saturating_sub(bytes);
            self.objects -= 1;
        }
        fits
    }
}

/// A finished pack.
#[derive(Clone, Debug)]
pub(crate) struct Pack {
    pub(crate) bytes: Bytes,
    /// In the order of the index.
    pub(crate) entries: Vec<Entry>,
}

/// A pack that is being written. Objects must be different.
#[derive(Debug)]
pub(crate) struct PackBuilder {
    bytes: Vec<u8>,
    entries: Vec<Entry>,
    encoder: StoredEncoder,
}

impl PackBuilder {
    pub(crate) fn new(contents: Contents) -> Self {
        let mut bytes = MAGIC.to_vec();
        bytes.extend([VERSION, code_of_contents(contents), 0, 0]);
        Self {
            bytes,
            entries: Vec::new(),
            encoder: StoredEncoder::default(),
        }
    }

    pub(crate) fn push(&mut self, object: &Object) {
        let start = self.bytes.len() as u32;
        let value = self.encoder.compressed(&object.data);
        self.bytes.extend_from_slice(value);
        self.entries.push(Entry {
            key: object.key,
            start,
            size: value.len() as u32,
        });
    }

    pub(crate) fn finish(self) -> Pack {
        let Self {
            mut bytes,
            mut entries,
            ..
        } = self;
        entries.sort_unstable_by_key(|entry| order(&entry.key));
        let index = bytes.len();
        for Entry { key, start, size } in &entries {
            bytes.extend_from_slice(key.hash.as_bytes());
            bytes.push(code_of_kind(key.kind) as u8);
            bytes.extend(start.to_le_bytes());
            bytes.extend(size.to_le_bytes());
        }
        let (header, places) = (bytes[..HEADER].to_vec(), bytes.len());
        bytes.extend((entries.len() as u32).to_le_bytes());
        bytes.extend((index as u32).to_le_bytes());
        let sum = checksum(&bytes[index..places], &header, &bytes[places..]);
        bytes.extend(sum.to_le_bytes());
        bytes.extend(END);
        debug_assert_eq!(read_index(&bytes).as_ref(), Ok(&entries));
        Pack {
            bytes: bytes.into(),
            entries,
        }
    }
}

fn checksum(index: &[u8], header: &[u8], footer: &[u8]) -> u64 {
    let mut hasher = Xxh3::new();
    hasher.update(index);
    hasher.update(header);
    hasher.update(footer);
    hasher.digest()
}

fn order(key: &ObjectKey) -> (Hash, i8) {
    (key.hash, code_of_kind(key.kind))
}

const fn code_of_contents(contents: Contents) -> u8 {
    match contents {
        Contents::Nodes => b'n',
        Contents::Chunks => b'c',
        Contents::Both => b'b',
    }
}

/// The code of a kind in packs and rows: a letter.
pub(crate) const fn code_of_kind(kind: Kind) -> i8 {
    match kind {
        Kind::Chunk => b'c' as i8,
        Kind::Directory => b'd' as i8,
        Kind::Times => b't' as i8,
        Kind::ChunkList => b'f' as i8,
        Kind::Snapshot => b's' as i8,
    }
}

/// Returns the kind of a code; `None` if an object cannot have it.
pub(crate) const fn kind_of_code(code: i8) -> Option<Kind> {
    match code as u8 {
        b'c' => Some(Kind::Chunk),
        b'd' => Some(Kind::Directory),
        b't' => Some(Kind::Times),
        b'f' => Some(Kind::ChunkList),
        _ => None,
    }
}

/// The reason why bytes are not a pack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidPack {
    /// The first or last bytes are not those of a pack.
    #[error("it does not begin and end as a pack does")]
    NotAPack,
    /// The pack has a version that this code does not know.
    #[error("its version is {0}, and this build reads version {VERSION}; use a newer build")]
    Version(u8),
    /// The pack is encrypted.
    #[error("it is encrypted, and this build has no keys")]
    Encrypted,
    /// The checksum does not match.
    #[error("its checksum is wrong")]
    Checksum,
    /// The checksum matches, but the index contradicts itself.
    #[error("its index is invalid")]
    Index,
}

/// Reads the index of a whole pack.
pub(crate) fn read_index(pack: &[u8]) -> Result<Vec<Entry>, InvalidPack> {
    let length = pack.len();
    let header = pack.get(..HEADER).ok_or(InvalidPack::NotAPack)?;
    if &header[..4] != MAGIC || length < HEADER + FOOTER || &pack[length - 4..] != END {
        return Err(InvalidPack::NotAPack);
    }
    if header[4] != VERSION {
        return Err(InvalidPack::Version(header[4]));
    }
    if header[6..] != [0, 0] {
        return Err(InvalidPack::Encrypted);
    }
    let footer = &pack[length - FOOTER..];
    let (count, start) = (number(footer, 0) as usize, number(footer, 4) as usize);
    let fits = count <= MAX_PACK_OBJECTS
        && length <= MAX_PACK_BYTES
        && start >= HEADER
        && start + count * ENTRY + FOOTER == length;
    if !fits {
        return Err(InvalidPack::Index);
    }
    let index = &pack[start..length - FOOTER];
    if checksum(index, header, &footer[..8]).to_le_bytes() != footer[8..16] {
        return Err(InvalidPack::Checksum);
    }
    let entries = read_entries(index).ok_or(InvalidPack::Index)?;
    if !entries
        .iter()
        .all(|entry| may_have(header[5], entry.key.kind))
    {
        return Err(InvalidPack::Index);
    }
    let is_sorted = entries.is_sorted_by(|one, next| order(&one.key) < order(&next.key));
    if !is_sorted || !covers(&entries, start) {
        return Err(InvalidPack::Index);
    }
    Ok(entries)
}

/// Reads the rows of an index, without its checksum.
pub(crate) fn read_entries(index: &[u8]) -> Option<Vec<Entry>> {
    let read = |row: &[u8]| {
        Some(Entry {
            key: ObjectKey {
                kind: kind_of_code(row[32] as i8)?,
                hash: Hash::from_bytes(*row.first_chunk()?),
            },
            start: number(row, 33),
            size: number(row, 37),
        })
    };
    index.chunks_exact(ENTRY).map(read).collect()
}

/// The index of a pack of `size` bytes in a file, without the footer.
pub(crate) const fn index_range(base: u64, size: u32, objects: u32) -> Range<u64> {
    let end = base + (size as u64).saturating_sub(FOOTER as u64);
    end.saturating_sub(objects as u64 * ENTRY as u64)..end
}

/// Whether the objects lie one after the other, and end where the index starts.
fn covers(entries: &[Entry], index: usize) -> bool {
    let mut places: Vec<_> = entries.iter().map(|one| (one.start, one.size)).collect();
    places.sort_unstable();
    let mut at = HEADER;
    let follows = |(start, size): (u32, u32)| {
        let is_next = start as usize == at && size > 0;
        at += size as usize;
        is_next
    };
    places.into_iter().all(follows) && at == index
}

fn may_have(contents: u8, kind: Kind) -> bool {
    match contents {
        b'n' => kind != Kind::Chunk,
        b'c' => kind == Kind::Chunk,
        b'b' => true,
        _ => false,
    }
}

fn number(bytes: &[u8], at: usize) -> u32 {
    let number = bytes.get(at..).and_then(<[u8]>::first_chunk);
    number.map_or(0, |number| u32::from_le_bytes(*number))
}

/// Returns an object from its stored bytes; `None` if they are damaged.
pub(crate) fn object(key: &ObjectKey, stored: &[u8]) -> Option<Bytes> {
    let object = decode_stored(stored)?;
    (key.kind.hash(&object) == key.hash).then_some(object)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn made(kind: Kind, data: Vec<u8>) -> Object {
        let data = Bytes::from(data);
        Object {
            key: kind.key(&data),
            data,
        }
    }

    fn pack(contents: Contents, objects: &[Object]) -> Pack {
        let mut builder = PackBuilder::new(contents);
        objects.iter().for_each(|object| builder.push(object));
        builder.finish()
    }

    fn samples() -> Vec<Object> {
        let sizes = [0, 1, 300, 70_000];
        let kinds = [Kind::Chunk, Kind::Directory, Kind::Times, Kind::ChunkList];
        let of_kind = |kind| sizes.map(|size| made(kind, vec![size as u8; size]));
        kinds.into_iter().flat_map(of_kind).collect()
    }

    #[test]
    fn a_pack_reads_back() {
        let objects = samples();
        let packed = pack(Contents::Both, &objects);
        let entries = read_index(&packed.bytes).unwrap();
        assert_eq!(entries, packed.entries);
        assert_eq!(entries.len(), objects.len());
        for Entry { key, start, size } in entries {
            let stored = &packed.bytes[start as usize..][..size as usize];
            let found = object(&key, stored).unwrap();
            assert!(
                objects
                    .iter()
                    .any(|one| one.key == key && one.data == found)
            );
        }
    }

    /// The fixtures were made by another program, from `docs/formats.md`.
    #[test]
    fn a_pack_has_the_bytes_of_the_fixture() {
        let small = [
            (Kind::Chunk, "hello\n"),
            (Kind::Chunk, ""),
            (Kind::Directory, "a directory"),
            (Kind::Times, "times"),
            (Kind::ChunkList, "a chunk list"),
        ];
        let small = small.map(|(kind, data)| made(kind, data.into()));
        let both = include_bytes!("../fixtures/v1/both.pack");
        assert_eq!(pack(Contents::Both, &small).bytes[..], both[..]);
        let empty = include_bytes!("../fixtures/v1/empty.pack");
        assert_eq!(pack(Contents::Nodes, &[]).bytes[..], empty[..]);
        // Another program may compress in another way.
        let chunks = include_bytes!("../fixtures/v1/chunks.pack");
        let entries = read_index(chunks).unwrap();
        let read = |entry: &Entry| {
            let stored = &chunks[entry.start as usize..][..entry.size as usize];
            object(&entry.key, stored).unwrap()
        };
        let mut found: Vec<_> = entries.iter().map(read).collect();
        found.sort();
        assert_eq!(
            found,
            [Bytes::from("a".repeat(1000)), Bytes::from("hello\n")]
        );
    }

    #[test]
    fn an_empty_pack_reads_back() {
        let packed = pack(Contents::Nodes, &[]);
        assert_eq!(packed.bytes.len(), HEADER + FOOTER);
        assert_eq!(read_index(&packed.bytes), Ok(Vec::new()));
    }

    #[test]
    fn a_pack_has_only_its_contents() {
        assert!(may_have(b'n', Kind::Times) && !may_have(b'n', Kind::Chunk));
        assert!(may_have(b'c', Kind::Chunk) && !may_have(b'c', Kind::Times));
        assert!(may_have(b'b', Kind::Chunk) && may_have(b'b', Kind::Times));
        assert!(!may_have(b'x', Kind::Chunk));
    }

    /// Packs objects until the pack is full.
    fn full(mut next: impl FnMut(usize) -> Vec<u8>) -> Pack {
        let (mut builder, mut room) = (PackBuilder::new(Contents::Chunks), Room::default());
        for n in 0.. {
            let object = made(Kind::Chunk, next(n));
            if !room.take(&object) {
                break;
            }
            builder.push(&object);
        }
        builder.finish()
    }

    #[test]
    fn a_pack_without_room_is_below_the_limits() {
        let many = full(|n| n.to_le_bytes().to_vec());
        assert_eq!(read_index(&many.bytes).unwrap().len(), MAX_PACK_OBJECTS);
        let mut state = 1_u64;
        let mut noise = || {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1);
            (state >> 56) as u8
        };
        let large = full(|_| (0..200_000).map(|_| noise()).collect());
        let size = large.bytes.len();
        assert_eq!(read_index(&large.bytes).as_ref(), Ok(&large.entries));
        assert!((MAX_PACK_BYTES - 300_000..=MAX_PACK_BYTES).contains(&size));
    }

    #[test]
    fn every_changed_byte_is_found() {
        let packed = pack(Contents::Both, &samples()[..6]);
        let index = packed.entries.iter().map(|entry| entry.start + entry.size);
        let index = index.max().unwrap() as usize;
        for at in (0..HEADER).chain(index..packed.bytes.len()) {
            let mut changed = packed.bytes.to_vec();
            changed[at] ^= 1;
            assert!(read_index(&changed).is_err(), "byte {at}");
        }
        for at in HEADER..index {
            let mut changed = packed.bytes.to_vec();
            changed[at] ^= 1;
            let entries = read_index(&changed).unwrap();
            let is_damaged = |entry: &Entry| {
                let stored = &changed[entry.start as usize..][..entry.size as usize];
                object(&entry.key, stored).is_none()
            };
            let damaged = entries.iter().filter(|entry| is_damaged(entry)).count();
            // LZ4 reads a few changed bytes to the same object.
            assert!(damaged <= 1, "byte {at}");
        }
        for end in 0..packed.bytes.len() {
            assert!(read_index(&packed.bytes[..end]).is_err(), "cut at {end}");
        }
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_are_read_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let mut framed = b"ELPK\x01b\0\0".to_vec();
            framed.extend(&bytes);
            framed.extend(END);
            let _ = (read_index(&bytes), read_index(&framed));
        }
    }
}
