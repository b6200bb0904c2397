//! The content of a file, which is read from the store while it is sent. A
//! client that reads slowly occupies memory for a few chunks, but no thread.

use std::ops::Range;
use std::sync::Arc;

use bytes::{Buf, Bytes};
use elevo_engine::{CHUNKS_AHEAD, ChunkReader, Repository};
use elevo_objects::{Content as Stored, Entry, MAX_CHUNK};
use futures::{Stream, stream};

use crate::app::snapshots::Kept;
use crate::app::tenant_stores::TenantStores;
use crate::failure::{Failure, Result};

/// The open content of a file or symlink, or a range of it.
pub(crate) struct Content {
    stores: Arc<TenantStores>,
    repository: Repository,
    size: u64,
    /// The first piece. It is read before the response starts, so that a failure
    /// still becomes an error response.
    first: Option<Bytes>,
    /// The chunks after the first piece.
    rest: Option<ChunkReader>,
    /// Number of bytes in the pieces after the first.
    left: u64,
    /// Keeps the chunks from garbage collection.
    _kept: Option<Kept>,
}

impl Content {
    pub(crate) async fn open(
        stores: &Arc<TenantStores>,
        repository: &Repository,
        entry: &Entry,
    ) -> elevo_engine::Result<Self> {
        if let Entry::File { content, .. } = entry {
            return Self::open_range(stores, repository, content, 0..content.size()).await;
        }
        let bytes = repository.bytes(entry).await?;
        Ok(Self {
            stores: stores.clone(),
            repository: repository.clone(),
            size: bytes.len() as u64,
            first: Some(bytes),
            rest: None,
            left: 0,
            _kept: None,
        })
    }

    /// Opens a range of a file, which must lie inside the file.
    pub(crate) async fn open_range(
        stores: &Arc<TenantStores>,
        repository: &Repository,
        content: &Stored,
        range: Range<u64>,
    ) -> elevo_engine::Result<Self> {
        let size = range.end.saturating_sub(range.start);
        let (mut chunks, start) = ChunkReader::open(repository, content, range.start).await?;
        let skipped = range.start.saturating_sub(start);
        let first = match size {
            0 => None,
            _ => chunks.next_of(ahead(skipped + size)).await?,
        };
        let first = first.map(|mut chunk| {
            chunk.advance(chunk.len().min(skipped as usize));
            chunk
        });
        let mut content = Self {
            stores: stores.clone(),
            repository: repository.clone(),
            size,
            first: None,
            rest: Some(chunks),
            left: size,
            _kept: None,
        };
        content.first = first.map(|chunk| content.take(chunk));
        Ok(content)
    }

    /// Keeps a snapshot from garbage collection until the content is sent.
    pub(crate) fn keeping(self, kept: Kept) -> Self {
        let _kept = Some(kept);
        Self { _kept, ..self }
    }

    /// Returns the size in bytes.
    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    /// Streams the bytes, piece by piece.
    pub(crate) fn pieces(self) -> impl Stream<Item = Result<Bytes>> + Send {
        stream::try_unfold(self, async |mut content| {
            let piece = content.next().await?;
            Ok(piece.map(|piece| (piece, content)))
        })
    }

    async fn next(&mut self) -> Result<Option<Bytes>> {
        if let Some(first) = self.first.take() {
            return Ok(Some(first));
        }
        let Some(rest) = self.rest.as_mut().filter(|_| self.left > 0) else {
            return Ok(None);
        };
        let shares = &self.stores.shares;
        let reading = rest.next_of(ahead(self.left));
        let read = shares.apart(self.repository.tenant(), reading).await;
        Ok(read.map_err(Failure::from)?.map(|chunk| self.take(chunk)))
    }

    /// Returns the part of a chunk that belongs to the range.
    fn take(&mut self, mut chunk: Bytes) -> Bytes {
        chunk.truncate(usize::try_from(self.left).unwrap_or(usize::MAX));
        self.left -= chunk.len() as u64;
        chunk
    }
}

/// Returns the number of chunks to read at once for this number of bytes.
fn ahead(bytes: u64) -> usize {
    (bytes / MAX_CHUNK as u64 + 1).min(CHUNKS_AHEAD as u64) as usize
}
