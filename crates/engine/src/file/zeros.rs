//! Holes of a file: the chunk that zeros are cut into, and how many of it a
//! larger run begins with, without reading it.

use std::sync::LazyLock;

use bytes::Bytes;
use elevo_objects::{ChunkItem, Kind, LOOK_AHEAD, MAX_CHUNK, MAX_FILE_BYTES, MAX_ITEMS, Run, cut};

/// The chunk that zeros are cut into, over and over.
pub(crate) struct Zeros {
    pub(super) run: Run<ChunkItem>,
    pub(super) chunk: Bytes,
}

pub(crate) static ZEROS: LazyLock<Zeros> = LazyLock::new(|| {
    let mut chunk = vec![0; MAX_CHUNK + LOOK_AHEAD];
    chunk.truncate(cut(&chunk));
    let size = chunk.len() as u64;
    let hash = Kind::Chunk.hash(&chunk);
    // A node of more could hold more than a file can.
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

    /// Whether these bytes are its chunk.
    pub(crate) fn is_chunk(&self, data: &[u8]) -> bool {
        data == self.chunk
    }

    /// How many chunks of it begin so many zeros at the start of a chunk,
    /// whatever comes after them.
    pub(crate) fn chunks_in(&self, length: u64) -> u64 {
        length.saturating_sub(LOOK_AHEAD as u64) / self.item().size
    }

    /// How many bytes so many chunks of it have.
    pub(crate) fn bytes_of(&self, chunks: u64) -> u64 {
        chunks * self.item().size
    }
}
