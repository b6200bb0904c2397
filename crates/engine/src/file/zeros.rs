//! Holes of a file: the chunk that zeros are cut into, and the number of such
//! chunks at the beginning of a longer run, without reading it.

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

    /// Number of such chunks that `length` zeros at the start of a chunk begin
    /// with, independent of the bytes that follow.
    pub(crate) fn chunks_in(&self, length: u64) -> u64 {
        length.saturating_sub(LOOK_AHEAD as u64) / self.item().size
    }

    /// Number of bytes in this many such chunks.
    pub(crate) fn bytes_of(&self, chunks: u64) -> u64 {
        chunks * self.item().size
    }
}
