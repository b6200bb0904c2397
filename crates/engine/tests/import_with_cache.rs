//! Directories that are imported repeatedly while they change: each result
//! equals that of a first import.
#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

mod support;

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use elevo_engine::{
    ImportOptions, Imported, LossKind, NewStatCache, Progress, Repository, StatCache, import,
    import_with_cache, scan_with_cache,
};
use elevo_objects::SnapshotId;
use elevo_testkit::file_clock::wait_for_tick;
use futures::executor::block_on;
use proptest::prelude::*;
use support::{info, repository};

fn options() -> ImportOptions {
    ImportOptions {
        threads: 2,
        leave_out: Vec::new(),
        ignoring: None,
    }
}

/// A change to the directory.
#[derive(Clone, Copy, Debug)]
enum Change {
    Write,
    WriteSameSize,
    Remove,
    Rename,
    Directory,
    Mode,
    Link,
    Touch,
    /// An entry that a snapshot does not store.
    Socket,
    Attribute,
    /// A great many files at once.
    Many,
}

fn changes() -> impl Strategy<Value = Vec<(Change, u8, u8)>> {
    let change = prop_oneof![
        8 => Just(Change::Write),
        8 => Just(Change::WriteSameSize),
        2 => Just(Change::Remove),
        2 => Just(Change::Rename),
        6 => Just(Change::Directory),
        1 => Just(Change::Mode),
        1 => Just(Change::Link),
        1 => Just(Change::Touch),
        1 => Just(Change::Socket),
        1 => Just(Change::Attribute),
        1 => Just(Change::Many),
    ];
    prop::collection::vec((change, any::<u8>(), any::<u8>()), 0..6)
}

/// Returns one of few paths, so that changes coincide.
fn place(root: &Path, n: u8) -> PathBuf {
    let names = ["a", "b", "c", "dd"];
    let depth = usize::from(n / 64);
    let parts = (0..=depth).map(|at| names[usize::from(n >> (2 * at)) % 4]);
    parts.fold(root.into(), |path: PathBuf, part| path.join(part))
}

fn remove(path: &Path) {
    let _ = fs::remove_file(path);
    let _ = fs::remove_dir_all(path);
}

/// Changes that are impossible at their path are skipped.
fn apply(root: &Path, (change, one, other): (Change, u8, u8)) {
    let (path, to) = (place(root, one), place(root, other));
    match change {
        Change::Write => drop(fs::write(&path, vec![other; other.into()])),
        Change::WriteSameSize => drop(fs::write(&path, [other])),
        Change::Remove => remove(&path),
        Change::Rename => drop(fs::rename(&path, &to)),
        Change::Directory => {
            if path.is_file() {
                remove(&path);
            }
            drop(fs::create_dir_all(&path));
        }
        Change::Mode => {
            let mode = fs::Permissions::from_mode(0o700 | u32::from(other & 0o77));
            drop(fs::set_permissions(&path, mode));
        }
        Change::Link => drop(symlink(format!("to-{other}"), &path)),
        Change::Touch => {
            let time = UNIX_EPOCH + Duration::from_secs(other.into());
            drop(fs::File::open(&path).map(|file| file.set_modified(time)));
        }
        Change::Socket => drop(UnixListener::bind(&path)),
        Change::Attribute => {
            let flags = rustix::fs::XattrFlags::empty();
            let value = b"kept nowhere";
            let _ = rustix::fs::lsetxattr(&path, "user.note", value, flags);
        }
        Change::Many => {
            if fs::create_dir_all(&path).is_ok() {
                for n in 0..1_100 {
                    drop(fs::write(path.join(format!("{n}-{other}")), "many"));
                }
            }
        }
    }
}

fn counts(imported: &Imported) -> Vec<(LossKind, u64)> {
    let losses = imported.losses.iter();
    losses.map(|loss| (loss.kind, loss.count)).collect()
}

fn read_again(repository: &Repository, root: &Path, stat: &Path) -> (SnapshotId, u64) {
    let progress = Progress::new();
    let cache = NewStatCache::begin(stat).unwrap();
    let again = import_with_cache(repository, root, &options(), &progress, &cache).unwrap();
    let new = import(repository, root, &options(), &Progress::new()).unwrap();
    assert_eq!((again.tree, again.times), (new.tree, new.times));
    assert_eq!(counts(&again), counts(&new));
    // Everything the snapshot needs is stored, even if it was not read again.
    let id = block_on(again.commit(repository, info("again"))).unwrap();
    cache.finish(id).unwrap();
    (id, progress.bytes())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn importing_again_equals_a_first_import(rounds in prop::collection::vec((changes(), any::<bool>()), 1..10)) {
        let directory = tempfile::tempdir().unwrap();
        let (root, stat) = (directory.path().join("files"), directory.path().join("stat"));
        fs::create_dir(&root).unwrap();
        let (_, repository) = repository();
        for (changes, wait) in rounds {
            changes.into_iter().for_each(|change| apply(&root, change));
            if wait {
                // After this, the cache trusts the present files, and
                // directories are not listed again.
                wait_for_tick(directory.path());
                read_again(&repository, &root, &stat);
            }
            let cache = StatCache::open(&stat);
            let looked = scan_with_cache(&repository, &root, &options(), &Progress::new(), &cache);
            let (id, _) = read_again(&repository, &root, &stat);
            let snapshot = block_on(repository.snapshot(id)).unwrap();
            prop_assert_eq!(looked.unwrap().0, snapshot.tree);
        }
    }
}

#[test]
fn unchanged_files_are_not_read() {
    let directory = tempfile::tempdir().unwrap();
    let (root, stat) = (
        directory.path().join("files"),
        directory.path().join("stat"),
    );
    for n in 0..3 {
        let inside = root.join(format!("{n}/inside"));
        fs::create_dir_all(&inside).unwrap();
        (0..1_200).for_each(|m| fs::write(inside.join(m.to_string()), [n; 10]).unwrap());
    }
    let (_, repository) = repository();
    assert_eq!(read_again(&repository, &root, &stat).1, 36_000);
    // Files written in the tick of the last read are read once more.
    wait_for_tick(directory.path());
    read_again(&repository, &root, &stat);
    assert_eq!(read_again(&repository, &root, &stat).1, 0);
    fs::write(root.join("1/inside/700"), "0123456789abc").unwrap();
    wait_for_tick(directory.path());
    assert_eq!(read_again(&repository, &root, &stat).1, 13);
    fs::remove_file(root.join("2/inside/1")).unwrap();
    fs::remove_file(root.join("2/inside/999")).unwrap();
    assert_eq!(read_again(&repository, &root, &stat).1, 0);
}

#[test]
fn names_that_come_and_go_are_seen_in_directories_that_are_not_listed() {
    let directory = tempfile::tempdir().unwrap();
    let (root, stat) = (
        directory.path().join("files"),
        directory.path().join("stat"),
    );
    let inside = root.join("above/inside");
    fs::create_dir_all(&inside).unwrap();
    fs::write(inside.join("a"), "first").unwrap();
    let (_, repository) = repository();
    // Repeats until the cache trusts the directories and does not list them.
    let settle = || {
        for _ in 0..3 {
            wait_for_tick(directory.path());
            read_again(&repository, &root, &stat);
        }
    };
    settle();
    fs::write(inside.join("b"), "second").unwrap();
    settle();
    fs::rename(inside.join("a"), inside.join("c")).unwrap();
    settle();
    // A write in place changes no time of its directory.
    fs::write(inside.join("b"), "in place").unwrap();
    settle();
    // Losses are reported each time.
    let _socket = UnixListener::bind(inside.join("socket")).unwrap();
    settle();
    fs::remove_file(inside.join("b")).unwrap();
    fs::rename(root.join("above"), root.join("elsewhere")).unwrap();
    fs::create_dir(root.join("above")).unwrap();
    settle();
}
