//! Commits that build on earlier snapshots, some of which may be garbage, and move
//! refs that only this role moves.

use std::collections::BTreeMap;

use bytes::Bytes;
use elevo_core::{Timestamp, TreePath};
use elevo_engine::{
    Attributes, Commit, CommitInfo, Error, Expected, ReferenceUpdate, StateTree, Store, StoreError,
    Writer,
};
use elevo_objects::SnapshotId;
use elevo_testkit::crash::Victim;
use rand::rngs::SmallRng;
use rand::{Rng, RngExt, SeedableRng};

use super::{Line, NONE, Process, TENANT, read_whole};

/// Refs of this role.
const REFS: usize = 4;
/// Snapshots that are remembered, and may be garbage.
const RECENT: usize = 12;
/// Number of different contents. Garbage is soon written again.
const CONTENTS: u64 = 12;
/// Size of a large content, of which one is more than a commit in one statement.
const LARGE: usize = 24 << 10;

struct Committer {
    process: Process,
    /// The values of the refs. The name of a deleted ref is not used again.
    heads: BTreeMap<String, SnapshotId>,
    recent: Vec<SnapshotId>,
    commits: u64,
}

pub(super) async fn work(process: Process) -> Victim {
    let mut committer = Committer {
        process,
        heads: BTreeMap::new(),
        recent: Vec::new(),
        commits: 0,
    };
    let read = committer.read_heads().await;
    let mut is_lost = committer.process.is_lost(read).await;
    while !is_lost {
        let step = committer.step().await;
        is_lost = committer.process.is_lost(step).await;
    }
    committer.process.victim
}

fn content(which: u64) -> Bytes {
    if which.is_multiple_of(3) {
        let mut bytes = vec![0; LARGE];
        SmallRng::seed_from_u64(which).fill_bytes(&mut bytes);
        return bytes.into();
    }
    Bytes::from(format!("content {which} ").repeat(8))
}

impl Committer {
    async fn read_heads(&mut self) -> Result<(), Error> {
        let (store, prefix) = (&self.process.store, format!("{}/", self.process.role));
        let heads = store.list_references(TENANT, &prefix, None, 100).await?;
        self.heads = heads.into_iter().collect();
        Ok(())
    }

    async fn step(&mut self) -> Result<(), Error> {
        if self.heads.len() < REFS {
            let name = format!("{}/{}", self.process.role, self.process.random.next_u64());
            return self.commit_to(name, None).await;
        }
        let which = self.process.random.random_range(0..REFS);
        let head = self.heads.iter().nth(which);
        let (name, head) = head.map(|(name, head)| (name.clone(), *head)).unwrap();
        if self.process.chance(0.1) {
            return self.delete(name, head).await;
        }
        if self.process.chance(0.2) {
            return self.read(&name, head).await;
        }
        self.commit_to(name, Some(head)).await
    }

    /// Reads the snapshot of a ref. A commit of an earlier process may still move it.
    async fn read(&mut self, name: &str, head: SnapshotId) -> Result<(), Error> {
        match read_whole(&self.process.repository(), head).await {
            Err(Error::NoSuchSnapshot(_)) => {
                self.read_heads().await?;
                assert_ne!(self.heads.get(name), Some(&head), "{name} has lost {head}");
                Ok(())
            }
            read => read,
        }
    }

    async fn delete(&mut self, name: String, head: SnapshotId) -> Result<(), Error> {
        let commit = Commit {
            references: vec![ReferenceUpdate {
                name: name.clone(),
                expected: Expected::At(head),
                target: None,
            }],
            ..Commit::default()
        };
        self.commit(name, None, commit).await
    }

    /// Returns a snapshot to build on, which may be garbage.
    async fn base(&mut self, head: Option<SnapshotId>) -> Result<Option<SnapshotId>, Error> {
        let count = self.recent.len();
        if count > 0 && self.process.chance(0.4) {
            return Ok(Some(
                self.recent[self.process.random.random_range(0..count)],
            ));
        }
        if self.process.chance(0.4) {
            return Ok(self.process.any_ref().await?.map(|(_, id)| id));
        }
        Ok(head)
    }

    async fn commit_to(&mut self, name: String, head: Option<SnapshotId>) -> Result<(), Error> {
        let repository = self.process.repository();
        let base = self.base(head).await?;
        let tree = match base {
            None => StateTree::empty(&repository),
            Some(base) => match StateTree::open(&repository, base).await {
                // Garbage, unless it is the value of the ref.
                Err(Error::NoSuchSnapshot(_)) => return self.read_or_pass(&name, head, base).await,
                tree => tree?,
            },
        };
        self.process.pause(40).await;
        for _ in 0..self.process.random.random_range(1..4) {
            let random = &mut self.process.random;
            let (d, f) = (random.random_range(0..3), random.random_range(0..4));
            let path = TreePath::new(format!("d{d}/f{f}")).unwrap();
            let attributes = Attributes {
                mode: None,
                modified: Timestamp::new(random.random_range(0..3), 0),
            };
            let content = content(random.random_range(0..CONTENTS));
            tree.write(&path, content, attributes).await?;
        }
        self.process.pause(100).await;
        self.commits += 1;
        let info = CommitInfo {
            // Most commits leave the one before as garbage.
            parents: base
                .into_iter()
                .filter(|_| self.process.chance(0.2))
                .collect(),
            author: self.process.role.clone(),
            message: format!("{} of {}", self.commits, self.process.victim.seed()),
            created: Timestamp::EPOCH,
            labels: BTreeMap::new(),
            reference: Some((name.clone(), head.map_or(Expected::Absent, Expected::At))),
        };
        let (id, mut commit) = tree.staged(info).await?;
        let _writer = match self.process.chance(0.3) {
            true => Some(self.put_ahead(&mut commit).await?),
            false => None,
        };
        self.commit(name, Some(id), commit).await
    }

    async fn read_or_pass(
        &mut self,
        name: &str,
        head: Option<SnapshotId>,
        base: SnapshotId,
    ) -> Result<(), Error> {
        self.recent.retain(|id| *id != base);
        match head {
            Some(head) if head == base => self.read(name, head).await,
            _ => Ok(()),
        }
    }

    /// Puts the objects of a commit that are not stored, and commits the others
    /// without a word about them.
    async fn put_ahead(&mut self, commit: &mut Commit) -> Result<Writer, Error> {
        let store = self.process.store.clone();
        let writer = store.writing(TENANT).await?;
        let keys: Vec<_> = commit.objects.iter().map(|object| object.key).collect();
        let found = store.contains(TENANT, &keys).await?;
        let objects = std::mem::take(&mut commit.objects).into_iter().zip(found);
        let missing = objects
            .filter(|(_, found)| !found)
            .map(|(object, _)| object);
        self.process.pause(300).await;
        store.put(TENANT, &writer, missing.collect()).await?;
        commit.after.push(writer.id());
        Ok(writer)
    }

    async fn commit(
        &mut self,
        name: String,
        id: Option<SnapshotId>,
        commit: Commit,
    ) -> Result<(), Error> {
        let value = id.map_or(NONE.into(), |id| id.to_string());
        self.process.say(&Line::Tries(name.clone(), value.clone()));
        let committed = match self.process.store.commit(TENANT, commit).await {
            // Of a process that was killed, or the outcome of an unknown commit.
            Err(StoreError::ReferenceMoved { .. }) => return self.read_heads().await,
            Err(error) => {
                if let StoreError::Unknown(_) = error {
                    self.read_heads().await?;
                }
                return Err(error.into());
            }
            Ok(committed) => committed,
        };
        self.process.say(&Line::Moved(name.clone(), value));
        match id {
            Some(id) => {
                self.heads.insert(name, id);
                self.recent.push(id);
                if self.recent.len() > RECENT {
                    self.recent.remove(0);
                }
            }
            None => {
                self.heads.remove(&name);
            }
        }
        self.process.pause(20).await;
        drop(committed);
        Ok(())
    }
}
