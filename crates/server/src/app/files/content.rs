//! The content of a file, which is read from the store while it is sent. A
//! client that reads slowly occupies memory for a few chunks, but no thread.

use std::sync::Arc;

use bytes::Bytes;
use elevo_engine::{ChunkReader, Repository};
use elevo_objects::Entry;
use futures::{Stream, stream};

use crate::app::tenant_stores::TenantStores;
use crate::failure::{Failure, Result};

/// The open content of a file or symlink.
pub(crate) struct Content {
    stores: Arc<TenantStores>,
    repository: Repository,
    size: u64,
    /// The first chunk. It is read before the response starts, so that a failure
    /// still becomes an error response.
    first: Option<Bytes>,
    rest: Option<ChunkReader>,
}

impl Content {
    pub(crate) async fn open(
        stores: &Arc<TenantStores>,
        repository: &Repository,
        entry: &Entry,
    ) -> elevo_engine::Result<Self> {
        let (size, first, rest) = match entry {
            Entry::File { content, .. } => {
                let (mut chunks, _) = ChunkReader::open(repository, content, 0).await?;
                let first = chunks.next().await?;
                (content.size(), first, Some(chunks))
            }
            entry => {
                let bytes = repository.bytes(entry).await?;
                (bytes.len() as u64, Some(bytes), None)
            }
        };
        Ok(Self {
            stores: stores.clone(),
            repository: repository.clone(),
            size,
            first,
            rest,
        })
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
        let Some(rest) = &mut self.rest else {
            return Ok(self.first.take());
        };
        if let Some(first) = self.first.take() {
            return Ok(Some(first));
        }
        let shares = &self.stores.shares;
        let read = shares.apart(self.repository.tenant(), rest.next()).await;
        read.map_err(Failure::from)
    }
}
