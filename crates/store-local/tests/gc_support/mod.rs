//! Branches of trees with their expected content, and concurrent collections.
#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]
#![allow(clippy::disallowed_methods, reason = "a race takes its time")]
#![allow(
    dead_code,
    unreachable_pub,
    reason = "each test binary uses a part of it"
)]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use elevo_core::{TenantId, Timestamp, TreePath};
use elevo_engine::{
    Attributes, CommitInfo, Expected, GcOptions, GcProgress, GcReport, GcRoot, GcScope, Repository,
    StateTree, Store, collect_garbage,
};
use elevo_objects::SnapshotId;
use elevo_store_local::{LocalStore, Options};
use futures::executor::block_on;
use rand::rngs::SmallRng;
use rand::{Rng, RngExt, SeedableRng};

pub const TENANT: TenantId = TenantId::LOCAL;

/// The files of a tree.
pub type Files = BTreeMap<String, Vec<u8>>;

pub fn repository(store: Arc<dyn Store>) -> Repository {
    // Almost no cache, so that an object that is missing from the store is
    // noticed.
    Repository::new(store, TENANT, 1)
}

/// Returns one of few contents, so that garbage is soon written again.
pub fn content(random: &mut SmallRng) -> Vec<u8> {
    let which = random.random_range(0..60_u64);
    let length = match which % 10 {
        0 => 300_000,
        1 | 2 => 20_000,
        _ => 1 + which as usize * 7,
    };
    let mut bytes = vec![0; length];
    SmallRng::seed_from_u64(which).fill_bytes(&mut bytes);
    bytes
}

pub fn edit(tree: &StateTree, files: &mut Files, random: &mut SmallRng) {
    for _ in 0..random.random_range(1..6) {
        let name = format!(
            "d{}/e{}/f{}",
            random.random_range(0..3),
            random.random_range(0..3),
            random.random_range(0..6)
        );
        let path = TreePath::new(name.as_str()).unwrap();
        if random.random_range(0..4) == 0 && files.remove(&name).is_some() {
            block_on(tree.remove(&path)).unwrap();
            continue;
        }
        let bytes = content(random);
        let attributes = Attributes {
            modified: Timestamp::new(i64::from(random.random_range(0..3)), 0),
            ..Attributes::default()
        };
        block_on(tree.write(&path, bytes.clone().into(), attributes)).unwrap();
        files.insert(name, bytes);
    }
}

pub fn info(parent: Option<SnapshotId>, reference: Option<(String, Expected)>) -> CommitInfo {
    CommitInfo {
        parents: parent.into_iter().collect(),
        author: "tester".into(),
        message: String::new(),
        created: Timestamp::new(0, 0).unwrap(),
        labels: BTreeMap::new(),
        reference,
    }
}

/// Checks every byte of a snapshot.
pub fn assert_holds(repository: &Repository, id: SnapshotId, files: &Files) {
    let tree = block_on(StateTree::open(repository, id)).unwrap();
    for (name, bytes) in files {
        let path = TreePath::new(name.as_str()).unwrap();
        let read = block_on(tree.read(&path)).unwrap();
        assert!(read == *bytes, "{name} of {id}");
        block_on(tree.stat(&path)).unwrap();
    }
}

pub fn collect(
    repository: &Repository,
    scope: GcScope,
    dry_run: bool,
    roots: &[GcRoot],
) -> GcReport {
    let options = GcOptions {
        scope,
        dry_run,
        keep_recent: None,
    };
    // Other threads are about to end the older writers.
    let began = Instant::now();
    let mut wait = |_| {
        thread::yield_now();
        began.elapsed() < Duration::from_secs(60)
    };
    let mut roots = roots.iter().copied().map(Ok);
    let progress = GcProgress::default();
    collect_garbage(repository, &mut roots, &options, &mut wait, &progress).unwrap()
}

/// Threads commit, fork and read while collections follow each other.
pub fn race(time: Duration, seed: u64) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store");
    let store: Arc<dyn Store> = Arc::new(LocalStore::create(&path, &Options::default()).unwrap());
    let repository = repository(store);
    let is_over = AtomicBool::new(false);
    let commits = [0; 3].map(AtomicU64::new);
    let rounds = thread::scope(|scope| {
        for (thread, commits) in (0..).zip(&commits) {
            let (repository, is_over) = (&repository, &is_over);
            scope.spawn(move || {
                let mut random = SmallRng::seed_from_u64(seed.wrapping_add(thread));
                work(repository, thread, &mut random, is_over, commits);
            });
        }
        let began = Instant::now();
        let mut rounds = [0, 0];
        // On a busy machine, the time may be over before the threads have
        // raced.
        let latest = time + Duration::from_secs(60);
        let is_little = |rounds: &[i32; 2]| {
            let commits = commits.iter().map(|count| count.load(Ordering::Relaxed));
            rounds.iter().any(|count| *count < 4) || commits.min() < Some(11)
        };
        while began.elapsed() < time || began.elapsed() < latest && is_little(&rounds) {
            let is_young = rounds[0] > rounds[1];
            let scope = if is_young {
                GcScope::Young
            } else {
                GcScope::Full
            };
            collect(&repository, scope, false, &[]);
            rounds[usize::from(is_young)] += 1;
        }
        is_over.store(true, Ordering::Relaxed);
        rounds
    });
    assert!(rounds[0] > 3 && rounds[1] > 3, "{rounds:?} collections");
    let commits = commits.map(AtomicU64::into_inner);
    assert!(commits.iter().all(|count| *count > 10), "{commits:?}");
}

fn work(
    repository: &Repository,
    thread: u64,
    random: &mut SmallRng,
    is_over: &AtomicBool,
    commits: &AtomicU64,
) {
    let name = format!("branch{thread}");
    let mut head: Option<(SnapshotId, Files)> = None;
    while !is_over.load(Ordering::Relaxed) {
        commits.fetch_add(1, Ordering::Relaxed);
        let (tree, mut files) = match &head {
            Some((id, files)) => (
                block_on(StateTree::open(repository, *id)).unwrap(),
                files.clone(),
            ),
            None => (StateTree::empty(repository), Files::new()),
        };
        // A snapshot without a ref, held by a tree: the objects it needs must
        // stay.
        let fork = tree.clone();
        let mut forked = files.clone();
        edit(&fork, &mut forked, random);
        let made = block_on(fork.commit(info(None, None))).unwrap();
        let held = block_on(repository.hold(made));
        edit(&tree, &mut files, random);
        let parent = head.as_ref().map(|(id, _)| *id);
        // Sometimes without a parent, so that there is garbage.
        let is_new = random.random_bool(0.2);
        let reference = Some((name.clone(), parent.map_or(Expected::Absent, Expected::At)));
        let info = info(parent.filter(|_| !is_new), reference);
        let id = block_on(tree.commit(info)).unwrap();
        assert_holds(repository, id, &files);
        if let Ok(held) = held {
            assert_holds(repository, made, &forked);
            drop(held);
        }
        head = Some((id, files));
    }
    let (id, files) = head.unwrap();
    assert_holds(repository, id, &files);
}
