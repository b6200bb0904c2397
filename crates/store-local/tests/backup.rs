//! Backups of a store that is being written to, and their restoration.

#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

mod support;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use elevo_engine::{
    Commit, Inspect, Progress, RepairSource, ServerStamp, Store, VerifyOptions, repair,
};
use elevo_store_local::{
    BackupError, LocalStore, OpenError, Options, backups, find_backup, restore, server_stamp,
    set_server_stamp,
};
use elevo_testkit::commits;
use futures::executor::block_on;
use support::{Content, TENANT, check, copy, files, fill, make, read_all};

fn backup(store: &LocalStore, to: &Path, name: &str) -> elevo_store_local::Backup {
    store.backup(to, name, None, &Progress::new()).unwrap()
}

fn restored(from: &Path, to: &Path) -> Result<LocalStore, BackupError> {
    restore(from, to, false, &Options::default(), &Progress::new())?;
    Ok(LocalStore::open(to, &Options::default())?)
}

fn assert_all(store: LocalStore, content: &Content) {
    let store = Arc::new(store);
    let seen = read_all(&store, content);
    assert_eq!((seen.missing, seen.refused), (0, 0));
    let found = check(&store);
    assert!(found.is_whole(), "{found:?}");
    assert_eq!(found.snapshots, content.len() as u64);
}

#[test]
fn a_backup_is_the_store_of_its_moment_and_costs_only_new_files() {
    let directory = tempfile::tempdir().unwrap();
    let (path, mut content) = make(directory.path(), 24);
    let to = directory.path().join("backups");
    let store = Arc::new(LocalStore::open(&path, &Options::default()).unwrap());
    let first = backup(&store, &to, "1");
    assert_eq!(first.new_bytes, first.bytes);
    let then = content.clone();
    fill(&store, &mut content, 3, 7);
    let second = backup(&store, &to, "2");
    assert!(second.new_bytes < second.bytes / 2, "{second:?}");
    // The same name is not used twice.
    let third = backup(&store, &to, "2");
    assert_ne!(third.path, second.path);
    assert!(third.new_bytes < 200_000, "{third:?}");
    assert_eq!(backups(&to).unwrap().len(), 3);
    assert_eq!(find_backup(&to).unwrap(), third.path);
    drop(store);

    // A backup can be read directly, and cannot be written to.
    let read = LocalStore::open_read_only(&first.path, &Options::default()).unwrap();
    assert_all(read, &then);
    let opened = LocalStore::open(&first.path, &Options::default());
    assert!(
        matches!(opened, Err(OpenError::Backup { .. })),
        "{opened:?}"
    );

    let target = directory.path().join("restored");
    assert_all(restored(&first.path, &target.join("1")).unwrap(), &then);
    assert_all(restored(&to, &target.join("2")).unwrap(), &content);
    // A restored store can be backed up to the same directory.
    let again = LocalStore::open(&target.join("1"), &Options::default()).unwrap();
    let fourth = backup(&again, &to, "4");
    drop(again);
    assert_all(restored(&fourth.path, &target.join("4")).unwrap(), &then);
}

#[test]
fn old_backups_are_deleted_and_the_others_stay_whole() {
    let directory = tempfile::tempdir().unwrap();
    let (path, mut content) = make(directory.path(), 12);
    let to = directory.path().join("backups");
    let store = Arc::new(LocalStore::open(&path, &Options::default()).unwrap());
    for name in ["1", "2", "3", "4"] {
        fill(&store, &mut content, 2, 3);
        store.backup(&to, name, Some(2), &Progress::new()).unwrap();
    }
    let left: Vec<_> = backups(&to).unwrap();
    let names: Vec<_> = left.iter().map(|path| path.file_name().unwrap()).collect();
    assert_eq!(names, ["3", "4"]);
    let read = LocalStore::open_read_only(&left[1], &Options::default()).unwrap();
    assert_all(read, &content);
}

#[test]
fn a_backup_has_every_returned_commit_and_no_partial_one() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store");
    // Commits are logged, and the objects put ahead of them are not: a
    // checkpoint could have a commit without its objects.
    let options = Options {
        logged_puts: 0,
        ..Options::default()
    };
    let store = LocalStore::create(&path, &options).unwrap();
    let stop = AtomicBool::new(false);
    let to = directory.path().join("backups");
    let taken = thread::scope(|scope| {
        let write = |writer: u64| {
            let mut n = writer;
            while !stop.load(Ordering::Relaxed) {
                let commit = commits::numbered(n);
                let objects = commit.objects.clone();
                let ahead = commits::put(&store, TENANT, objects);
                let commit = Commit {
                    objects: Vec::new(),
                    after: vec![ahead.id()],
                    ..commit
                };
                block_on(store.commit(TENANT, commit)).unwrap();
                n += 3;
            }
        };
        for writer in 0..3 {
            scope.spawn(move || write(writer));
        }
        let take = |n: usize| {
            let before: BTreeSet<_> = commits::present(&store, TENANT).into_iter().collect();
            (backup(&store, &to, &n.to_string()), before)
        };
        let taken: Vec<_> = (0..8).map(take).collect();
        stop.store(true, Ordering::Relaxed);
        taken
    });
    for (backup, before) in taken {
        let read = LocalStore::open_read_only(&backup.path, &Options::default()).unwrap();
        let there: BTreeSet<_> = commits::present(&read, TENANT).into_iter().collect();
        assert!(before.is_subset(&there));
        for n in there {
            commits::assert_whole(&read, TENANT, n);
        }
    }
}

#[test]
fn restoring_overwrites_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let (path, _) = make(directory.path(), 4);
    let to = directory.path().join("backups");
    let store = LocalStore::open(&path, &Options::default()).unwrap();
    backup(&store, &to, "1");
    drop(store);
    let before = files(&path);
    let refused = restored(&to, &path).unwrap_err();
    let is_store = matches!(refused, BackupError::Open(OpenError::AlreadyAStore { .. }));
    assert!(is_store, "{refused}");
    assert_eq!(files(&path), before);
    let other = directory.path().join("other");
    fs::create_dir(&other).unwrap();
    fs::write(other.join("mine"), "mine").unwrap();
    let refused = restored(&to, &other).unwrap_err();
    let is_full = matches!(refused, BackupError::Open(OpenError::NotEmpty { .. }));
    assert!(is_full, "{refused}");
    let nothing = restored(&other, &directory.path().join("new")).unwrap_err();
    assert!(
        matches!(nothing, BackupError::NotABackup { .. }),
        "{nothing}"
    );
}

#[test]
fn a_backup_is_not_made_inside_its_store_nor_twice_at_a_time() {
    let directory = tempfile::tempdir().unwrap();
    let (path, _) = make(directory.path(), 4);
    let store = LocalStore::open(&path, &Options::default()).unwrap();
    let inside = store.backup(&path.join("backups"), "1", None, &Progress::new());
    assert!(
        matches!(inside, Err(BackupError::Inside { .. })),
        "{inside:?}"
    );
    let to = directory.path().join("backups");
    backup(&store, &to, "1");
    let lock = fs::File::open(to.join("lock")).unwrap();
    lock.lock().unwrap();
    let busy = store.backup(&to, "2", None, &Progress::new());
    assert!(matches!(busy, Err(BackupError::Busy { .. })), "{busy:?}");
    drop(lock);
    let cancelled = Progress::new();
    cancelled.cancel();
    let ended = store.backup(&to, "2", None, &cancelled);
    assert!(matches!(ended, Err(BackupError::Cancelled)), "{ended:?}");
    assert_eq!(backups(&to).unwrap().len(), 1);
    assert!(!path.join("checkpoint").exists());
}

#[test]
fn a_flipped_bit_in_a_backup_is_found_when_it_is_restored() {
    let directory = tempfile::tempdir().unwrap();
    let (path, _) = make(directory.path(), 8);
    let to = directory.path().join("backups");
    let store = LocalStore::open(&path, &Options::default()).unwrap();
    let made = backup(&store, &to, "1");
    for (n, file) in files(&made.path).into_iter().enumerate() {
        let whole = fs::read(&file).unwrap();
        if whole.is_empty() {
            continue;
        }
        let mut bytes = whole.clone();
        let at = (n * 7919) % bytes.len();
        bytes[at] ^= 4;
        fs::write(&file, bytes).unwrap();
        let target = directory.path().join("restored");
        let refused = restored(&to, &target).unwrap_err();
        let name = file.file_name().unwrap().to_string_lossy().into_owned();
        let is_named = matches!(&refused, BackupError::Damaged { file, .. } if *file == name);
        assert!(is_named, "{refused}");
        let opened = LocalStore::open(&target, &Options::default());
        assert!(opened.is_err(), "half of a store is not a store");
        fs::write(&file, whole).unwrap();
        // The same call starts over.
        drop(restored(&to, &target).unwrap());
        fs::remove_dir_all(target).unwrap();
    }
}

#[test]
fn a_backup_repairs_a_damaged_store() {
    let directory = tempfile::tempdir().unwrap();
    let (path, content) = make(directory.path(), 10);
    let to = directory.path().join("backups");
    let store = LocalStore::open(&path, &Options::default()).unwrap();
    let made = backup(&store, &to, "1");
    drop(store);
    let mut repaired = 0;
    for file in files(&path.join("db")) {
        let kind = file.extension().and_then(|end| end.to_str());
        let (Some("blob" | "sst"), length) = (kind, file.metadata().unwrap().len()) else {
            continue;
        };
        for n in [1, 4] {
            let harmed = directory.path().join("harmed");
            copy(&path, &harmed);
            let file = harmed.join(file.strip_prefix(&path).unwrap());
            let mut bytes = fs::read(&file).unwrap();
            bytes[(length * n / 6) as usize] ^= 1;
            fs::write(&file, bytes).unwrap();
            repaired += u32::from(mend(&harmed, &made.path, &content));
            fs::remove_dir_all(harmed).unwrap();
        }
    }
    assert!(repaired > 2, "{repaired}");
}

/// Repairs a store; returns whether there was damage.
fn mend(harmed: &Path, backup: &Path, content: &Content) -> bool {
    let Ok(store) = LocalStore::open(harmed, &Options::default()) else {
        return false;
    };
    let store = Arc::new(store);
    let other = LocalStore::open_read_only(backup, &Options::default()).unwrap();
    let target: Arc<dyn Inspect> = store.clone();
    let options = VerifyOptions::default();
    let sources = [RepairSource::Store(&other)];
    let repaired = repair(&target, TENANT, &sources, &options, &Progress::new()).unwrap();
    if repaired.before.is_whole() {
        return false;
    }
    let seen = read_all(&store, content);
    assert_eq!((seen.missing, seen.refused), (0, 0), "{repaired:?}");
    assert!(repaired.after.damage.is_empty(), "{repaired:?}");
    true
}

#[test]
fn a_backup_has_the_server_stamp_of_its_store() {
    let directory = tempfile::tempdir().unwrap();
    let (path, _) = make(directory.path(), 2);
    let stamp = ServerStamp {
        installation: "abc".into(),
        generation: 7,
    };
    set_server_stamp(&path, &stamp).unwrap();
    let store = LocalStore::open(&path, &Options::default()).unwrap();
    let made = backup(&store, &directory.path().join("backups"), "1");
    assert_eq!(server_stamp(&made.path).unwrap(), Some(stamp.clone()));
    let into = directory.path().join("into");
    let alone = store.backup_into(&into, Some(&made.path), &Progress::new());
    assert!(alone.unwrap().new_bytes < made.bytes);
    let again = store.backup_into(&into, None, &Progress::new());
    assert!(matches!(again, Err(BackupError::Io { .. })), "{again:?}");
    drop(store);
    let new = directory.path().join("new");
    drop(restored(&into, &new).unwrap());
    assert_eq!(server_stamp(&new).unwrap(), Some(stamp));
}
