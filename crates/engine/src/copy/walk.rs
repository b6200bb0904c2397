//! Walks the trees of a snapshot, and sends the objects that the target does
//! not have.

use std::collections::HashMap;

use bytes::Bytes;
use elevo_objects::{Kind, ObjectKey, Snapshot, SnapshotId};

use super::Copy;
use crate::error::Result;
use crate::gc::needs::{needed_by, roots_of, snapshot_key};
use crate::store::Object;
use crate::verify::{DamageKind, unreadable};

/// Objects looked up at a time.
const BATCH: usize = 256;
/// Objects read at a time, which bounds the memory: a chunk has up to 256 KiB.
const READ: usize = 64;
/// If more objects than this wait, nodes are read one at a time. The list then
/// grows by at most one path of a tree.
const MANY: usize = 100_000;

/// Bytes of an object, or the reason why it cannot be copied.
type Read = std::result::Result<Bytes, DamageKind>;

/// Nodes that were read, and the objects below them that were not, each with the
/// index of its node.
#[derive(Default)]
struct Level {
    nodes: Vec<Visited>,
    below: Vec<(ObjectKey, usize)>,
}

struct Visited {
    key: ObjectKey,
    /// Indexes of the nodes above it in the level above.
    above: Vec<usize>,
    /// Whether an object below it is damaged or missing.
    is_broken: bool,
}

impl Visited {
    const fn new(key: ObjectKey, above: Vec<usize>) -> Self {
        Self {
            key,
            above,
            is_broken: false,
        }
    }
}

impl Level {
    fn of_snapshot(id: SnapshotId, snapshot: &Snapshot) -> Self {
        let roots = roots_of(snapshot).into_iter();
        Self {
            nodes: vec![Visited::new(snapshot_key(id), Vec::new())],
            below: roots.map(|key| (key, 0)).collect(),
        }
    }

    fn note_broken(&mut self, nodes: &[usize]) {
        for node in nodes {
            self.nodes[*node].is_broken = true;
        }
    }
}

impl Copy<'_> {
    /// Walks everything below a snapshot; returns whether all of it is intact,
    /// and the target has it. Goes on after a damaged object: other snapshots
    /// need the intact ones.
    ///
    /// Nodes are remembered after everything below them. If an object is
    /// damaged, only the nodes above it are read again for the next snapshot
    /// that needs it.
    pub(super) async fn walk(&mut self, id: SnapshotId, snapshot: &Snapshot) -> Result<bool> {
        let mut levels = vec![Level::of_snapshot(id, snapshot)];
        let mut waiting = levels[0].below.len();
        while let Some(level) = levels.last_mut() {
            self.progress.check()?;
            let count = if waiting > MANY { 1 } else { BATCH };
            let rest = level.below.len().saturating_sub(count);
            let batch = level.below.split_off(rest);
            if batch.is_empty() {
                let done = levels.pop().unwrap_or_default();
                let Some(above) = levels.last_mut() else {
                    return Ok(done.nodes.iter().all(|snapshot| !snapshot.is_broken));
                };
                for node in done.nodes {
                    match node.is_broken {
                        true => above.note_broken(&node.above),
                        false => self.nodes.add(node.key),
                    }
                }
                continue;
            }
            waiting -= batch.len();
            let next = self.visit(batch, level).await?;
            waiting += next.below.len();
            levels.push(next);
        }
        Ok(true)
    }

    /// Sends those of the objects that the target does not have. Returns the
    /// nodes among them, and notes the damaged objects in the level above.
    async fn visit(&mut self, batch: Vec<(ObjectKey, usize)>, above: &mut Level) -> Result<Level> {
        let mut level = Level::default();
        let mut keys = Vec::with_capacity(batch.len());
        let mut nodes_above: HashMap<ObjectKey, Vec<usize>> = HashMap::new();
        for (key, node) in batch {
            if self.damage.contains_key(&key) {
                above.note_broken(&[node]);
            } else if !self.has(key) {
                let nodes = nodes_above.entry(key).or_default();
                if nodes.is_empty() {
                    keys.push(key);
                }
                nodes.push(node);
            }
        }
        if keys.is_empty() {
            return Ok(level);
        }
        let is_there = match &self.to {
            Some(to) => to.store.contains(self.tenant, &keys).await?,
            None => vec![false; keys.len()],
        };
        // Nodes that are there may lead to objects that are not.
        let mut wanted = Vec::new();
        for (key, is_there) in keys.into_iter().zip(is_there) {
            if is_there && key.kind == Kind::Chunk {
                self.chunks.add(key);
                self.progress.add(1, 0);
            } else {
                wanted.push((key, is_there));
            }
        }
        for wanted in wanted.chunks(READ) {
            let keys: Vec<_> = wanted.iter().map(|(key, _)| *key).collect();
            let mut objects = Vec::new();
            for ((key, is_there), read) in wanted.iter().zip(self.read(&keys).await?) {
                let mut below = Vec::new();
                let nodes = nodes_above.remove(key).unwrap_or_default();
                match read.and_then(|data| check(*key, data, &mut below)) {
                    Ok(_) if *is_there => {}
                    Ok(data) => objects.push(Object { key: *key, data }),
                    Err(kind) => {
                        self.damaged(*key, kind);
                        above.note_broken(&nodes);
                        continue;
                    }
                }
                if key.kind != Kind::Chunk {
                    let node = level.nodes.len();
                    level.below.extend(below.into_iter().map(|key| (key, node)));
                    level.nodes.push(Visited::new(*key, nodes));
                }
            }
            self.send(objects).await?;
        }
        Ok(level)
    }

    fn has(&mut self, key: ObjectKey) -> bool {
        match key.kind {
            Kind::Chunk => self.chunks.has(key),
            _ => self.nodes.has(key),
        }
    }

    /// Reads objects.
    async fn read(&mut self, keys: &[ObjectKey]) -> Result<Vec<Read>> {
        let mut read = Vec::with_capacity(keys.len());
        match self.from.get(self.tenant, keys).await {
            Ok(found) => read.extend(
                found
                    .into_iter()
                    .map(|data| data.ok_or(DamageKind::Missing)),
            ),
            Err(error) => {
                unreadable(error)?;
                // One of the objects is damaged; read them one by one.
                for key in keys {
                    read.push(match self.from.get(self.tenant, &[*key]).await {
                        Ok(found) => found
                            .into_iter()
                            .next()
                            .flatten()
                            .ok_or(DamageKind::Missing),
                        Err(error) => Err(unreadable(error)?),
                    });
                }
            }
        }
        for data in read.iter().flatten() {
            self.report.objects_read += 1;
            self.report.bytes_read += data.len() as u64;
            self.progress.add(1, data.len() as u64);
        }
        Ok(read)
    }

    /// Puts objects into the target.
    async fn send(&mut self, objects: Vec<Object>) -> Result<()> {
        let chunks = objects.iter().map(|object| object.key);
        let chunks: Vec<_> = chunks.filter(|key| key.kind == Kind::Chunk).collect();
        if let Some(to) = &self.to
            && !objects.is_empty()
        {
            let bytes: usize = objects.iter().map(|object| object.data.len()).sum();
            self.report.objects_sent += objects.len() as u64;
            self.report.bytes_sent += bytes as u64;
            self.unsettled += bytes;
            to.store.put(self.tenant, &to.writer, objects).await?;
        }
        chunks.into_iter().for_each(|key| self.chunks.add(key));
        if self.unsettled >= self.commit_bytes {
            self.settle().await?;
        }
        Ok(())
    }
}

/// Checks an object, and collects those that it refers to.
fn check(key: ObjectKey, data: Bytes, needed: &mut Vec<ObjectKey>) -> Read {
    if key.kind.hash(&data) != key.hash {
        return Err(DamageKind::HashMismatch);
    }
    match needed_by(key, &data, needed) {
        Ok(()) => Ok(data),
        Err(_) => Err(DamageKind::Undecodable),
    }
}
