//! Stores with real trees in them, and their expected content.

#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]
#![allow(
    dead_code,
    unreachable_pub,
    reason = "each test binary uses a part of it"
)]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use elevo_core::{TenantId, Timestamp, TreePath};
use elevo_engine::{
    Attributes, CommitInfo, Expected, Progress, Repository, StateTree, Store, Verified,
    VerifyOptions, verify,
};
use elevo_objects::SnapshotId;
use elevo_store_local::{LocalStore, Options};
use futures::executor::block_on;
use rand::rngs::SmallRng;
use rand::{Rng, RngExt, SeedableRng};

pub const TENANT: TenantId = TenantId::LOCAL;
pub const HEAD: &str = "head";

/// Every snapshot with its files.
pub type Content = BTreeMap<SnapshotId, BTreeMap<String, Bytes>>;

/// Result of reading all of a [`Content`].
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Seen {
    pub right: usize,
    pub missing: usize,
    pub refused: usize,
}

pub fn some_bytes(random: &mut SmallRng) -> Bytes {
    let longest = [40, 900, 5000, 120_000][random.random_range(0..4)];
    let mut bytes = vec![0; random.random_range(0..longest)];
    random.fill_bytes(&mut bytes);
    if random.random() {
        bytes.iter_mut().for_each(|byte| *byte = b'a' + *byte % 8);
    }
    bytes.into()
}

/// Makes commits of a few files each, one on top of the other.
pub fn fill(store: &Arc<LocalStore>, content: &mut Content, commits: u64, seed: u64) {
    let repository = Repository::new(store.clone(), TENANT, 1 << 20);
    let mut random = SmallRng::seed_from_u64(seed);
    let mut head = block_on(store.reference(TENANT, HEAD)).unwrap();
    let tree = match head {
        Some(id) => block_on(StateTree::open(&repository, id)).unwrap(),
        None => StateTree::empty(&repository),
    };
    let mut files = head.map_or_else(BTreeMap::new, |id| content[&id].clone());
    for n in 0..commits {
        for _ in 0..random.random_range(1..9) {
            let at = format!(
                "dir{}/file{}",
                random.random_range(0..4),
                random.random_range(0..40)
            );
            let data = some_bytes(&mut random);
            let attributes = Attributes {
                mode: None,
                modified: Timestamp::new(n as i64, 0),
            };
            let path = TreePath::new(&at).unwrap();
            block_on(tree.write(&path, data.clone(), attributes)).unwrap();
            files.insert(at, data);
        }
        let info = CommitInfo {
            parents: head.into_iter().collect(),
            author: "test".into(),
            message: n.to_string(),
            created: Timestamp::new(n as i64, 0).unwrap(),
            labels: BTreeMap::new(),
            reference: Some((HEAD.into(), head.map_or(Expected::Absent, Expected::At))),
        };
        let id = block_on(tree.commit(info)).unwrap();
        content.insert(id, files.clone());
        head = Some(id);
    }
}

/// Reads everything; panics at a wrong byte.
pub fn read_all(store: &Arc<LocalStore>, content: &Content) -> Seen {
    let repository = Repository::new(store.clone(), TENANT, 1 << 20);
    let mut seen = Seen::default();
    for (id, files) in content {
        let snapshots = block_on(store.snapshots(TENANT, &[*id]));
        let snapshot = match snapshots.map(|mut found| found.remove(0)) {
            Ok(Some(snapshot)) => snapshot,
            Ok(None) => {
                seen.missing += 1;
                continue;
            }
            Err(_) => {
                seen.refused += 1;
                continue;
            }
        };
        assert_eq!(snapshot.encode().unwrap().0, *id, "a wrong snapshot");
        let tree = StateTree::at(&repository, &snapshot);
        for (path, data) in files {
            match block_on(tree.read(&TreePath::new(path).unwrap())) {
                Ok(found) => {
                    assert!(found == *data, "wrong bytes of {path} in {id}");
                    seen.right += 1;
                }
                Err(_) => seen.refused += 1,
            }
        }
    }
    seen
}

pub fn check(store: &Arc<LocalStore>) -> Verified {
    let options = VerifyOptions::default();
    block_on(verify(store.as_ref(), TENANT, &options, &Progress::new())).unwrap()
}

/// Creates a store in `directory` with rows in table files, blob files and a
/// log; closed in order.
pub fn make(directory: &Path, commits: u64) -> (PathBuf, Content) {
    let path = directory.join("store");
    let store = Arc::new(LocalStore::create(&path, &Options::default()).unwrap());
    let mut content = Content::new();
    fill(&store, &mut content, commits, 1);
    // A backup flushes the memory to table files.
    let backups = directory.join("for the tables");
    store.backup(&backups, "b", None, &Progress::new()).unwrap();
    fs::remove_dir_all(backups).unwrap();
    fill(&store, &mut content, commits / 2, 2);
    (path, content)
}

/// All files below a directory.
pub fn files(path: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(path).unwrap().map(Result::unwrap) {
        if entry.file_type().unwrap().is_dir() {
            found.extend(files(&entry.path()));
        } else {
            found.push(entry.path());
        }
    }
    found.sort();
    found
}

pub fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for file in files(from) {
        let target = to.join(file.strip_prefix(from).unwrap());
        fs::create_dir_all(target.parent().unwrap()).unwrap();
        fs::copy(&file, target).unwrap();
    }
}
