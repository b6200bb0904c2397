//! Stores of earlier versions, and backups of later ones.

#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

mod support;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use elevo_core::{Timestamp, TreePath};
use elevo_engine::{Attributes, CommitInfo, Progress, Repository, StateTree};
use elevo_objects::SnapshotId;
use elevo_store_local::{BackupError, LocalStore, OpenError, Options, restore};
use elevo_testkit::fixtures;
use futures::executor::block_on;
use support::{TENANT, check, make};

fn open(path: &Path) -> (Arc<LocalStore>, Repository) {
    let store = Arc::new(LocalStore::open(path, &Options::default()).unwrap());
    let repository = Repository::new(store.clone(), TENANT, 1 << 20);
    (store, repository)
}

/// Checks the store of a fixture, and adds a snapshot to it.
fn read_and_write(path: &Path, head: SnapshotId) {
    let (store, repository) = open(path);
    let tree = block_on(StateTree::open(&repository, head)).unwrap();
    let large = block_on(tree.read(&TreePath::new("large.txt").unwrap())).unwrap();
    let numbers: String = (1..=60_000).map(|n| format!("{n}\n")).collect();
    assert!(large == numbers, "large.txt differs");
    assert!(check(&store).is_whole());

    let new = TreePath::new("new.txt").unwrap();
    let attributes = Attributes {
        mode: None,
        modified: None,
    };
    block_on(tree.write(&new, Bytes::from("new"), attributes)).unwrap();
    let info = CommitInfo {
        parents: vec![head],
        author: "test".into(),
        message: "new".into(),
        created: Timestamp::new(0, 0).unwrap(),
        labels: BTreeMap::new(),
        reference: None,
    };
    let id = block_on(tree.commit(info)).unwrap();
    drop((store, repository, tree));

    let (store, repository) = open(path);
    let tree = block_on(StateTree::open(&repository, id)).unwrap();
    assert_eq!(block_on(tree.read(&new)).unwrap(), "new");
    assert!(check(&store).is_whole());
}

#[test]
fn stores_of_earlier_versions_are_whole_and_writable() {
    for fixture in fixtures::all() {
        let expected = fixture.expected();
        let server = fixture.unpack("server.tar.gz");
        let head = expected["project"]["head"].as_str().unwrap();
        read_and_write(&server.path().join("data/store"), head.parse().unwrap());
        let local = fixture.unpack("local.tar.gz");
        let head = expected["local"][0]["snapshot"].as_str().unwrap();
        read_and_write(
            &local.path().join("work/.elevo/store"),
            head.parse().unwrap(),
        );
    }
}

#[test]
fn a_backup_of_a_newer_format_is_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    let (path, _) = make(directory.path(), 2);
    let store = LocalStore::open(&path, &Options::default()).unwrap();
    let made = store.backup(
        &directory.path().join("backups"),
        "1",
        None,
        &Progress::new(),
    );
    let backup = made.unwrap().path;
    let list = backup.join("BACKUP");
    let text = fs::read_to_string(&list).unwrap();
    let newer = text.replacen("elevo backup 1", "elevo backup 2", 1);
    fs::write(&list, newer).unwrap();
    let to = directory.path().join("restored");
    let restored = restore(&backup, &to, true, &Options::default(), &Progress::new());
    let Err(BackupError::Open(first)) = restored else {
        panic!("{restored:?}");
    };
    let second = LocalStore::open_read_only(&backup, &Options::default()).unwrap_err();
    for error in [first, second] {
        assert!(matches!(error, OpenError::NewerBackup { .. }), "{error:?}");
        let text = error.to_string();
        for part in [
            "format 2",
            "up to 1",
            "install the version",
            "an earlier backup",
        ] {
            assert!(text.contains(part), "{text}");
        }
    }
    assert!(!to.exists());
}
