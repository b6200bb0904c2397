//! The tables that all processes share, and the statements of clients on them.
//! A function is one statement, or one of the two steps of a statement that
//! reads the phase of the collection first.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};

use bytes::Bytes;
use elevo_engine::{Inspect, MemoryStore, Object, ReferenceUpdate, Store, StoreError, StoreResult};
use elevo_objects::{Kind, ObjectKey, Snapshot, SnapshotId};
use futures::executor::block_on;

use super::Rule;
use crate::sim::TENANT;

/// The database.
#[derive(Clone)]
pub struct Database(Arc<Mutex<Tables>>);

#[derive(Default)]
pub struct Tables {
    /// The rule that is not kept.
    pub without: Option<Rule>,
    pub objects: BTreeMap<ObjectKey, ObjectRow>,
    pub snapshots: BTreeMap<SnapshotId, SnapshotRow>,
    pub references: BTreeMap<String, SnapshotId>,
    pub sessions: BTreeMap<u64, SessionRow>,
    pub nodes: BTreeMap<u32, NodeRow>,
    pub rounds: BTreeMap<u64, Round>,
    pub vetoes: BTreeSet<(u64, SnapshotId)>,
    pub gc: Gc,
    /// Changes that are between their two steps, with their nodes. They hold
    /// shared locks on the phase, and on the state of the node.
    pub entered: BTreeMap<u64, u32>,
    /// The last number given to a row or a change.
    pub last: u64,
    pub counts: Counts,
}

/// Events of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub commits: usize,
    /// Collections that finished.
    pub collections: usize,
    /// Objects that collections deleted.
    pub swept: usize,
    /// Condemned snapshots that a node has vetoed.
    pub vetoes: usize,
    /// Processes that found out that others had declared them lost.
    pub lost: usize,
}

impl Counts {
    pub fn add(&mut self, other: Self) {
        self.commits += other.commits;
        self.collections += other.collections;
        self.swept += other.swept;
        self.vetoes += other.vetoes;
        self.lost += other.lost;
    }
}

pub struct ObjectRow {
    /// Number of the last collection during which the object was written or
    /// found.
    pub seen: u32,
    pub data: Bytes,
}

pub struct SnapshotRow {
    pub seen: u32,
    /// Number of the collection that will delete the snapshot.
    pub condemned: Option<u32>,
    /// Time when it was stored.
    pub made: u64,
    pub record: Snapshot,
}

#[derive(Clone, Copy)]
pub struct SessionRow {
    pub node: u32,
    /// Number of the collection that its writers have seen.
    pub number: u32,
}

pub struct NodeRow {
    pub is_live: bool,
    pub expires: u64,
    /// Last round that the node has acted on.
    pub acked: u64,
}

/// A call to all nodes.
#[derive(Clone, Copy, Debug)]
pub struct Round {
    pub seq: u64,
    pub number: u32,
    pub opens: bool,
}

#[derive(Default)]
pub struct Gc {
    pub number: u32,
    pub phase: Phase,
    pub node: u32,
    pub token: Option<u64>,
    /// Marks since the last full collection; `None` if the last collection did
    /// not finish.
    pub marks: Option<BTreeSet<ObjectKey>>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Phase {
    #[default]
    Idle,
    Marking,
    Sweeping,
    /// Sweeping, and objects were deleted.
    Deleting,
}

/// The state of the collection that a change has read.
#[derive(Clone, Copy)]
pub struct Seen {
    pub number: u32,
    pub phase: Phase,
}

/// A change between its two steps, until dropped.
pub struct Entered {
    database: Database,
    id: u64,
    pub seen: Seen,
}

impl Drop for Entered {
    fn drop(&mut self) {
        self.database.lock().entered.remove(&self.id);
    }
}

/// A snapshot as a holder finds it.
pub struct Found {
    pub record: Snapshot,
    pub is_condemned: bool,
    pub is_sweeping: bool,
}

impl Database {
    /// Creates tables with the content of a store.
    pub fn of(memory: &MemoryStore, without: Option<Rule>) -> Self {
        let mut tables = Tables {
            without,
            ..Tables::default()
        };
        for kind in [Kind::Chunk, Kind::ChunkList, Kind::Directory, Kind::Times] {
            let hashes = block_on(memory.list_objects(TENANT, kind, None, usize::MAX));
            for hash in hashes.expect("a list") {
                let key = ObjectKey { kind, hash };
                let data = block_on(memory.get(TENANT, &[key])).expect("an answer");
                let data = data.into_iter().flatten().next().expect("an object");
                tables.objects.insert(key, ObjectRow { seen: 0, data });
            }
        }
        let ids = block_on(memory.list_snapshots(TENANT, None, usize::MAX)).expect("a list");
        let records = block_on(memory.snapshots(TENANT, &ids)).expect("an answer");
        for (id, record) in ids.into_iter().zip(records) {
            let row = SnapshotRow {
                seen: 0,
                condemned: None,
                made: 0,
                record: record.expect("a snapshot"),
            };
            tables.snapshots.insert(id, row);
        }
        let heads = block_on(memory.list_references(TENANT, "", None, usize::MAX));
        tables.references.extend(heads.expect("a list"));
        Self(Arc::new(Mutex::new(tables)))
    }

    pub fn lock(&self) -> MutexGuard<'_, Tables> {
        self.0.lock().expect("no holder panics")
    }

    /// Takes the locks of a change by a node, and reads the phase.
    pub fn enter(&self, node: u32) -> StoreResult<Entered> {
        let mut tables = self.lock();
        tables.check_live(node)?;
        let id = tables.next();
        tables.entered.insert(id, node);
        let Gc { number, phase, .. } = tables.gc;
        Ok(Entered {
            database: self.clone(),
            id,
            seen: Seen { number, phase },
        })
    }
}

impl Tables {
    pub fn keeps(&self, rule: Rule) -> bool {
        self.without != Some(rule)
    }

    pub fn next(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    pub fn is_live(&self, node: u32) -> bool {
        self.nodes.get(&node).is_some_and(|node| node.is_live)
    }

    pub fn check_live(&self, node: u32) -> StoreResult<()> {
        match self.is_live(node) {
            true => Ok(()),
            false => Err(StoreError::Lost),
        }
    }

    /// Adds objects; during a collection, also keeps those that are there.
    pub fn add_objects(&mut self, seen: Seen, objects: &[Object]) {
        let raises = seen.phase != Phase::Idle && self.keeps(Rule::Seen);
        for Object { key, data } in objects {
            let row = self.objects.entry(*key).or_insert_with(|| ObjectRow {
                seen: seen.number,
                data: data.clone(),
            });
            if raises {
                row.seen = row.seen.max(seen.number);
            }
        }
    }

    /// Returns which objects are stored. During a collection, they are kept.
    pub fn find(&mut self, seen: Seen, keys: &[ObjectKey]) -> Vec<bool> {
        let raises = seen.phase != Phase::Idle && self.keeps(Rule::Seen);
        let mut find = |key: &ObjectKey| match self.objects.get_mut(key) {
            Some(row) => {
                if raises {
                    row.seen = row.seen.max(seen.number);
                }
                true
            }
            None => false,
        };
        keys.iter().map(&mut find).collect()
    }

    pub fn begin_session(&mut self, seen: Seen, node: u32) -> u64 {
        let id = self.next();
        let number = seen.number;
        self.sessions.insert(id, SessionRow { node, number });
        id
    }

    /// Commits objects, snapshots and moves of refs.
    pub fn commit(
        &mut self,
        (seen, now): (Seen, u64),
        objects: &[Object],
        snapshots: &[(SnapshotId, Snapshot)],
        updates: Vec<ReferenceUpdate>,
    ) -> StoreResult<()> {
        for (_, snapshot) in snapshots {
            let tree = snapshot.tree.root.map(|hash| (Kind::Directory, hash));
            let times = snapshot.times.map(|hash| (Kind::Times, hash));
            for (kind, hash) in tree.into_iter().chain(times) {
                let key = ObjectKey { kind, hash };
                let is_brought = objects.iter().any(|object| object.key == key);
                if !is_brought && !self.objects.contains_key(&key) {
                    return Err(StoreError::Refused("a root is not stored".into()));
                }
            }
        }
        for update in &updates {
            let current = self.references.get(&update.name).copied();
            if !update.expected.holds(current) {
                let name = update.name.clone();
                return Err(StoreError::ReferenceMoved { name, current });
            }
        }
        for update in updates {
            match update.target {
                Some(id) => self.references.insert(update.name, id),
                None => self.references.remove(&update.name),
            };
        }
        self.add_objects(seen, objects);
        for (id, record) in snapshots {
            let row = self.snapshots.entry(*id).or_insert_with(|| SnapshotRow {
                seen: seen.number,
                condemned: None,
                made: now,
                record: record.clone(),
            });
            row.seen = row.seen.max(seen.number);
            row.condemned = None;
        }
        self.counts.commits += 1;
        Ok(())
    }

    /// Looks at snapshots that a node is about to hold.
    pub fn open(&self, node: u32, ids: &[SnapshotId]) -> StoreResult<Vec<Option<Found>>> {
        self.check_live(node)?;
        let is_sweeping = self.gc.phase != Phase::Marking;
        let find = |id| {
            let row: &SnapshotRow = self.snapshots.get(id)?;
            Some(Found {
                record: row.record.clone(),
                is_condemned: row.condemned.is_some(),
                is_sweeping,
            })
        };
        Ok(ids.iter().map(find).collect())
    }

    /// Copies everything into a store.
    pub fn copy(&self, memory: &MemoryStore) {
        for (key, row) in &self.objects {
            memory.damage(TENANT, *key, Some(row.data.clone()));
        }
        let records = self.snapshots.values().map(|row| row.record.clone());
        let references = self.references.iter().map(|(name, id)| ReferenceUpdate {
            name: name.clone(),
            expected: elevo_engine::Expected::Any,
            target: Some(*id),
        });
        let commit = elevo_engine::Commit {
            snapshots: records.collect(),
            references: references.collect(),
            ..Default::default()
        };
        block_on(memory.commit(TENANT, commit)).expect("snapshots whose roots are stored");
    }
}
