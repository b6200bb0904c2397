//! `kill -9` at random moments of backups and restores, and power losses: every
//! directory that counts as a backup or a store is complete.

#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use elevo_core::TenantId;
use elevo_engine::{Progress, Store};
use elevo_store_local::{LocalStore, OpenError, Options, backups, restore};
use elevo_testkit::crash::{Acknowledged, Kills, Running, Victim};
use elevo_testkit::disk::{self, Disk};
use elevo_testkit::{commits, long};
use futures::executor::block_on;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

const TENANT: TenantId = TenantId::LOCAL;
const KEPT: usize = 3;
const DISK_BYTES: u64 = 4 << 30;

fn open(directory: &Path) -> LocalStore {
    let path = directory.join("store");
    let options = Options::default();
    LocalStore::open(&path, &options)
        .or_else(|_| LocalStore::create(&path, &options))
        .unwrap()
}

/// Commits without end, and backs up at the same time. A backup is acknowledged
/// with the number of commits that had returned before it began.
fn back_up_for_ever(victim: &Victim) {
    let store = open(victim.directory());
    let present = commits::present(&store, TENANT).into_iter().max();
    let next = AtomicU64::new(present.map_or(0, |newest| newest + 1));
    let to = victim.directory().join("backups");
    thread::scope(|scope| {
        scope.spawn(|| {
            loop {
                let n = next.load(Ordering::SeqCst);
                block_on(store.commit(TENANT, commits::numbered(n))).unwrap();
                next.store(n + 1, Ordering::SeqCst);
            }
        });
        loop {
            let before = next.load(Ordering::SeqCst);
            let name = format!("{before:09}");
            let made = store.backup(&to, &name, Some(KEPT), &Progress::new());
            let made = made.unwrap().path;
            let made = made.file_name().unwrap().to_string_lossy().into_owned();
            victim.acknowledge(format_args!("{made} {before}"));
        }
    });
}

/// Checks that every backup has all commits of its moment, each complete.
fn check_backups(directory: &Path, newest: Option<&String>) {
    let there = backups(&directory.join("backups")).unwrap();
    if let Some((name, _)) = newest.and_then(|line| line.split_once(' ')) {
        let is_newer = |path: &Path| path.file_name().unwrap().to_string_lossy().as_ref() >= name;
        assert!(there.iter().any(|path| is_newer(path)), "{name} is lost");
    }
    for path in there {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let before: u64 = name[..9].parse().unwrap();
        let store = LocalStore::open_read_only(&path, &Options::default()).unwrap();
        let mut present = commits::present(&store, TENANT);
        present.sort_unstable();
        let expected: Vec<_> = (0..present.len() as u64).collect();
        assert_eq!(present, expected, "{name} has a hole");
        assert!(present.len() as u64 >= before, "{name} lacks commits");
        for n in present.iter().rev().step_by(7).take(30) {
            commits::assert_whole(&store, TENANT, *n);
        }
    }
    let store = open(directory);
    assert!(!directory.join("store/checkpoint").exists());
    drop(store);
}

#[test]
fn a_killed_backup_does_not_count_as_a_backup() {
    if let Some(victim) = Victim::here() {
        back_up_for_ever(&victim);
    }
    let directory = tempfile::tempdir().unwrap();
    Kills::new(
        "a_killed_backup_does_not_count_as_a_backup",
        directory.path(),
        long::rounds(100, 3),
    )
    .longest_life(Duration::from_millis(2000))
    .run(|done| {
        let newest = done.of_the_last().last().or(done.all().last());
        check_backups(directory.path(), newest);
    });
}

#[test]
fn an_acknowledged_backup_survives_the_loss_of_power() {
    const NAME: &str = "an_acknowledged_backup_survives_the_loss_of_power";
    if let Some(victim) = Victim::here() {
        back_up_for_ever(&victim);
    }
    if !disk::in_own_namespace(NAME) {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let mut random = SmallRng::seed_from_u64(long::seed());
    let disk = Disk::make(directory.path(), "disk", DISK_BYTES);
    let mut victim = Running::start(NAME, disk.path(), random.random());
    let rounds = long::rounds(20, 3);
    let mut acknowledged = Vec::new();
    for _ in 0..rounds {
        // The power fails at a random moment of the victim's work.
        victim.work_for_a_moment(&mut random, Duration::from_millis(500));
        acknowledged.extend(victim.acknowledged());
        acknowledged.push(victim.wait_for_next());
        victim.pause();
        let after = disk.lose_power("after");
        check_backups(after.path(), acknowledged.last());
        after.discard();
        victim.resume();
    }
    let count = acknowledged.len();
    long::note(format_args!("{rounds} power losses, {count} backups"));
    victim.kill();
}

/// Restores without end to the same path. Deletes the restored store before the
/// next restore.
fn restore_for_ever(victim: &Victim) -> ! {
    let (from, to) = places(victim.directory());
    loop {
        if LocalStore::open_read_only(&to, &Options::default()).is_ok() {
            fs::remove_dir_all(&to).unwrap();
        }
        restore(&from, &to, false, &Options::default(), &Progress::new()).unwrap();
        victim.acknowledge("restored");
    }
}

fn places(directory: &Path) -> (std::path::PathBuf, std::path::PathBuf) {
    (directory.join("backups"), directory.join("restored"))
}

#[test]
fn a_killed_restore_leaves_no_store_or_a_whole_one() {
    const COMMITS: u64 = 300;
    if let Some(victim) = Victim::here() {
        restore_for_ever(&victim);
    }
    let directory = tempfile::tempdir().unwrap();
    let (from, to) = places(directory.path());
    let store = open(directory.path());
    for n in 0..COMMITS {
        block_on(store.commit(TENANT, commits::numbered(n))).unwrap();
    }
    store.backup(&from, "1", None, &Progress::new()).unwrap();
    let mut halves = 0;
    let check = |_: &Acknowledged| match LocalStore::open_read_only(&to, &Options::default()) {
        Ok(store) => (0..COMMITS)
            .step_by(11)
            .for_each(|n| commits::assert_whole(&store, TENANT, n)),
        Err(OpenError::NotAStore { .. }) => halves += 1,
        // The victim was killed while it deleted the restored store.
        Err(error) => assert!(fs::remove_dir_all(&to).is_ok(), "{error}"),
    };
    Kills::new(
        "a_killed_restore_leaves_no_store_or_a_whole_one",
        directory.path(),
        long::rounds(100, 3),
    )
    .longest_life(Duration::from_millis(600))
    .run(check);
    long::note(format_args!("{halves} of them were half done"));
}
