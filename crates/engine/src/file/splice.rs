//! Replaces a range of a file, at the cost of the range and its surroundings.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use elevo_objects::{
    ChunkItem, Content, Hash, Kind, LOOK_AHEAD, MAX_CHUNK, MAX_FILE_BYTES, NewNode, Node, Root, cut,
};
use futures::future::BoxFuture;

use super::{ChunkReader, ContentBuilder, ZEROS, chunk_key};
use crate::error::{Error, Result};
use crate::repository::Repository;
use crate::store::Object;
use crate::tree::step_down;

/// Maximum bytes of new chunks in memory; more are stored ahead of the commit.
const SPILL_BYTES: usize = 8 * 1024 * 1024;

/// Replaces `remove` bytes at `offset` by `insert`; a file shorter than
/// `offset` is first extended with zeros. Reads and hashes only the
/// surroundings, and gives the same content as writing the whole file again.
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
    /// Start and end of the replaced range in the old file.
    start: u64,
    old_end: u64,
    /// Number of zeros to insert, and the bytes to insert after them.
    gap: u64,
    insert: Bytes,
}

impl Edit {
    /// Rejects an edit that exceeds the maximum size of a file.
    fn check(&self, size: u64) -> Result<()> {
        let after = self
            .new_end()
            .and_then(|end| end.checked_add(size - self.old_end));
        match after {
            Some(after) if after <= MAX_FILE_BYTES => Ok(()),
            _ => Err(Error::OutOfRange),
        }
    }

    /// End of the inserted range in the new file.
    fn new_end(&self) -> Option<u64> {
        self.start
            .checked_add(self.gap)?
            .checked_add(self.insert.len() as u64)
    }
}

struct Splicer {
    repository: Repository,
    edit: Edit,
    /// Old chunks before this position are kept.
    keep_before: u64,
    /// Old chunks from this position on are kept. Set when the end of a new
    /// chunk coincides with the start of an old one.
    keep_from: u64,
    /// Reads the old bytes after the edit; `rest_at` is the start of its next
    /// chunk.
    rest: ChunkReader,
    rest_at: u64,
    /// Starts of old chunks after the edit that `rest` has read and that new
    /// chunks have not passed yet.
    starts: VecDeque<u64>,
    /// Bytes of the new file from `at` on that are not cut into chunks yet.
    buffer: BytesMut,
    at: u64,
    /// New chunks with their numbers of repetitions.
    chunks: Vec<(ChunkItem, u64)>,
    /// Bytes of new chunks that are not stored yet.
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

    /// Inserts the zeros of the gap, and cuts them into chunks at once, so that
    /// a large gap needs little memory. Chunks that consist only of zeros are
    /// counted instead of cut.
    async fn fill_gap(&mut self) -> Result<()> {
        let mut left = self.edit.gap;
        while left > 0 {
            // All bytes that are not cut yet are zeros.
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

    /// Cuts until a new chunk ends where an old one after the edit begins; from
    /// there on the chunks of both files are equal.
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

    /// Builds the list of the new file: old chunks before, new ones, old ones
    /// after.
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

    /// Returns the root of the new list. An old node with one child is replaced
    /// by its child.
    async fn list_root(&self, root: Option<Root>, made: &[NewNode<ChunkItem>]) -> Result<Hash> {
        let root = root.ok_or(Error::OutOfRange)?;
        if made.iter().any(|new| new.hash == root.hash) {
            return Ok(root.hash);
        }
        Ok(step_down::<ChunkItem>(&self.repository, root).await?.hash)
    }

    /// Returns the single chunk that is left of an old list.
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

/// Passes the chunks of `node` that lie in `range` to the builder, and whole
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
