//! A cache of decoded nodes.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use elevo_core::TenantId;
use elevo_objects::{ChunkItem, DirItem, Hash, Item, Node, ObjectKey, TimeItem};
use quick_cache::Weighter;
use quick_cache::sync::Cache;

/// Decoded nodes, which the repositories of all tenants of a process can share.
/// Cloning is cheap and shares the cache.
#[derive(Clone)]
pub struct NodeCache(pub(super) Arc<Cache<(TenantId, ObjectKey), CachedNode, ByBytes>>);

impl fmt::Debug for NodeCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NodeCache")
            .field("weight", &self.0.weight())
            .finish_non_exhaustive()
    }
}

impl NodeCache {
    /// Creates a cache that keeps about `bytes` of nodes in memory.
    pub fn new(bytes: u64) -> Self {
        let nodes = (bytes / 8192).max(16) as usize;
        Self(Arc::new(Cache::with_weighter(nodes, bytes, ByBytes)))
    }
}

/// An [`Item`] whose nodes can be cached.
pub(crate) trait TreeItem: Item {
    fn to_cached(node: Arc<Node<Self>>) -> AnyNode;
    fn from_cached(cached: &CachedNode) -> Option<Arc<Node<Self>>>;
}

#[derive(Clone)]
pub(crate) struct CachedNode {
    pub(super) node: AnyNode,
    pub(super) bytes: usize,
}

#[derive(Clone)]
pub(crate) enum AnyNode {
    Directory(Arc<Node<DirItem>>),
    Times(Arc<Node<TimeItem>>),
    ChunkList(Arc<Node<ChunkItem>>),
}

macro_rules! tree_item {
    ($item:ty, $variant:ident) => {
        impl TreeItem for $item {
            fn to_cached(node: Arc<Node<Self>>) -> AnyNode {
                AnyNode::$variant(node)
            }

            fn from_cached(cached: &CachedNode) -> Option<Arc<Node<Self>>> {
                match &cached.node {
                    AnyNode::$variant(node) => Some(node.clone()),
                    _ => None,
                }
            }
        }
    };
}

tree_item!(DirItem, Directory);
tree_item!(TimeItem, Times);
tree_item!(ChunkItem, ChunkList);

/// Weighs cached values by the bytes of memory they take.
#[derive(Clone)]
pub(super) struct ByBytes;

impl Weighter<(TenantId, ObjectKey), CachedNode> for ByBytes {
    fn weight(&self, _: &(TenantId, ObjectKey), node: &CachedNode) -> u64 {
        // A decoded node takes about three times its encoding, and keeps the
        // encoding alive.
        200 + 4 * node.bytes as u64
    }
}

impl Weighter<Hash, Bytes> for ByBytes {
    fn weight(&self, _: &Hash, chunk: &Bytes) -> u64 {
        200 + chunk.len() as u64
    }
}
