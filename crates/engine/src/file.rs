//! The content of one file: building it from chunks, reading a range, and
//! replacing a range at the cost of the range.

mod splice;
mod zeros;

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use elevo_objects::{
    Child, ChunkItem, Content, DecodeError, Hash, Kind, MAX_CHUNK, MAX_ITEMS, Node, ObjectKey,
    Root, TreeBuilder, cut,
};

use crate::error::{Error, Result};
use crate::repository::Repository;
use crate::store::Object;

pub(crate) use splice::splice;
pub(crate) use zeros::ZEROS;

/// Maximum number of chunks that a sequential read loads in one call.
pub const CHUNKS_AHEAD: usize = 16;

/// Maximum bytes reserved for a read before its data is loaded.
const LARGE_READ: u64 = 4 * 1024 * 1024;

/// Builds a file's content from its chunks in order.
#[derive(Debug, Default)]
pub struct ContentBuilder {
    list: TreeBuilder<ChunkItem>,
    first: Option<ChunkItem>,
    chunks: u64,
    size: u64,
    objects: Vec<Object>,
}

impl ContentBuilder {
    /// Appends a chunk with its bytes.
    pub fn push(&mut self, data: Bytes) {
        let key = Kind::Chunk.key(&data);
        self.push_object(Object { key, data });
    }

    /// Appends a chunk whose hash is known.
    pub fn push_object(&mut self, chunk: Object) {
        let item = ChunkItem {
            hash: chunk.key.hash,
            size: chunk.data.len() as u64,
        };
        self.objects.push(chunk);
        self.push_item(item);
    }

    /// Appends a chunk that is already stored.
    fn push_item(&mut self, item: ChunkItem) {
        self.first.get_or_insert(item);
        self.chunks += 1;
        self.size += item.size;
        self.list.push(item);
    }

    /// Appends `chunks` chunks of zeros, at the cost of a few.
    pub(crate) fn push_zeros(&mut self, chunks: u64) {
        if chunks == 0 {
            return;
        }
        let item = ZEROS.item();
        self.objects.push(Object {
            key: chunk_key(item.hash),
            data: ZEROS.chunk.clone(),
        });
        self.push_run(item, chunks);
    }

    fn push_run(&mut self, item: ChunkItem, count: u64) {
        if item != ZEROS.item() {
            (0..count).for_each(|_| self.push_item(item));
            return;
        }
        self.first.get_or_insert(item);
        self.chunks += count;
        self.size += item.size * count;
        self.list.push_run(&ZEROS.run, count);
    }

    /// Appends the chunks of a subtree that is already stored.
    fn push_subtree(&mut self, child: Child<ChunkItem>, height: u8) {
        self.chunks += child.totals.items;
        self.size += child.totals.bytes;
        self.list.push_subtree(child, height);
    }

    /// Takes the objects finished so far. For a file of unknown size, call this
    /// regularly, or all of them stay in memory.
    pub fn take_objects(&mut self) -> Vec<Object> {
        if self.chunks > 1 {
            self.take_list();
        }
        std::mem::take(&mut self.objects)
    }

    fn take_list(&mut self) {
        let nodes = self.list.take_finished().into_iter();
        self.objects.extend(nodes.map(|new| Object {
            key: list_key(new.hash),
            data: new.data,
        }));
    }

    fn content(&self, root: Option<Root>) -> Content {
        match (self.chunks, self.first, root) {
            (0, _, _) | (_, _, None) => Content::Empty,
            (1, Some(only), _) => Content::Chunk {
                hash: only.hash,
                size: only.size,
            },
            (_, _, Some(root)) => Content::List {
                hash: root.hash,
                size: self.size,
            },
        }
    }

    /// Returns the content, and the objects not taken yet.
    pub fn finish(mut self) -> (Content, Vec<Object>) {
        let root = self.list.finish();
        let content = self.content(root);
        if matches!(content, Content::List { .. }) {
            self.take_list();
        }
        (content, self.objects)
    }
}

fn chunk_key(hash: Hash) -> ObjectKey {
    ObjectKey {
        kind: Kind::Chunk,
        hash,
    }
}

fn list_key(hash: Hash) -> ObjectKey {
    ObjectKey {
        kind: Kind::ChunkList,
        hash,
    }
}

/// Returns the content of bytes in memory, and the objects it needs.
pub fn content_of(mut data: Bytes) -> (Content, Vec<Object>) {
    if data.is_empty() {
        return (Content::Empty, Vec::new());
    }
    if cut(&data) == data.len() {
        // Most files are a single chunk and need no list.
        let key = Kind::Chunk.key(&data);
        let content = Content::Chunk {
            hash: key.hash,
            size: data.len() as u64,
        };
        return (content, vec![Object { key, data }]);
    }
    let mut builder = ContentBuilder::default();
    while !data.is_empty() {
        let chunk = data.split_to(cut(&data));
        builder.push(chunk);
    }
    builder.finish()
}

/// The next part of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FilePiece {
    /// Bytes.
    Data(Bytes),
    /// A number of zeros.
    Zeros(u64),
}

/// Reads a file's chunks in order.
#[derive(Debug)]
pub struct ChunkReader {
    repository: Repository,
    stack: Vec<(Arc<Node<ChunkItem>>, usize)>,
    /// Chunks fetched ahead, in reverse.
    ready: Vec<Bytes>,
}

impl ChunkReader {
    /// Opens `content` at the chunk that contains byte `offset`; also returns
    /// the start of that chunk. At or past the end, the reader is empty and the
    /// start is the size of `content`.
    pub async fn open(
        repository: &Repository,
        content: &Content,
        offset: u64,
    ) -> Result<(Self, u64)> {
        let mut reader = Self {
            repository: repository.clone(),
            stack: Vec::new(),
            ready: Vec::new(),
        };
        if offset >= content.size() {
            return Ok((reader, content.size()));
        }
        let mut start = 0;
        match content {
            Content::Empty => {}
            Content::Chunk { hash, size } => {
                let only = Node::Leaf(vec![ChunkItem {
                    hash: *hash,
                    size: *size,
                }]);
                reader.stack.push((Arc::new(only), 0));
            }
            Content::List { hash, .. } => {
                let mut next = Some(repository.node::<ChunkItem>(*hash).await?);
                while let Some(node) = next {
                    let at = skip_to(&node, offset, &mut start);
                    next = match &*node {
                        Node::Index { children, height } => match children.get(at) {
                            Some(child) => Some(repository.child(child, *height).await?),
                            None => None,
                        },
                        Node::Leaf(_) => None,
                    };
                    let is_leaf = node.height() == 0;
                    reader.stack.push((node, if is_leaf { at } else { at + 1 }));
                }
            }
        }
        Ok((reader, start))
    }

    /// Returns the bytes of the next chunk.
    pub async fn next(&mut self) -> Result<Option<Bytes>> {
        self.next_of(CHUNKS_AHEAD).await
    }

    /// Returns the next piece, without reading zeros.
    pub async fn next_piece(&mut self) -> Result<Option<FilePiece>> {
        if self.ready.is_empty() {
            match self.skip_zeros().await? {
                0 => {}
                zeros => return Ok(Some(FilePiece::Zeros(zeros))),
            }
        }
        Ok(self.next().await?.map(FilePiece::Data))
    }

    /// Skips the following chunks of zeros, and returns their number of bytes.
    async fn skip_zeros(&mut self) -> Result<u64> {
        let mut skipped = 0;
        while let Some((node, at)) = self.stack.last_mut() {
            let below = match &**node {
                Node::Leaf(items) => match items.get(*at) {
                    Some(item) if *item == ZEROS.item() => {
                        *at += 1;
                        skipped += item.size;
                        continue;
                    }
                    Some(_) => break,
                    None => None,
                },
                Node::Index { children, height } => match children.get(*at) {
                    Some(child) if ZEROS.run.is_node(height - 1, &child.hash) => {
                        *at += 1;
                        skipped += child.totals.bytes;
                        continue;
                    }
                    Some(child) => Some(self.repository.child(child, *height).await?),
                    None => None,
                },
            };
            match below {
                Some(below) => {
                    *at += 1;
                    self.stack.push((below, 0));
                }
                None => drop(self.stack.pop()),
            }
        }
        Ok(skipped)
    }

    /// Returns the next chunk, loading at most `ahead` chunks at once.
    pub async fn next_of(&mut self, ahead: usize) -> Result<Option<Bytes>> {
        if self.ready.is_empty() {
            let items = self.next_items(ahead).await?;
            let hashes: Vec<_> = items.iter().map(|item| item.hash).collect();
            self.ready = self.repository.chunks(&hashes).await?;
            for (item, chunk) in items.iter().zip(&self.ready) {
                if item.size != chunk.len() as u64 {
                    let (key, source) = (chunk_key(item.hash), DecodeError::Number);
                    return Err(Error::Damaged { key, source });
                }
            }
            self.ready.reverse();
        }
        Ok(self.ready.pop())
    }

    async fn next_items(&mut self, limit: usize) -> Result<Vec<ChunkItem>> {
        while let Some((node, at)) = self.stack.pop() {
            match &*node {
                Node::Leaf(items) if at < items.len() => {
                    let mut end = items.len().min(at + limit);
                    // Stop where zeros begin, so that the caller can skip them.
                    let zeros = items[at..end].iter().position(|item| *item == ZEROS.item());
                    if let Some(zeros @ 1..) = zeros {
                        end = at + zeros;
                    }
                    self.stack.push((node.clone(), end));
                    return Ok(items[at..end].to_vec());
                }
                Node::Leaf(_) => {}
                Node::Index { children, height } => {
                    let Some(child) = children.get(at) else {
                        continue;
                    };
                    let below = self.repository.child(child, *height).await?;
                    self.stack.push((node.clone(), at + 1));
                    self.stack.push((below, 0));
                }
            }
        }
        Ok(Vec::new())
    }
}

/// Returns the index of the item or child of `node` that contains byte
/// `offset`, for a node that starts at `start`; advances `start` to the start
/// of that item.
fn skip_to(node: &Node<ChunkItem>, offset: u64, start: &mut u64) -> usize {
    let sizes: &mut dyn Iterator<Item = u64> = match node {
        Node::Leaf(items) => &mut items.iter().map(|item| item.size),
        Node::Index { children, .. } => &mut children.iter().map(|child| child.totals.bytes),
    };
    let mut at = 0;
    for size in sizes {
        if start.saturating_add(size) > offset {
            break;
        }
        *start += size;
        at += 1;
    }
    at
}

/// Target of [`seek`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SeekTarget {
    /// Data: anything but a long run of zeros.
    Data,
    /// A long run of zeros, or the end.
    Hole,
}

/// Returns the first position at or after `offset` where data or a hole is;
/// `None` if there is none. Reads no content.
pub async fn seek(
    repository: &Repository,
    content: &Content,
    offset: u64,
    what: SeekTarget,
) -> Result<Option<u64>> {
    if offset >= content.size() {
        return Ok(None);
    }
    let (mut reader, mut position) = ChunkReader::open(repository, content, offset).await?;
    if what == SeekTarget::Data {
        position += reader.skip_zeros().await?;
        return Ok((position < content.size()).then_some(position.max(offset)));
    }
    loop {
        let items = reader.next_items(MAX_ITEMS).await?;
        if items.first().is_none_or(|item| *item == ZEROS.item()) {
            return Ok(Some(position.max(offset)));
        }
        position += items.iter().map(|item| item.size).sum::<u64>();
    }
}

/// Returns bytes `offset..offset + length` of a file, fewer at its end.
pub async fn read_range(
    repository: &Repository,
    content: &Content,
    offset: u64,
    length: usize,
) -> Result<Bytes> {
    let end = offset.saturating_add(length as u64).min(content.size());
    if offset >= end {
        return Ok(Bytes::new());
    }
    let (mut reader, mut position) = ChunkReader::open(repository, content, offset).await?;
    // Reserve everything at once, except for a very large read.
    let room = (end - offset).min(LARGE_READ) as usize;
    let mut read = BytesMut::new();
    while position < end {
        let wanted = ((end - position) / MAX_CHUNK as u64 + 1).min(CHUNKS_AHEAD as u64);
        let Some(chunk) = reader.next_of(wanted as usize).await? else {
            break;
        };
        let from = offset.saturating_sub(position).min(chunk.len() as u64) as usize;
        let to = (end - position).min(chunk.len() as u64) as usize;
        position += chunk.len() as u64;
        if read.is_empty() && position >= end {
            return Ok(chunk.slice(from..to));
        }
        if read.is_empty() {
            read.reserve(room);
        }
        read.extend_from_slice(&chunk[from..to]);
    }
    Ok(read.freeze())
}
