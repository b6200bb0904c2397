//! The objects of one tenant, decoded and cached.

mod cache;
mod overlay;

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use elevo_core::TenantId;
use elevo_objects::{
    AVERAGE_CHUNK, Child, DecodeError, Entry, Hash, Kind, NewNode, Node, ObjectKey, Snapshot,
    SnapshotId,
};
use parking_lot::Mutex;
use quick_cache::sync::Cache;

use crate::error::{Error, Result};
use crate::file;
use crate::guards::{Guard, Writer, WriterId};
use crate::store::{Object, Store};

pub use cache::NodeCache;
pub(crate) use cache::TreeItem;
use cache::{ByBytes, CachedNode};
use overlay::Overlay;

/// One tenant's objects in a store, with a cache of decoded nodes. Cloning is
/// cheap and shares the cache.
#[derive(Clone)]
pub struct Repository {
    store: Arc<dyn Store>,
    tenant: TenantId,
    cache: NodeCache,
    recent: Option<Arc<Cache<Hash, Bytes, ByBytes>>>,
    ahead: Arc<Ahead>,
}

/// Writers of the objects that were put ahead of a commit. The last one puts more.
type Ahead = Mutex<Vec<Arc<Writer>>>;

impl fmt::Debug for Repository {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Repository")
            .field("tenant", &self.tenant)
            .finish_non_exhaustive()
    }
}

/// A cache size that fits the nodes of some hundred thousand entries.
pub const DEFAULT_CACHE_BYTES: u64 = 256 * 1024 * 1024;

impl Repository {
    /// Opens the objects of `tenant` in `store`, with about `cache_bytes` of
    /// nodes kept in memory.
    pub fn new(store: Arc<dyn Store>, tenant: TenantId, cache_bytes: u64) -> Self {
        Self::with_cache(store, tenant, &NodeCache::new(cache_bytes))
    }

    /// Opens the objects of `tenant` in `store`, with a node cache that other
    /// tenants share.
    pub fn with_cache(store: Arc<dyn Store>, tenant: TenantId, cache: &NodeCache) -> Self {
        Self {
            store,
            tenant,
            cache: cache.clone(),
            recent: None,
            ahead: Arc::default(),
        }
    }

    /// Returns a copy that also keeps about `bytes` of recently read chunks in
    /// memory, for callers that read files in pieces that begin and end within
    /// chunks.
    pub fn keep_chunks(&self, bytes: u64) -> Self {
        let chunks = (bytes / AVERAGE_CHUNK as u64).max(16) as usize;
        let recent = Arc::new(Cache::with_weighter(chunks, bytes, ByBytes));
        Self {
            recent: Some(recent),
            ..self.clone()
        }
    }

    /// The underlying store.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// The tenant whose objects these are.
    pub fn tenant(&self) -> TenantId {
        self.tenant
    }

    /// Returns a copy in which `objects` are visible as if they were stored.
    pub(crate) fn overlay(&self, objects: Arc<HashMap<ObjectKey, Bytes>>) -> Self {
        self.overlay_while(objects, Guard::new(()))
    }

    /// Like [`overlay`](Self::overlay), and keeps the guard `held` alive with
    /// the copy.
    pub(crate) fn overlay_while(
        &self,
        objects: Arc<HashMap<ObjectKey, Bytes>>,
        held: Guard,
    ) -> Self {
        let store = Arc::new(Overlay {
            objects,
            below: self.store.clone(),
            _held: held,
        });
        Self {
            store,
            tenant: self.tenant,
            cache: self.cache.clone(),
            recent: None,
            ahead: self.ahead.clone(),
        }
    }

    /// Returns a copy with a registered writer. Trees over the copy put objects
    /// with this writer, and their commits name it.
    pub async fn writing(&self) -> Result<Self> {
        let writer = self.store.writing(self.tenant).await?;
        Ok(Self {
            ahead: Arc::new(Mutex::new(vec![Arc::new(writer)])),
            ..self.clone()
        })
    }

    /// Returns a copy that registers and releases writers by itself. The copy
    /// starts with the current ones.
    pub(crate) fn with_own_writers(&self) -> Self {
        Self {
            ahead: Arc::new(Mutex::new(self.ahead.lock().clone())),
            ..self.clone()
        }
    }

    /// Stores objects ahead of the commit that will need them, and protects
    /// them until [`release_objects_ahead`](Self::release_objects_ahead).
    pub(crate) async fn put_ahead(&self, objects: Vec<Object>) -> Result<()> {
        let known = self.ahead.lock().last().cloned();
        let writer = match known {
            Some(writer) => writer,
            None => {
                let writer = Arc::new(self.store.writing(self.tenant).await?);
                self.ahead.lock().push(writer.clone());
                writer
            }
        };
        Ok(self.store.put(self.tenant, &writer, objects).await?)
    }

    /// The writers of the objects put ahead so far.
    pub(crate) fn writers_ahead(&self) -> Vec<Arc<Writer>> {
        self.ahead.lock().clone()
    }

    /// Adds writers whose objects a tree of this copy refers to.
    pub(crate) fn add_writers(&self, writers: Vec<Arc<Writer>>) {
        let mut ahead = self.ahead.lock();
        for writer in writers {
            if !ahead.iter().any(|known| known.id() == writer.id()) {
                ahead.push(writer);
            }
        }
    }

    /// Ids of the writers that a commit of the objects put ahead so far names.
    pub(crate) fn ids_of_writers_ahead(&self) -> Vec<WriterId> {
        self.ahead.lock().iter().map(|writer| writer.id()).collect()
    }

    /// Releases the writers: every object put ahead is now part of a snapshot.
    pub(crate) fn release_objects_ahead(&self) {
        self.ahead.lock().clear();
    }

    /// Protects a snapshot, which must exist, and everything it needs. Also
    /// returns its record.
    pub async fn hold(&self, id: SnapshotId) -> Result<(Guard, Snapshot)> {
        let held = self.store.hold(self.tenant, &[id]).await?;
        let held = held.ok_or(Error::NoSuchSnapshot(id))?;
        let record = held.snapshots.into_iter().next();
        Ok((held.guard, record.ok_or(Error::NoSuchSnapshot(id))?))
    }

    /// Returns a snapshot, which must exist.
    pub async fn snapshot(&self, id: SnapshotId) -> Result<Snapshot> {
        let found = self.store.snapshots(self.tenant, &[id]).await?;
        found
            .into_iter()
            .next()
            .flatten()
            .ok_or(Error::NoSuchSnapshot(id))
    }

    /// Returns the whole content of a file, or the target of a link; nothing
    /// for a directory. For content that is known to fit into memory.
    pub async fn bytes(&self, entry: &Entry) -> Result<Bytes> {
        match entry {
            Entry::File { content, .. } => file::read_range(self, content, 0, usize::MAX).await,
            Entry::Link(link) => Ok(self.chunks(&[link.hash]).await?.pop().unwrap_or_default()),
            Entry::Directory { .. } => Ok(Bytes::new()),
        }
    }

    /// Returns chunks, which must all be stored, in the order of `hashes`.
    pub async fn chunks(&self, hashes: &[Hash]) -> Result<Vec<Bytes>> {
        let Some(recent) = &self.recent else {
            return self.stored_chunks(hashes).await;
        };
        let mut known: Vec<_> = hashes.iter().map(|hash| recent.get(hash)).collect();
        let unknown = hashes
            .iter()
            .zip(&known)
            .filter(|(_, known)| known.is_none());
        let unknown: Vec<_> = unknown.map(|(hash, _)| *hash).collect();
        let mut found = self.stored_chunks(&unknown).await?.into_iter();
        for (hash, chunk) in hashes.iter().zip(&mut known) {
            if chunk.is_none() {
                *chunk = found.next();
                recent.insert(*hash, chunk.clone().unwrap_or_default());
            }
        }
        Ok(known.into_iter().flatten().collect())
    }

    async fn stored_chunks(&self, hashes: &[Hash]) -> Result<Vec<Bytes>> {
        let keys: Vec<_> = hashes
            .iter()
            .map(|hash| ObjectKey {
                kind: Kind::Chunk,
                hash: *hash,
            })
            .collect();
        let found = self.store.get(self.tenant, &keys).await?;
        let pairs = keys.into_iter().zip(found);
        pairs
            .map(|(key, data)| data.ok_or(Error::MissingObject(key)))
            .collect()
    }

    /// Returns a node, which must be stored.
    pub(crate) async fn node<I: TreeItem>(&self, hash: Hash) -> Result<Arc<Node<I>>> {
        if let Some(node) = self.cached(hash) {
            return Ok(node);
        }
        let nodes = self.nodes(&[hash]).await?;
        nodes
            .into_iter()
            .next()
            .ok_or(Error::MissingObject(ObjectKey {
                kind: I::KIND,
                hash,
            }))
    }

    /// Returns the node that `child`, found in a node of `height`, refers to.
    /// Rejects a node that does not match the description in `child`, so that
    /// even in a malicious tree a descent takes no more steps than the height
    /// of its root.
    pub(crate) async fn child<I: TreeItem>(
        &self,
        child: &Child<I>,
        height: u8,
    ) -> Result<Arc<Node<I>>> {
        let node = self.node::<I>(child.hash).await?;
        if child.describes(&node, height) {
            return Ok(node);
        }
        let key = ObjectKey {
            kind: I::KIND,
            hash: child.hash,
        };
        Err(Error::Damaged {
            key,
            source: DecodeError::Items,
        })
    }

    /// Returns nodes, which must all be stored, in the order of `hashes`. One
    /// call to the store reads those that are not cached.
    pub(crate) async fn nodes<I: TreeItem>(&self, hashes: &[Hash]) -> Result<Vec<Arc<Node<I>>>> {
        let mut nodes: Vec<Option<Arc<Node<I>>>> =
            hashes.iter().map(|hash| self.cached(*hash)).collect();
        let missing: Vec<_> = hashes
            .iter()
            .zip(&nodes)
            .filter(|(_, node)| node.is_none())
            .map(|(hash, _)| ObjectKey {
                kind: I::KIND,
                hash: *hash,
            })
            .collect();
        if !missing.is_empty() {
            let found = self.store.get(self.tenant, &missing).await?;
            let mut loaded = missing.into_iter().zip(found);
            for node in nodes.iter_mut().filter(|node| node.is_none()) {
                let Some((key, data)) = loaded.next() else {
                    break;
                };
                *node = Some(self.admit::<I>(key, data)?);
            }
        }
        Ok(nodes.into_iter().flatten().collect())
    }

    /// Whether a node is cached.
    pub(crate) fn is_cached<I: TreeItem>(&self, hash: Hash) -> bool {
        self.cache.0.contains_key(&self.cache_key::<I>(hash))
    }

    fn cached<I: TreeItem>(&self, hash: Hash) -> Option<Arc<Node<I>>> {
        let found = self.cache.0.get(&self.cache_key::<I>(hash))?;
        I::from_cached(&found)
    }

    fn cache_key<I: TreeItem>(&self, hash: Hash) -> (TenantId, ObjectKey) {
        let kind = I::KIND;
        (self.tenant, ObjectKey { kind, hash })
    }

    fn admit<I: TreeItem>(&self, key: ObjectKey, data: Option<Bytes>) -> Result<Arc<Node<I>>> {
        let data = data.ok_or(Error::MissingObject(key))?;
        let node = Node::decode(&data).map_err(|source| Error::Damaged { key, source })?;
        let node = Arc::new(node);
        self.remember(key.hash, &node, data.len());
        Ok(node)
    }

    /// Caches a node that was just created, so that it need not be read back.
    pub(crate) fn remember<I: TreeItem>(&self, hash: Hash, node: &Arc<Node<I>>, bytes: usize) {
        let cached = CachedNode {
            node: I::to_cached(node.clone()),
            bytes,
        };
        self.cache.0.insert(self.cache_key::<I>(hash), cached);
    }

    /// Turns finished nodes into objects to be stored, and caches them.
    pub(crate) fn objects<I: TreeItem>(&self, nodes: Vec<NewNode<I>>) -> Vec<Object> {
        nodes
            .into_iter()
            .map(|new| {
                self.remember(new.hash, &new.node, new.data.len());
                Object {
                    key: ObjectKey {
                        kind: I::KIND,
                        hash: new.hash,
                    },
                    data: new.data,
                }
            })
            .collect()
    }
}
