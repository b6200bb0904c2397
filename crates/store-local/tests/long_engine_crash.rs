//! `kill -9` at random moments of commits through `StateTree` and of imports:
//! every acknowledged snapshot reads back complete.

#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use elevo_core::{TenantId, Timestamp, TreePath};
use elevo_engine::{
    Attributes, CommitInfo, EntryKind, Expected, ImportOptions, MemoryStore, Progress, Repository,
    StateTree, import,
};
use elevo_objects::SnapshotId;
use elevo_store_local::{LocalStore, Options};
use elevo_testkit::crash::{Acknowledged, Kills, Victim};
use elevo_testkit::long;
use futures::executor::block_on;
use rand::rngs::SmallRng;
use rand::{Rng, RngExt, SeedableRng};

const TENANT: TenantId = TenantId::LOCAL;
const HEAD: &str = "head";

fn open(directory: &Path) -> Repository {
    let path = directory.join("store");
    let options = Options::default();
    let store = LocalStore::open(&path, &options)
        .or_else(|_| LocalStore::create(&path, &options))
        .unwrap();
    Repository::new(Arc::new(store), TENANT, 8 << 20)
}

fn info(message: String, parent: Option<SnapshotId>) -> CommitInfo {
    CommitInfo {
        parents: parent.into_iter().collect(),
        author: "victim".into(),
        message,
        created: Timestamp::new(0, 0).unwrap(),
        labels: BTreeMap::new(),
        reference: Some((HEAD.into(), parent.map_or(Expected::Absent, Expected::At))),
    }
}

fn some_bytes(random: &mut SmallRng) -> Vec<u8> {
    let length = match random.random_range(0..10) {
        0 => random.random_range(0..300_000),
        1 | 2 => random.random_range(0..70_000),
        _ => random.random_range(0..2_000),
    };
    let mut bytes = vec![0; length];
    random.fill_bytes(&mut bytes);
    bytes
}

fn some_path(random: &mut SmallRng) -> TreePath {
    let name = format!(
        "dir{}/file{}",
        random.random_range(0..5),
        random.random_range(0..20)
    );
    TreePath::new(name).unwrap()
}

/// Edits the head and commits it, over and over.
fn commit_for_ever(victim: &Victim) -> ! {
    let repository = open(victim.directory());
    let mut random = SmallRng::seed_from_u64(victim.seed());
    let mut head = block_on(repository.store().reference(TENANT, HEAD)).unwrap();
    let tree = match head {
        Some(id) => block_on(StateTree::open(&repository, id)).unwrap(),
        None => StateTree::empty(&repository),
    };
    loop {
        for _ in 0..random.random_range(1..6) {
            let at = some_path(&mut random);
            let data = Bytes::from(some_bytes(&mut random));
            let edit = async {
                let there = tree.stat(&at).await?.is_some();
                match random.random_range(0..4) {
                    0 if there => tree.remove(&at).await,
                    1 if there => {
                        tree.splice(&at, random.random_range(0..50_000), 9, data)
                            .await
                    }
                    _ => tree.write(&at, data, Attributes::default()).await,
                }
            };
            block_on(edit).unwrap();
        }
        let id = block_on(tree.commit(info("commit".into(), head))).unwrap();
        victim.acknowledge(id);
        head = Some(id);
    }
}

/// Changes a directory and imports it, over and over.
fn import_for_ever(victim: &Victim) -> ! {
    let repository = open(victim.directory());
    let mut random = SmallRng::seed_from_u64(victim.seed());
    let work = victim.directory().join("work");
    let options = ImportOptions {
        threads: 2,
        leave_out: Vec::new(),
        ignoring: None,
    };
    let mut head = block_on(repository.store().reference(TENANT, HEAD)).unwrap();
    loop {
        for _ in 0..random.random_range(1..12) {
            let at = work.join(some_path(&mut random).to_string());
            fs::create_dir_all(at.parent().unwrap()).unwrap();
            fs::write(at, some_bytes(&mut random)).unwrap();
        }
        let read = import(&repository, &work, &options, &Progress::new()).unwrap();
        let id = block_on(read.commit(&repository, info("import".into(), head))).unwrap();
        victim.acknowledge(id);
        head = Some(id);
    }
}

/// Reads a snapshot to the last byte and builds it again in another store:
/// equal content has an equal root.
fn assert_whole(repository: &Repository, id: &str) {
    let id: SnapshotId = id.parse().unwrap();
    let snapshot = block_on(repository.snapshot(id)).unwrap();
    let tree = StateTree::at(repository, &snapshot);
    let elsewhere = Repository::new(Arc::new(MemoryStore::new()), TENANT, 1 << 20);
    let copy = StateTree::empty(&elsewhere);
    let mut open = vec![TreePath::root()];
    while let Some(at) = open.pop() {
        for (name, stat) in block_on(tree.list(&at, None, usize::MAX)).unwrap() {
            let path = at.join(&name).unwrap();
            let done = block_on(async {
                if stat.kind == EntryKind::Directory {
                    copy.make_directory(&path, stat.mode).await?;
                    return Ok(Some(path));
                }
                let data = tree.read(&path).await?;
                let attributes = Attributes {
                    mode: Some(stat.mode),
                    modified: None,
                };
                copy.write(&path, data, attributes).await?;
                Ok::<_, elevo_engine::Error>(None)
            });
            open.extend(done.unwrap());
        }
    }
    assert_eq!(block_on(copy.tree()).unwrap(), snapshot.tree);
}

/// Checks all snapshots of the last victim and some earlier ones; after the
/// last round, checks all snapshots. Also checks that every acknowledged
/// snapshot is in the history of the head.
fn verify(directory: &Path, done: &Acknowledged) {
    if done.all().is_empty() {
        return;
    }
    let repository = open(directory);
    let earlier = if done.is_last {
        done.all()
    } else {
        done.of_the_last()
    };
    let sample = done.all().iter().rev().step_by(37).take(5);
    earlier
        .iter()
        .chain(sample)
        .for_each(|id| assert_whole(&repository, id));
    let head = block_on(repository.store().reference(TENANT, HEAD))
        .unwrap()
        .unwrap();
    assert_whole(&repository, &head.to_string());

    // A victim may be killed after a commit is on disk and before it is
    // acknowledged: at most one for each victim.
    let mut unacknowledged = 0;
    let mut expected = done.all().iter().rev().peekable();
    for id in history(&repository, head) {
        let is_expected = expected.next_if(|last| **last == id.to_string()).is_some();
        unacknowledged += u32::from(!is_expected);
    }
    assert_eq!(expected.next(), None, "not in the history of the head");
    assert!(
        unacknowledged <= done.kills,
        "{unacknowledged} from nowhere"
    );
}

/// Returns a snapshot and its ancestors.
fn history(repository: &Repository, newest: SnapshotId) -> impl Iterator<Item = SnapshotId> {
    std::iter::successors(Some(newest), |id| {
        let snapshot = block_on(repository.snapshot(*id)).unwrap();
        snapshot.parents.first().copied()
    })
}

#[test]
fn commits_survive_being_killed() {
    if let Some(victim) = Victim::here() {
        commit_for_ever(&victim);
    }
    let directory = tempfile::tempdir().unwrap();
    Kills::new(
        "commits_survive_being_killed",
        directory.path(),
        long::rounds(100, 3),
    )
    .longest_life(Duration::from_millis(1200))
    .run(|done| verify(directory.path(), done));
}

#[test]
fn imports_survive_being_killed() {
    if let Some(victim) = Victim::here() {
        import_for_ever(&victim);
    }
    let directory = tempfile::tempdir().unwrap();
    Kills::new(
        "imports_survive_being_killed",
        directory.path(),
        long::rounds(100, 3),
    )
    .longest_life(Duration::from_millis(2500))
    .run(|done| verify(directory.path(), done));
}
