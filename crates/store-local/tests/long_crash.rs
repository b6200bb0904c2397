//! Processes that are killed and disks that lose power: every acknowledged
//! commit exists afterwards and is complete.
//!
//! `ELEVO_LONG` scales the number of rounds (see CONTRIBUTING.md), `ELEVO_SEED`
//! repeats a run.

#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

use std::collections::HashSet;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use elevo_core::TenantId;
use elevo_engine::Store;
use elevo_store_local::{LocalStore, Options};
use elevo_testkit::commits;
use elevo_testkit::crash::{Acknowledged, Kills, Running, Victim};
use elevo_testkit::disk::{self, Disk};
use elevo_testkit::long;
use futures::executor::block_on;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use tempfile::TempDir;

const TENANT: TenantId = TenantId::LOCAL;
const STORE: &str = "store";
const THREADS: u64 = 3;
const DISK_BYTES: u64 = 4 << 30;

fn options() -> Options {
    // Small buffers, so that flushes and compactions are interrupted too, and a
    // put may be logged, not logged, or both.
    Options {
        write_buffers: 8 << 20,
        logged_puts: 64 << 10,
        wait: Duration::from_secs(30),
        ..Options::default()
    }
}

fn open(directory: &Path) -> LocalStore {
    LocalStore::open(&directory.join(STORE), &options()).unwrap()
}

/// Commits without end, each acknowledged by its number. In every third batch,
/// the objects of all commits are put ahead, and the commits have no objects of
/// their own.
fn commit_without_end(victim: &Victim) {
    let store = open(victim.directory());
    let next = AtomicU64::new(0);
    let first = SmallRng::seed_from_u64(victim.seed()).random::<u64>() >> 20;
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                loop {
                    let batch = next.fetch_add(1, Ordering::Relaxed);
                    let numbers = first + batch * 100..first + batch * 100 + 30;
                    let ahead = batch.is_multiple_of(3).then(|| {
                        let objects = numbers.clone().flat_map(|n| commits::numbered(n).objects);
                        commits::put(&store, TENANT, objects.collect())
                    });
                    for n in numbers {
                        let mut commit = commits::numbered(n);
                        if let Some(ahead) = &ahead {
                            commit.objects.clear();
                            commit.after.push(ahead.id());
                        }
                        block_on(store.commit(TENANT, commit)).unwrap();
                        victim.acknowledge(n);
                    }
                }
            });
        }
    });
}

/// Puts without end, and acknowledges objects that no commit has made durable.
fn put_without_end(victim: &Victim) {
    let store = open(victim.directory());
    for n in victim.seed() >> 20.. {
        commits::put(&store, TENANT, commits::numbered(n).objects);
        victim.acknowledge(n);
    }
}

/// Panics unless every acknowledged commit is complete, and every other present
/// commit too: a commit is all or nothing, acknowledged or not.
fn verify(store: &LocalStore, acknowledged: &[String], all: bool) {
    let present: HashSet<u64> = commits::present(store, TENANT).into_iter().collect();
    let numbers: HashSet<u64> = acknowledged.iter().map(|n| n.parse().unwrap()).collect();
    let lost: Vec<_> = numbers.difference(&present).collect();
    assert!(
        lost.is_empty(),
        "{} of {} commits are lost: {lost:?}",
        lost.len(),
        numbers.len()
    );
    let unacknowledged = present.difference(&numbers);
    let recent = acknowledged
        .iter()
        .rev()
        .take(500)
        .map(|n| n.parse().unwrap());
    recent
        .chain(unacknowledged.copied())
        .for_each(|n| commits::assert_whole(store, TENANT, n));
    if all {
        present
            .into_iter()
            .for_each(|n| commits::assert_whole(store, TENANT, n));
    }
}

#[test]
fn nothing_acknowledged_is_lost_when_the_process_is_killed() {
    const NAME: &str = "nothing_acknowledged_is_lost_when_the_process_is_killed";
    if let Some(victim) = Victim::here() {
        return commit_without_end(&victim);
    }
    let directory = TempDir::new().unwrap();
    drop(LocalStore::create(&directory.path().join(STORE), &options()).unwrap());
    let kills = Kills::new(NAME, directory.path(), long::rounds(200, 5));
    kills.run(|done: &Acknowledged| {
        let store = open(directory.path());
        verify(
            &store,
            done.all(),
            done.is_last || done.kills.is_multiple_of(50),
        );
    });
}

#[test]
fn a_store_is_created_whole_after_any_number_of_kills() {
    const NAME: &str = "a_store_is_created_whole_after_any_number_of_kills";
    if let Some(victim) = Victim::here() {
        let path = victim.directory().join(victim.seed().to_string());
        let store = LocalStore::create(&path, &options()).unwrap();
        block_on(store.commit(TENANT, commits::numbered(1))).unwrap();
        victim.acknowledge(path.display());
        loop {
            thread::park();
        }
    }
    let directory = TempDir::new().unwrap();
    let kills = Kills::new(NAME, directory.path(), long::rounds(100, 10));
    kills.longest_life(Duration::from_millis(500)).run(|done| {
        for entry in directory.path().read_dir().unwrap() {
            let path = entry.unwrap().path();
            let acknowledged = done.all().iter().any(|made| Path::new(made) == path);
            let store = match LocalStore::open(&path, &options()) {
                Err(_) if !acknowledged => LocalStore::create(&path, &options()).unwrap(),
                opened => opened.unwrap(),
            };
            if acknowledged {
                commits::assert_whole(&store, TENANT, 1);
            }
            drop(store);
            std::fs::remove_dir_all(path).unwrap();
        }
    });
}

/// Simulates repeated power losses on a disk where `test` runs as a victim;
/// calls `check` with the content of the disk and the acknowledgements from
/// before.
fn lose_power(test: &str, rounds: u32, mut check: impl FnMut(&Path, &[String], bool)) {
    let directory = TempDir::new().unwrap();
    let mut random = SmallRng::seed_from_u64(long::seed());
    let disk = Disk::make(directory.path(), "disk", DISK_BYTES);
    drop(LocalStore::create(&disk.path().join(STORE), &options()).unwrap());
    let mut victim = Running::start(test, disk.path(), random.random());
    let mut acknowledged = Vec::new();
    for round in 1..=rounds {
        // The power fails at a random moment of the victim's work.
        victim.work_for_a_moment(&mut random, Duration::from_millis(300));
        acknowledged.extend(victim.acknowledged());
        acknowledged.push(victim.wait_for_next());
        victim.pause();
        let after = disk.lose_power("after");
        victim.resume();
        check(after.path(), &acknowledged, round == rounds);
        after.discard();
    }
    long::note(format_args!(
        "{rounds} power losses, {} acknowledgements",
        acknowledged.len()
    ));
    victim.kill();
}

/// Continues after a crash with commits and with puts that are not all logged.
/// Closes the store in order after each commit.
fn live_on(directory: &Path, numbers: std::ops::Range<u64>) {
    for n in numbers {
        let store = open(directory);
        let mut commit = commits::numbered(n);
        let ahead = commits::put(&store, TENANT, std::mem::take(&mut commit.objects));
        commit.after.push(ahead.id());
        commits::put(&store, TENANT, commits::numbered(n + 1).objects);
        block_on(store.commit(TENANT, commit)).unwrap();
    }
}

#[test]
fn nothing_acknowledged_is_lost_when_power_fails() {
    const NAME: &str = "nothing_acknowledged_is_lost_when_power_fails";
    if let Some(victim) = Victim::here() {
        return commit_without_end(&victim);
    }
    if !disk::in_own_namespace(NAME) {
        return;
    }
    lose_power(NAME, long::rounds(20, 3), |directory, acknowledged, all| {
        verify(&open(directory), acknowledged, all);
        live_on(directory, 0..3);
        let later = (0..3).map(|n: u64| n.to_string());
        let acknowledged: Vec<_> = acknowledged.iter().cloned().chain(later).collect();
        verify(&open(directory), &acknowledged, all);
    });
}

/// Proves that the test above could fail: data that was never synced is not on
/// the disk.
#[test]
fn uncommitted_puts_are_lost_when_power_fails() {
    const NAME: &str = "uncommitted_puts_are_lost_when_power_fails";
    if let Some(victim) = Victim::here() {
        return put_without_end(&victim);
    }
    if !disk::in_own_namespace(NAME) {
        return;
    }
    let mut losses = 0;
    let rounds = long::rounds(5, 5);
    lose_power(NAME, rounds, |directory, acknowledged, _| {
        let store = open(directory);
        let n = acknowledged.last().unwrap().parse().unwrap();
        let keys: Vec<_> = commits::numbered(n)
            .objects
            .iter()
            .map(|object| object.key)
            .collect();
        let there = block_on(store.contains(TENANT, &keys)).unwrap();
        losses += u32::from(there.contains(&false));
    });
    // One loss is enough: in some rounds the kernel writes the data to the disk
    // before the power fails.
    assert!(losses > 0, "the disk must not have unsynced data");
}
