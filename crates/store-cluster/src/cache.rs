//! The local cache of blocks of S3 files: in memory, or also on disk.
//!
//! A cache may lose a block at any time, and may return other bytes than it was
//! given, for example from a damaged disk. So what is read from a block is
//! verified, and a block that was wrong is removed.

use std::fmt;

use async_trait::async_trait;
use bytes::Bytes;
use quick_cache::Weighter;
use quick_cache::sync::Cache;

use crate::bucket::FileKey;

/// Size of a block, except for the last one of a file.
pub(crate) const BLOCK_BYTES: u64 = 256 << 10;

/// Names a block: keys of files are never used twice, so its bytes never change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct BlockKey {
    pub(crate) file: FileKey,
    pub(crate) number: u32,
}

/// Keeps blocks, up to a number of bytes.
#[async_trait]
pub(crate) trait BlockCache: fmt::Debug + Send + Sync {
    /// Whether a block may be there.
    fn has(&self, key: &BlockKey) -> bool;

    /// Returns a block, which the caller verifies.
    async fn get(&self, key: &BlockKey) -> Option<Bytes>;

    /// Keeps a block that is not there.
    fn put(&self, key: BlockKey, block: Bytes);

    /// Removes a block that was wrong, soon.
    fn remove(&self, key: &BlockKey);

    /// Waits until what is kept on disk is there.
    async fn close(&self);
}

/// A cache in memory.
#[derive(Debug)]
pub(crate) struct Memory(Cache<BlockKey, Bytes, BySize>);

#[derive(Clone, Debug)]
struct BySize;

impl Weighter<BlockKey, Bytes> for BySize {
    fn weight(&self, _: &BlockKey, block: &Bytes) -> u64 {
        block.len() as u64
    }
}

impl Memory {
    pub(crate) fn new(bytes: u64) -> Self {
        let blocks = usize::try_from(bytes / BLOCK_BYTES).unwrap_or(usize::MAX);
        Self(Cache::with_weighter(blocks, bytes, BySize))
    }
}

#[async_trait]
impl BlockCache for Memory {
    fn has(&self, key: &BlockKey) -> bool {
        self.0.contains_key(key)
    }

    async fn get(&self, key: &BlockKey) -> Option<Bytes> {
        self.0.get(key)
    }

    fn put(&self, key: BlockKey, block: Bytes) {
        self.0.insert(key, block);
    }

    fn remove(&self, key: &BlockKey) {
        self.0.remove(key);
    }

    async fn close(&self) {}
}
