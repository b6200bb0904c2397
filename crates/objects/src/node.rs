//! Nodes of search trees with content-defined boundaries (prolly trees).
//!
//! ```text
//!  height 1           [ c.. | k.. | z.. ]          children: last key, hash, totals
//!                    /       |        \
//!  height 0   [ a b c ]  [ d .. k ]  [ l .. z ]    items
//! ```
//!
//! A level is cut into nodes by one rule, so that equal content always gives
//! equal trees: a node ends after an item that is a *boundary* once it has
//! [`MIN_ITEMS`], or when it has [`MAX_ITEMS`]. Whether an item is a boundary
//! depends only on the name of a directory entry (an edit never moves it), or
//! on the hash of a chunk; one in 64 is.

use std::fmt::Debug;

use bytes::Bytes;

use crate::FORMAT_VERSION;
use crate::codec::{DecodeError, Reader, Result, put_number};
use crate::hash::{Hash, Kind, ObjectKey};

/// Minimum number of items of a node that is not the last of its level, so that
/// every tree narrows towards its root, even with malicious names.
pub const MIN_ITEMS: usize = 2;
/// Maximum number of items of a node.
pub const MAX_ITEMS: usize = 256;
/// Maximum height of a tree: each level has at most half the nodes of the one
/// below.
pub const MAX_HEIGHT: u8 = 64;

/// One item in 2^6 ends its node.
const BOUNDARY_BITS: u32 = 6;

/// A leaf item of one of the three trees. Implemented in this crate only.
pub trait Item: sealed::Sealed + Clone + Debug + PartialEq + Send + Sync + 'static {
    /// The kind of the tree's nodes.
    const KIND: Kind;
    /// Type of the sort key; `()` if items are ordered by position only.
    type Key: Clone + Debug + Ord + Send + Sync + 'static;

    /// Returns the sort key.
    fn key(&self) -> &Self::Key;
    /// Returns a pseudo-random number that decides whether the item is a
    /// boundary.
    fn spread(&self) -> u64;
    /// Returns the same for a child node with the given last key.
    fn child_spread(key: &Self::Key, node: &Hash) -> u64;
    /// Returns the item's share of its node's totals.
    fn totals(&self) -> Totals;

    /// Whether an item or a child can have these totals. `followed` is true if
    /// it is not the last one of its tree. Rules common to all trees are
    /// checked elsewhere.
    #[doc(hidden)]
    fn totals_fit(totals: &Totals, followed: bool) -> bool;
    #[doc(hidden)]
    fn encode(&self, out: &mut Vec<u8>);
    #[doc(hidden)]
    fn decode(reader: &mut Reader) -> Result<Self>;
    #[doc(hidden)]
    fn encode_key(key: &Self::Key, out: &mut Vec<u8>);
    #[doc(hidden)]
    fn decode_key(reader: &mut Reader) -> Result<Self::Key>;
    #[doc(hidden)]
    fn encode_totals(totals: &Totals, out: &mut Vec<u8>);
    #[doc(hidden)]
    fn decode_totals(reader: &mut Reader) -> Result<Totals>;
}

pub(crate) mod sealed {
    /// Prevents implementations of [`Item`](super::Item) outside this crate,
    /// because they define the format.
    pub trait Sealed {}
}

/// Sums over the leaf items below a node. Each tree stores only the sums it
/// uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Number of leaf items.
    pub items: u64,
    /// In a directory tree: number of entries at every depth.
    pub count: u64,
    /// In a directory tree or a chunk list: bytes of content.
    pub bytes: u64,
}

impl Totals {
    /// Adds two totals. Saturates, since malicious trees may have any sizes.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self {
            items: self.items.saturating_add(other.items),
            count: self.count.saturating_add(other.count),
            bytes: self.bytes.saturating_add(other.bytes),
        }
    }
}

/// A reference to a node from the level above.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Child<I: Item> {
    /// Key of the last leaf item below.
    pub last: I::Key,
    /// Hash of the node.
    pub hash: Hash,
    /// Sums over the leaf items below.
    pub totals: Totals,
}

impl<I: Item> Child<I> {
    /// Whether `node` matches this reference, found in a node of `height`. The
    /// hash alone does not show that, since the author of the reference may
    /// have lied; the check bounds a descent by the height of its root.
    pub fn describes(&self, node: &Node<I>, height: u8) -> bool {
        node.height().checked_add(1) == Some(height)
            && node.last_key() == Some(&self.last)
            && node.totals() == self.totals
    }
}

/// A decoded node.
#[derive(Clone, Debug, PartialEq)]
pub enum Node<I: Item> {
    /// The lowest level: items.
    Leaf(Vec<I>),
    /// Every other level: references to nodes one level lower.
    Index {
        /// Number of levels below, 1 to [`MAX_HEIGHT`].
        height: u8,
        /// The nodes of the level below.
        children: Vec<Child<I>>,
    },
}

/// Whether an item or child with this spread ends its node at `height`.
pub fn is_boundary(spread: u64, height: u8) -> bool {
    let bits = spread.rotate_right(u32::from(height) * BOUNDARY_BITS);
    bits & ((1 << BOUNDARY_BITS) - 1) == 0
}

const fn type_byte(kind: Kind) -> u8 {
    match kind {
        Kind::Directory => b'd',
        Kind::Times => b't',
        Kind::ChunkList => b'f',
        Kind::Chunk | Kind::Snapshot => panic!("only trees have nodes"),
    }
}

impl<I: Item> Node<I> {
    /// A constant, so that an item of a kind without nodes does not compile.
    const TYPE_BYTE: u8 = type_byte(I::KIND);

    /// Number of levels below this one; 0 for a leaf.
    pub const fn height(&self) -> u8 {
        match self {
            Self::Leaf(_) => 0,
            Self::Index { height, .. } => *height,
        }
    }

    /// Number of items or children in this node itself.
    pub fn len(&self) -> usize {
        match self {
            Self::Leaf(items) => items.len(),
            Self::Index { children, .. } => children.len(),
        }
    }

    /// Always false: an empty tree has no node.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Key of the last leaf item below.
    pub fn last_key(&self) -> Option<&I::Key> {
        match self {
            Self::Leaf(items) => items.last().map(I::key),
            Self::Index { children, .. } => children.last().map(|child| &child.last),
        }
    }

    /// Whether this node may be the root of a tree: an index node with one
    /// child only repeats that child.
    pub fn is_root(&self) -> bool {
        matches!(self, Self::Leaf(_)) || self.len() > 1
    }

    /// Sums over all leaf items below.
    pub fn totals(&self) -> Totals {
        match self {
            Self::Leaf(items) => items
                .iter()
                .map(I::totals)
                .fold(Totals::default(), Totals::plus),
            Self::Index { children, .. } => children
                .iter()
                .map(|child| child.totals)
                .fold(Totals::default(), Totals::plus),
        }
    }

    /// Returns the only encoding of this node.
    pub fn encode(&self) -> Bytes {
        let mut out = Vec::with_capacity(4 + self.len() * 80);
        out.extend_from_slice(&[FORMAT_VERSION, Self::TYPE_BYTE, self.height()]);
        put_number(&mut out, self.len() as u64);
        match self {
            Self::Leaf(items) => items.iter().for_each(|item| item.encode(&mut out)),
            Self::Index { children, .. } => {
                for child in children {
                    I::encode_key(&child.last, &mut out);
                    I::encode_totals(&child.totals, &mut out);
                    out.extend_from_slice(child.hash.as_bytes());
                }
            }
        }
        out.into()
    }

    /// Decodes a node. Rejects everything that [`Self::encode`] could not have
    /// written for some tree: unsorted keys, numbers not in their shortest
    /// form, boundaries inside a node, too many items, totals that no tree has,
    /// trailing bytes.
    ///
    /// Properties that a single node cannot show must be checked by the code
    /// that follows its references: see [`Child::describes`] and
    /// [`Self::is_root`].
    pub fn decode(data: &Bytes) -> Result<Self> {
        let mut reader = Reader::open(data, Self::TYPE_BYTE)?;
        let height = reader.byte()?;
        if height > MAX_HEIGHT {
            return Err(DecodeError::Number);
        }
        let length = reader.number_up_to(MAX_ITEMS as u64)? as usize;
        if length == 0 {
            return Err(DecodeError::Items);
        }
        let node = if height == 0 {
            let items = read_many(&mut reader, length, I::decode)?;
            check_order(items.iter().map(I::key))?;
            check_totals::<I>(items.iter().map(I::totals), height, length)?;
            check_boundaries(items.iter().map(I::spread), height, length)?;
            Self::Leaf(items)
        } else {
            let children = read_many(&mut reader, length, read_child::<I>)?;
            check_order(children.iter().map(|child| &child.last))?;
            check_totals::<I>(children.iter().map(|child| child.totals), height, length)?;
            let spreads = children
                .iter()
                .map(|child| I::child_spread(&child.last, &child.hash));
            check_boundaries(spreads, height, length)?;
            Self::Index { height, children }
        };
        if !I::totals_fit(&node.totals(), false) {
            return Err(DecodeError::Number);
        }
        reader.finish()?;
        Ok(node)
    }

    /// Returns the key of a node encoded as `data`.
    pub fn key(data: &[u8]) -> ObjectKey {
        I::KIND.key(data)
    }
}

fn read_many<T>(
    reader: &mut Reader,
    length: usize,
    mut read: impl FnMut(&mut Reader) -> Result<T>,
) -> Result<Vec<T>> {
    let mut items = Vec::with_capacity(length);
    for _ in 0..length {
        items.push(read(reader)?);
    }
    Ok(items)
}

fn read_child<I: Item>(reader: &mut Reader) -> Result<Child<I>> {
    let last = I::decode_key(reader)?;
    let totals = I::decode_totals(reader)?;
    let hash = reader.hash()?;
    Ok(Child { last, hash, totals })
}

/// Checks that keys rise strictly, unless the tree has no keys.
fn check_order<'a, K: Ord + 'a>(mut keys: impl Iterator<Item = &'a K>) -> Result<()> {
    if size_of::<K>() == 0 {
        return Ok(());
    }
    let Some(mut previous) = keys.next() else {
        return Ok(());
    };
    for key in keys {
        if key <= previous {
            return Err(DecodeError::Items);
        }
        previous = key;
    }
    Ok(())
}

fn check_boundaries(spreads: impl Iterator<Item = u64>, height: u8, length: usize) -> Result<()> {
    let inside = spreads.take(length - 1).skip(MIN_ITEMS - 1);
    if inside.into_iter().any(|spread| is_boundary(spread, height)) {
        return Err(DecodeError::Boundary);
    }
    Ok(())
}

/// Checks that every child that is not the last of its tree has at least
/// [`MIN_ITEMS`] in each node below it, and that no child has more than
/// [`MAX_ITEMS`] in any.
fn check_totals<I: Item>(
    totals: impl Iterator<Item = Totals>,
    height: u8,
    length: usize,
) -> Result<()> {
    let fewest = (MIN_ITEMS as u64).saturating_pow(height.into());
    let most = (MAX_ITEMS as u64).saturating_pow(height.into());
    for (index, totals) in totals.enumerate() {
        let followed = index + 1 < length;
        let fewest = if followed { fewest } else { 1 };
        if !(fewest..=most).contains(&totals.items) || !I::totals_fit(&totals, followed) {
            return Err(DecodeError::Number);
        }
    }
    Ok(())
}
