//! The content of one file: building it from chunks, reading a range of it,
//! and replacing a range at the cost of the range.

use std::collections::VecDeque;
use std::sync::{Arc, LazyLock};

use bytes::{Bytes, BytesMut};
use elevo_objects::{
    Child, ChunkItem, Content, DecodeError, Hash, Kind, LOOK_AHEAD, MAX_CHUNK, MAX_FILE_BYTES,
    MAX_ITEMS, NewNode, Node, ObjectKey, Root, Run, TreeBuilder, cut,
};
use futures::future::BoxFuture;

use crate::error::{Error, Result};
use crate::repository::Repository;
use crate::store::Object;
use crate::tree::step_down;

/// How many chunks are asked for in one call when reading on.
const CHUNKS_AHEAD: usize = 16;

/// As much room is made for a read before there is anything to put into it.
const LARGE_READ: u64 = 4 * 1024 * 1024;

/// New chunks beyond this are stored ahead of the commit.
const SPILL_BYTES: usize = 8 * 1024 * 1024;

/// Holes of a file: the chunk that zeros are cut into, and how many of it a
/// larger run begins with, without reading it.
pub(crate) struct Zeros {
    run: Run<ChunkItem>,
    chunk: Bytes,
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
    fn item(&self) -> ChunkItem {
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

/// Puts a file's content together from its chunks in order.
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

    /// Appends a chunk that is stored already.
    fn push_item(&mut self, item: ChunkItem) {
        self.first.get_or_insert(item);
        self.chunks += 1;
        self.size += item.size;
        self.list.push(item);
    }

    /// Appends a chunk of zeros so many times, at the cost of a few.
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

    /// Appends many chunks that are listed by a node already.
    fn push_subtree(&mut self, child: Child<ChunkItem>, height: u8) {
        self.chunks += child.totals.items;
        self.size += child.totals.bytes;
        self.list.push_subtree(child, height);
    }

    /// What is finished and not taken yet. For a file of unknown size, take it
    /// now and then.
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

    /// The content, and the objects not taken yet.
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

/// The content of bytes that are in memory as a whole, and the objects it needs.
pub fn content_of(mut data: Bytes) -> (Content, Vec<Object>) {
    if data.is_empty() {
        return (Content::Empty, Vec::new());
    }
    if cut(&data) == data.len() {
        // Most files are, and need no list.
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

/// What a file goes on with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    /// Bytes.
    Data(Bytes),
    /// So many zeros.
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
    /// Opens `content` at the chunk that holds byte `offset`; returns also
    /// where that chunk starts. At or past the end, reads nothing.
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

    /// The next chunk's bytes.
    pub async fn next(&mut self) -> Result<Option<Bytes>> {
        self.next_of(CHUNKS_AHEAD).await
    }

    /// What comes next, where zeros need not be read.
    pub async fn next_piece(&mut self) -> Result<Option<Piece>> {
        if self.ready.is_empty() {
            match self.skip_zeros().await? {
                0 => {}
                zeros => return Ok(Some(Piece::Zeros(zeros))),
            }
        }
        Ok(self.next().await?.map(Piece::Data))
    }

    /// Leaves out the chunks of zeros that come next; how many bytes those were.
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

    /// The same, fetching at most `ahead` chunks at once.
    pub(crate) async fn next_of(&mut self, ahead: usize) -> Result<Option<Bytes>> {
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
                    // Where zeros begin, whoever reads may leave them out.
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

/// Which item or child of `node` holds byte `offset`, given that the node
/// starts at `start`; moves `start` to where that one starts.
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

/// Bytes `offset..offset + length` of a file, fewer where it ends before.
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
    // At once, unless whoever asks for it wants very much.
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

/// Replaces `remove` bytes at `offset` by `insert`; a file shorter than
/// `offset` is first filled up with zeros. Reads and hashes only the
/// surroundings, and gives the same content as writing the file anew.
pub(crate) async fn splice(
    repository: &Repository,
    content: &Content,
    offset: u64,
    remove: u64,
    insert: Bytes,
) -> Result<(Content, Vec<Object>)> {
    let size = content.size();
    let gap = offset.saturating_sub(size);
    let edit = Edit {
        start: offset.min(size),
        old_end: offset.saturating_add(remove).min(size),
        gap,
        insert,
    };
    edit.check(size)?;
    let mut splicer = Splicer::open(repository, content, edit).await?;
    splicer.cut_until_in_step().await?;
    splicer.finish(content).await
}

struct Edit {
    /// Where the replaced range starts and ends in the old file.
    start: u64,
    old_end: u64,
    /// Zeros to put in, and bytes after them.
    gap: u64,
    insert: Bytes,
}

impl Edit {
    /// Refuses an edit that makes the file larger than a file can be.
    fn check(&self, size: u64) -> Result<()> {
        let after = self
            .new_end()
            .and_then(|end| end.checked_add(size - self.old_end));
        match after {
            Some(after) if after <= MAX_FILE_BYTES => Ok(()),
            _ => Err(Error::OutOfRange),
        }
    }

    /// Where the inserted range ends in the new file.
    fn new_end(&self) -> Option<u64> {
        self.start
            .checked_add(self.gap)?
            .checked_add(self.insert.len() as u64)
    }
}

struct Splicer {
    repository: Repository,
    edit: Edit,
    /// Chunks of the old file before this are kept.
    keep_before: u64,
    /// Chunks of the old file from here on are kept; set when in step.
    keep_from: u64,
    /// Old bytes after the edit, and where their next chunk starts.
    rest: ChunkReader,
    rest_at: u64,
    /// Where old chunks after the edit start, as far as `rest` has been read
    /// and new chunks have not passed them.
    starts: VecDeque<u64>,
    /// Bytes of the new file from `at` on that are not cut yet.
    buffer: BytesMut,
    at: u64,
    /// New chunks, and how often each comes.
    chunks: Vec<(ChunkItem, u64)>,
    /// The bytes of new chunks, as far as they are not stored already.
    objects: Vec<Object>,
    object_bytes: usize,
}

impl Splicer {
    async fn open(repository: &Repository, content: &Content, edit: Edit) -> Result<Self> {
        let look_back = edit.start.saturating_sub(LOOK_AHEAD as u64);
        let (mut before, keep_before) = ChunkReader::open(repository, content, look_back).await?;
        let mut buffer = BytesMut::new();
        while keep_before + (buffer.len() as u64) < edit.start {
            match before.next_of(1).await? {
                Some(chunk) => buffer.extend_from_slice(&chunk),
                None => break,
            }
        }
        buffer.truncate((edit.start - keep_before) as usize);
        let (mut rest, mut rest_at) = ChunkReader::open(repository, content, edit.old_end).await?;
        let mut tail = Bytes::new();
        if rest_at < edit.old_end
            && let Some(chunk) = rest.next_of(1).await?
        {
            let chunk_end = rest_at + chunk.len() as u64;
            tail = chunk.slice((edit.old_end - rest_at) as usize..);
            rest_at = chunk_end;
        }
        let mut splicer = Self {
            repository: repository.clone(),
            keep_before,
            keep_from: content.size(),
            rest,
            rest_at,
            starts: VecDeque::from([rest_at]),
            buffer,
            at: keep_before,
            chunks: Vec::new(),
            objects: Vec::new(),
            object_bytes: 0,
            edit,
        };
        splicer.fill_gap().await?;
        let insert = splicer.edit.insert.clone();
        splicer.append(&insert).await?;
        splicer.append(&tail).await?;
        Ok(splicer)
    }

    /// Zeros are cut as they are put in, so that a large gap needs no memory, and
    /// are counted once nothing but zeros is cut.
    async fn fill_gap(&mut self) -> Result<()> {
        let mut left = self.edit.gap;
        while left > 0 {
            // From there on, all that is not cut yet is zeros.
            let only_zeros = self.at >= self.edit.start;
            if let Some((last, count)) = self.chunks.last_mut()
                && *last == ZEROS.item()
                && only_zeros
            {
                let zeros = left + self.buffer.len() as u64;
                let chunks = ZEROS.chunks_in(zeros);
                *count += chunks;
                self.at += ZEROS.bytes_of(chunks);
                left = zeros - ZEROS.bytes_of(chunks);
                self.buffer.clear();
                self.buffer.resize(left as usize, 0);
                break;
            }
            let step = left.min(2 * MAX_CHUNK as u64);
            self.buffer.resize(self.buffer.len() + step as usize, 0);
            left -= step;
            self.cut_full_windows().await?;
        }
        Ok(())
    }

    async fn append(&mut self, data: &[u8]) -> Result<()> {
        for step in data.chunks(4 * MAX_CHUNK) {
            self.buffer.extend_from_slice(step);
            self.cut_full_windows().await?;
        }
        Ok(())
    }

    async fn cut_full_windows(&mut self) -> Result<()> {
        while self.buffer.len() >= 2 * MAX_CHUNK {
            self.cut_one().await?;
        }
        Ok(())
    }

    async fn cut_one(&mut self) -> Result<()> {
        let length = cut(&self.buffer);
        let data = Bytes::copy_from_slice(&self.buffer.split_to(length));
        let item = ChunkItem {
            hash: Kind::Chunk.hash(&data),
            size: length as u64,
        };
        self.at += item.size;
        match self.chunks.last_mut() {
            Some((last, count)) if *last == item => *count += 1,
            _ => {
                self.object_bytes += length;
                self.objects.push(Object {
                    key: chunk_key(item.hash),
                    data,
                });
                self.chunks.push((item, 1));
            }
        }
        if self.object_bytes > SPILL_BYTES {
            let objects = std::mem::take(&mut self.objects);
            self.object_bytes = 0;
            self.repository.put_ahead(objects).await?;
        }
        Ok(())
    }

    /// Cuts on until a new chunk ends where an old one started behind the
    /// edit; from there on the two files are cut alike.
    async fn cut_until_in_step(&mut self) -> Result<()> {
        let new_end = self.edit.new_end().ok_or(Error::OutOfRange)?;
        loop {
            if self.at >= new_end {
                let old = self.at - new_end + self.edit.old_end;
                while self.starts.pop_front_if(|start| *start < old).is_some() {}
                if self.starts.front() == Some(&old) {
                    self.keep_from = old;
                    self.buffer.clear();
                    return Ok(());
                }
            }
            while self.buffer.len() < MAX_CHUNK
                && let Some(chunk) = self.rest.next_of(2).await?
            {
                self.rest_at += chunk.len() as u64;
                self.starts.push_back(self.rest_at);
                self.buffer.extend_from_slice(&chunk);
            }
            if self.buffer.is_empty() {
                return Ok(());
            }
            self.cut_one().await?;
        }
    }

    /// The list of the new file: old chunks before, new ones, old ones after.
    async fn finish(mut self, content: &Content) -> Result<(Content, Vec<Object>)> {
        let mut builder = ContentBuilder::default();
        let (keep_before, keep_from) = (self.keep_before, self.keep_from);
        self.copy_old(content, &mut builder, 0, keep_before).await?;
        for (item, count) in std::mem::take(&mut self.chunks) {
            builder.push_run(item, count);
        }
        self.copy_old(content, &mut builder, keep_from, content.size())
            .await?;
        let root = builder.list.finish();
        if builder.chunks == 1 && builder.first.is_none() {
            builder.first = self.only_chunk(root.as_ref()).await?;
        }
        let content = match builder.content(root.clone()) {
            Content::List { size, .. } => {
                let made = builder.list.take_finished();
                let hash = self.list_root(root, &made).await?;
                self.objects.extend(self.repository.objects(made));
                Content::List { hash, size }
            }
            other => other,
        };
        Ok((content, self.objects))
    }

    /// The root of the new list, which may be an old node with one child.
    async fn list_root(&self, root: Option<Root>, made: &[NewNode<ChunkItem>]) -> Result<Hash> {
        let root = root.ok_or(Error::OutOfRange)?;
        if made.iter().any(|new| new.hash == root.hash) {
            return Ok(root.hash);
        }
        Ok(step_down::<ChunkItem>(&self.repository, root).await?.hash)
    }

    /// The only chunk of an old list whose other chunks are gone.
    async fn only_chunk(&self, root: Option<&Root>) -> Result<Option<ChunkItem>> {
        let Some(root) = root else { return Ok(None) };
        let root = step_down::<ChunkItem>(&self.repository, root.clone()).await?;
        match &*self.repository.node::<ChunkItem>(root.hash).await? {
            Node::Leaf(items) => Ok(items.first().copied()),
            Node::Index { .. } => Ok(None),
        }
    }

    async fn copy_old(
        &self,
        content: &Content,
        builder: &mut ContentBuilder,
        from: u64,
        to: u64,
    ) -> Result<()> {
        if from >= to {
            return Ok(());
        }
        match content {
            Content::Empty => {}
            Content::Chunk { hash, size } => {
                builder.push_item(ChunkItem {
                    hash: *hash,
                    size: *size,
                });
            }
            Content::List { hash, .. } => {
                let root = self.repository.node::<ChunkItem>(*hash).await?;
                copy_range(&self.repository, builder, root, 0, from..to).await?;
            }
        }
        Ok(())
    }
}

/// Feeds the chunks of `node` that lie in `range` to the builder, whole
/// subtrees by reference where it is aligned. The node starts at byte `start`;
/// the range starts and ends between chunks.
fn copy_range<'a>(
    repository: &'a Repository,
    builder: &'a mut ContentBuilder,
    node: Arc<Node<ChunkItem>>,
    mut start: u64,
    range: std::ops::Range<u64>,
) -> BoxFuture<'a, Result<()>> {
    Box::pin(async move {
        match &*node {
            Node::Leaf(items) => {
                for item in items {
                    if range.contains(&start) {
                        builder.push_item(*item);
                    }
                    start += item.size;
                }
            }
            Node::Index { children, height } => {
                for child in children {
                    let end = start.saturating_add(child.totals.bytes);
                    let inside = range.start <= start && end <= range.end;
                    if inside && builder.list.is_aligned(height - 1) {
                        builder.push_subtree(child.clone(), height - 1);
                    } else if start < range.end && range.start < end {
                        let below = repository.child(child, *height).await?;
                        copy_range(repository, builder, below, start, range.clone()).await?;
                    }
                    start = end;
                }
            }
        }
        Ok(())
    })
}
