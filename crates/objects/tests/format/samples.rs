//! Names, items and bytes for the tests.

use std::sync::LazyLock;

use elevo_core::{Name, Timestamp};
use elevo_objects::{
    ChunkItem, Content, DirItem, Entry, Hash, Item, Link, MAX_CHUNK, MAX_FILE_BYTES,
    MAX_LINK_BYTES, MIN_CHUNK, Mode, TimeEntry, TimeItem, Tree, is_boundary,
};
use proptest::prelude::*;

/// A fixed stream of bytes, the same on every machine (xorshift64).
pub(crate) fn noise(seed: u64, length: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64 ^ seed;
    let mut bytes = Vec::with_capacity(length + 8);
    while bytes.len() < length {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(length);
    bytes
}

pub(crate) fn name(text: impl AsRef<[u8]>) -> Name {
    Name::copy_from(text.as_ref()).expect("a valid name")
}

pub(crate) fn spread(name: &Name, height: u8) -> bool {
    is_boundary(file(name.clone(), 0).spread(), height)
}

/// A file of one chunk whose hash is derived from `version`.
pub(crate) fn file(name: Name, version: u64) -> DirItem {
    let hash = hash_of(version);
    let content = Content::Chunk { hash, size: 10 };
    let mode = Mode::FILE;
    DirItem {
        name,
        entry: Entry::File { mode, content },
    }
}

pub(crate) fn hash_of(number: u64) -> Hash {
    elevo_objects::Kind::Chunk.hash(&number.to_le_bytes())
}

/// Names of which every third ends a node at any height, so that a few hundred
/// of them make a high tree. Sorted.
pub(crate) static DENSE_NAMES: LazyLock<Vec<Name>> = LazyLock::new(|| {
    let plain = (0..400_u32).filter_map(|number| {
        let first = (number * 7 % 256) as u8;
        Name::copy_from(&[&[first], number.to_string().as_bytes()].concat()).ok()
    });
    let mut names: Vec<Name> = plain.chain(always_boundaries(200)).collect();
    names.sort();
    names
});

/// Constants that xxh3 mixes into the two halves of an input of 16 bytes.
const FLIP: [u64; 2] = [0x6782_737b_ea42_39b9, 0xaf56_bc3b_0996_523a];

/// Names of 16 bytes whose xxh3 is zero: boundaries at every height.
///
/// For these the hash is a bijection of
/// `16 + swap(low) + high + fold(low * high)`, where `fold` combines the two
/// words of a product by exclusive or. With a small even `low`, the upper word
/// is small enough to guess, and each bit of the sum then gives the next bit of
/// `high`.
pub(crate) fn always_boundaries(count: usize) -> Vec<Name> {
    let mut names: Vec<Name> = (2_u64..)
        .step_by(2)
        .flat_map(names_with)
        .take(count)
        .collect();
    names.sort();
    names
}

fn names_with(low: u64) -> Vec<Name> {
    let wanted = 0_u64.wrapping_sub(16).wrapping_sub(low.swap_bytes());
    let fits = |guess: u64| {
        let high = solve(low, guess, wanted);
        ((u128::from(low) * u128::from(high)) >> 64 == u128::from(guess)).then_some(high)
    };
    let to_name = |high: u64| {
        let halves = [low ^ FLIP[0], high ^ FLIP[1]].map(u64::to_le_bytes);
        Name::copy_from(&halves.concat()).ok()
    };
    (0..low).filter_map(fits).filter_map(to_name).collect()
}

/// Returns the `high` for which `high + (low * high ^ guess)` is `wanted`, for
/// an even `low`.
fn solve(low: u64, guess: u64, wanted: u64) -> u64 {
    let mut high = 0_u64;
    for bit in 0..64 {
        let sum = high.wrapping_add(low.wrapping_mul(high) ^ guess);
        high |= (sum ^ wanted) & (1 << bit);
    }
    high
}

pub(crate) fn any_hash() -> impl Strategy<Value = Hash> {
    any::<[u8; 32]>().prop_map(Hash::from_bytes)
}

/// Any name, sometimes a long one.
pub(crate) fn any_name() -> impl Strategy<Value = Name> {
    let short = prop::collection::vec(any::<u8>(), 1..12);
    let long = prop::collection::vec(any::<u8>(), 200..=255);
    prop_oneof![8 => short, 1 => long]
        .prop_filter_map("not a name", |bytes| Name::copy_from(&bytes).ok())
}

fn any_mode() -> impl Strategy<Value = Mode> {
    (0_u32..=0o777).prop_map(Mode::from_bits)
}

fn any_entry() -> impl Strategy<Value = Entry> {
    let size = 1..=MAX_CHUNK as u64;
    let chunk = (any_hash(), size).prop_map(|(hash, size)| Content::Chunk { hash, size });
    let size = MIN_CHUNK as u64 + 1..=MAX_FILE_BYTES;
    let list = (any_hash(), size).prop_map(|(hash, size)| Content::List { hash, size });
    let content = prop_oneof![Just(Content::Empty), chunk, list];
    let tree = (any_hash(), 1..=u64::MAX, any::<u64>()).prop_map(|(root, count, bytes)| Tree {
        root: Some(root),
        count,
        bytes,
    });
    let tree = prop_oneof![Just(Tree::EMPTY), tree];
    let link = (any_hash(), 1..=MAX_LINK_BYTES as u64);
    prop_oneof![
        (any_mode(), content).prop_map(|(mode, content)| Entry::File { mode, content }),
        (any_mode(), tree).prop_map(|(mode, tree)| Entry::Directory { mode, tree }),
        link.prop_map(|(hash, size)| Entry::Link(Link { hash, size })),
    ]
}

pub(crate) fn any_dir_item() -> impl Strategy<Value = DirItem> {
    (any_name(), any_entry()).prop_map(|(name, entry)| DirItem { name, entry })
}

pub(crate) fn any_time() -> impl Strategy<Value = Timestamp> {
    (any::<i64>(), 0..1_000_000_000_u32)
        .prop_map(|(seconds, nanos)| Timestamp::new(seconds, nanos).expect("less than a second"))
}

pub(crate) fn any_time_item() -> impl Strategy<Value = TimeItem> {
    let entry = (prop::option::of(any_time()), prop::option::of(any_hash()))
        .prop_map(|(modified, children)| TimeEntry { modified, children })
        .prop_filter("has no time", |entry| {
            entry.modified.is_some() || entry.children.is_some()
        });
    (any_name(), entry).prop_map(|(name, entry)| TimeItem { name, entry })
}

/// A chunk that is not necessarily the last.
pub(crate) fn any_chunk_item() -> impl Strategy<Value = ChunkItem> {
    let hash = prop_oneof![2 => any_hash(), 1 => any_hash().prop_map(boundary_hash)];
    (hash, MIN_CHUNK as u64..=MAX_CHUNK as u64).prop_map(|(hash, size)| ChunkItem { hash, size })
}

/// Changes a hash so that it ends a leaf.
fn boundary_hash(hash: Hash) -> Hash {
    let mut bytes = *hash.as_bytes();
    bytes[0] &= 0xc0;
    Hash::from_bytes(bytes)
}

/// Sorts by key and removes duplicates.
pub(crate) fn in_order<I: Item<Key = Name>>(mut items: Vec<I>) -> Vec<I> {
    items.sort_by(|a, b| a.key().cmp(b.key()));
    items.dedup_by(|a, b| a.key() == b.key());
    items
}
