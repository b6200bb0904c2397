//! Long runs of collections, with kills and power losses.

#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

mod gc_support;

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use elevo_engine::{Expected, GcScope, Progress, Repository, StateTree, VerifyOptions, verify};
use elevo_objects::SnapshotId;
use elevo_store_local::{LocalStore, Options};
use elevo_testkit::crash::{Acknowledged, Kills, Running, Victim};
use elevo_testkit::disk::{self, Disk};
use elevo_testkit::long;
use futures::executor::block_on;
use gc_support::{Files, TENANT, collect, edit, info, repository};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

const HEAD: &str = "head";
const DISK_BYTES: u64 = 2 << 30;

fn options() -> Options {
    // Small buffers, so that flushes and compactions are interrupted too.
    Options {
        write_buffers: 8 << 20,
        logged_puts: 64 << 10,
        wait: Duration::from_secs(30),
        ..Options::default()
    }
}

fn open(directory: &Path) -> LocalStore {
    let path = directory.join("store");
    LocalStore::open(&path, &options())
        .or_else(|_| LocalStore::create(&path, &options()))
        .unwrap()
}

/// Commits to the head, leaves garbage, and collects, all at once.
fn collect_for_ever(victim: &Victim) -> ! {
    let repository = repository(Arc::new(open(victim.directory())));
    thread::scope(|scope| {
        let (repository, seed) = (&repository, victim.seed());
        scope.spawn(move || {
            for round in 0.. {
                let scope = if round % 3 == 0 {
                    GcScope::Full
                } else {
                    GcScope::Young
                };
                collect(repository, scope, false, &[]);
            }
        });
        let mut random = SmallRng::seed_from_u64(seed);
        let mut head = block_on(repository.store().reference(TENANT, HEAD)).unwrap();
        loop {
            head = Some(commit(repository, head, &mut random));
            victim.acknowledge(head.unwrap());
        }
    })
}

fn commit(repository: &Repository, head: Option<SnapshotId>, random: &mut SmallRng) -> SnapshotId {
    let tree = match head {
        Some(id) => block_on(StateTree::open(repository, id)).unwrap(),
        None => StateTree::empty(repository),
    };
    let garbage = tree.clone();
    edit(&garbage, &mut Files::new(), random);
    block_on(garbage.commit(info(None, None))).unwrap();
    edit(&tree, &mut Files::new(), random);
    let expected = head.map_or(Expected::Absent, Expected::At);
    let said = info(head, Some((HEAD.into(), expected)));
    block_on(tree.commit(said)).unwrap()
}

/// Checks that nothing is missing or damaged, and that acknowledged commits are
/// in the history of the head; also after another collection.
fn check(directory: &Path, acknowledged: &[String]) {
    let store = Arc::new(open(directory));
    let repository = repository(store.clone());
    assert_whole(&store);
    assert_history(&repository, acknowledged);
    collect(&repository, GcScope::Young, false, &[]);
    assert_whole(&store);
    collect(&repository, GcScope::Full, false, &[]);
    assert_whole(&store);
    assert_history(&repository, acknowledged);
}

fn assert_whole(store: &LocalStore) {
    let (options, progress) = (VerifyOptions::default(), Progress::new());
    let found = block_on(verify(store, TENANT, &options, &progress)).unwrap();
    assert!(found.is_whole(), "{found:?}");
}

fn assert_history(repository: &Repository, acknowledged: &[String]) {
    let Some(last) = acknowledged.last() else {
        return;
    };
    let head = block_on(repository.store().reference(TENANT, HEAD)).unwrap();
    let mut history = std::iter::successors(head, |id| {
        let snapshot = block_on(repository.snapshot(*id)).unwrap();
        snapshot.parents.first().copied()
    });
    assert!(history.any(|id| id.to_string() == *last), "{last} is lost");
    let earlier = acknowledged.iter().rev().skip(1);
    for id in earlier {
        assert_eq!(history.next().map(|id| id.to_string()).as_ref(), Some(id));
    }
}

#[test]
fn collections_survive_being_killed() {
    const NAME: &str = "collections_survive_being_killed";
    if let Some(victim) = Victim::here() {
        collect_for_ever(&victim);
    }
    let directory = tempfile::tempdir().unwrap();
    let kills = Kills::new(NAME, directory.path(), long::rounds(200, 5));
    let (mut known, mut begun) = (0, 0);
    kills
        .longest_life(Duration::from_millis(1500))
        .run(|done: &Acknowledged| {
            // Check only the commits of the last process, which follow each
            // other. Between the commits of two processes, there may be some
            // that the killed process did not acknowledge.
            let new = &done.all()[known..];
            known = done.all().len();
            check(directory.path(), new);
            // A check reads everything: start over before there is too much.
            if known - begun > 1000 {
                begun = known;
                fs::remove_dir_all(directory.path().join("store")).unwrap();
            }
        });
}

#[test]
fn collections_survive_the_loss_of_power() {
    const NAME: &str = "collections_survive_the_loss_of_power";
    if let Some(victim) = Victim::here() {
        collect_for_ever(&victim);
    }
    if !disk::in_own_namespace(NAME) {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let mut random = SmallRng::seed_from_u64(long::seed());
    let rounds = long::rounds(30, 3);
    let (mut left, mut count) = (rounds, 0);
    while left > 0 {
        let disk = Disk::make(directory.path(), "disk", DISK_BYTES);
        let mut victim = Running::start(NAME, disk.path(), random.random());
        let mut acknowledged = Vec::new();
        // A check reads everything: start over before there is too much.
        while left > 0 && acknowledged.len() < 1000 {
            // The power fails at a random moment of the victim's work.
            victim.work_for_a_moment(&mut random, Duration::from_millis(1500));
            acknowledged.extend(victim.acknowledged());
            acknowledged.push(victim.wait_for_next());
            victim.pause();
            let after = disk.lose_power("after");
            check(after.path(), &acknowledged);
            after.discard();
            victim.resume();
            left -= 1;
        }
        count += acknowledged.len();
        victim.kill();
        disk.discard();
    }
    long::note(format_args!("{rounds} power losses, {count} commits"));
}

#[test]
fn commits_forks_and_reads_race_collections() {
    let seconds = long::rounds(600, 20);
    gc_support::race(Duration::from_secs(seconds.into()), long::seed());
}
