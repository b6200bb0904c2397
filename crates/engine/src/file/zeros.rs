//! Holes of a file. A long run of zeros is cut into equal chunks. This module
//! has that chunk, and computes the number of such chunks in a run without
//! reading it.

use std::sync::LazyLock;

use bytes::Bytes;
use elevo_objects::{ChunkItem, Kind, LOOK_AHEAD, MAX_CHUNK, MAX_FILE_BYTES, MAX_ITEMS, Run, cut};

/// The chunk that a long run of zeros is repeatedly cut into.
pub(crate) struct Zeros {
    pub(super) run: Run<ChunkItem>,
    pub(super) chunk: Bytes,
}

pub(crate) static ZEROS: LazyLock<Zeros> = LazyLock::new(|| {
    let mut chunk = vec![0; MAX_CHUNK + LOOK_AHEAD];
    chunk.truncate(cut(&chunk));
    let size = chunk.len() as u64;
    let hash = Kind::Chunk.hash(&chunk);
    // A larger node could exceed the maximum size of a file.
    let most = MAX_FILE_BYTES / size / MAX_ITEMS as u64;
    Zeros {
        run: Run::new(ChunkItem { hash, size }, most),
        chunk: chunk.into(),
    }
});

impl Zeros {
    pub(super) fn item(&self) -> ChunkItem {
        *self.run.item()
    }

    /// Whether `data` is this chunk.
    pub(crate) fn is_chunk(&self, data: &[u8]) -> bool {
        data == self.chunk
    }

    /// Returns the number of such chunks at the beginning of `length` zeros
    /// that start at a chunk boundary. The bytes that follow do not change it.
    pub(crate) fn chunks_in(&self, length: u64) -> u64 {
        length.saturating_sub(LOOK_AHEAD as u64) / self.item().size
    }

    /// Number of bytes in this many such chunks.
    pub(crate) fn bytes_of(&self, chunks: u64) -> u64 {
        chunks * self.item().size
    }
}
