//! The format of stored data, to the byte: hashes, chunk boundaries, and the
//! canonical encodings of tree nodes and snapshots. `docs/formats.md` draws
//! them.
//!
//! Pure: depends on `elevo-core` only, does no I/O (a [`Chunker`] reads from
//! the reader it is given) and reads no clock. A `Chunker` holds at most a
//! megabyte, a [`TreeBuilder`] one open node per level and the nodes that were
//! not taken yet. Everything here is part of the format: a change that
//! alters a byte or a boundary needs a new version byte and keeps the old
//! fixtures readable.

mod chunk;
mod chunk_item;
mod codec;
mod dir_item;
mod entry;
mod hash;
mod node;
mod snapshot;
mod stored;
mod time_item;
mod tree_builder;

pub use chunk::{AVERAGE_CHUNK, Chunker, LOOK_AHEAD, MAX_CHUNK, MIN_CHUNK, cut};
pub use chunk_item::ChunkItem;
pub use codec::DecodeError;
#[doc(hidden)]
pub use codec::{Reader, Result as DecodeResult};
pub use dir_item::DirItem;
pub use entry::{Content, Entry, Link, MAX_FILE_BYTES, MAX_LINK_BYTES, Mode, Tree};
pub use hash::{Hash, InvalidHash, Kind, ObjectKey};
pub use node::{Child, Item, MAX_HEIGHT, MAX_ITEMS, MIN_ITEMS, Node, Totals, is_boundary};
pub use snapshot::{InvalidSnapshot, Snapshot, SnapshotId};
pub use stored::{StoredEncoder, decode_stored};
pub use time_item::{TimeEntry, TimeItem};
pub use tree_builder::{NewNode, Root, Run, TreeBuilder};

/// The version byte that opens every encoded node and snapshot.
pub const FORMAT_VERSION: u8 = 1;
