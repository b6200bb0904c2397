//! Bits that flip on the disk: a read returns the right bytes or an error.

#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use elevo_core::TenantId;
use elevo_engine::{Commit, Object, Store, StoreError};
use elevo_store_local::{LocalStore, Options};
use elevo_testkit::commits;
use futures::executor::block_on;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use tempfile::TempDir;

const TENANT: TenantId = TenantId::LOCAL;
const COMMITS: u64 = 60;

/// A store with rows in table files, blob files and a log. The log exists as
/// long as its writer.
fn make(directory: &Path) -> (PathBuf, LocalStore) {
    let path = directory.join("store");
    let options = Options {
        logged_puts: 0,
        ..Options::default()
    };
    let store = LocalStore::create(&path, &options).unwrap();
    let (ahead, logged): (Vec<_>, Vec<_>) = (0..COMMITS).partition(|n| n % 4 != 0);
    // These objects are not logged, so that a commit must flush them.
    let objects = ahead.iter().flat_map(|n| commits::numbered(*n).objects);
    let writer = commits::put(&store, TENANT, objects.collect());
    for n in ahead {
        let commit = Commit {
            objects: Vec::new(),
            after: vec![writer.id()],
            ..commits::numbered(n)
        };
        block_on(store.commit(TENANT, commit)).unwrap();
    }
    for n in logged {
        block_on(store.commit(TENANT, commits::numbered(n))).unwrap();
    }
    (path, store)
}

fn files(path: &Path, extension: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(path.join("db"))
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let name = |path: &PathBuf| path.file_name().unwrap().to_string_lossy().into_owned();
    let mut files: Vec<_> = entries
        .filter(|path| name(path).ends_with(extension) || name(path).starts_with(extension))
        .filter(|path| path.metadata().unwrap().len() > 0)
        .collect();
    files.sort();
    files
}

/// A flipped bit of a file, until this is dropped.
struct Flipped {
    file: File,
    at: u64,
    bit: u8,
}

impl Flipped {
    fn new(path: &Path, at: u64, bit: u8) -> Self {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .open(path)
            .unwrap();
        let flipped = Self { file, at, bit };
        flipped.flip();
        flipped
    }

    fn flip(&self) {
        let mut byte = [0];
        self.file.read_exact_at(&mut byte, self.at).unwrap();
        self.file
            .write_all_at(&[byte[0] ^ 1 << self.bit], self.at)
            .unwrap();
    }
}

impl Drop for Flipped {
    fn drop(&mut self) {
        self.flip();
    }
}

/// Result of reading everything.
#[derive(Debug, Default, PartialEq)]
struct Seen {
    right: usize,
    missing: usize,
    refused: usize,
}

/// Reads everything in `made`; panics at a wrong byte.
fn read_all(path: &Path, made: &[Commit]) -> Seen {
    let mut seen = Seen::default();
    let Ok(store) = LocalStore::open_read_only(path, &Options::default()) else {
        return Seen { refused: 1, ..seen };
    };
    for (
        n,
        Commit {
            objects, snapshots, ..
        },
    ) in (0..).zip(made)
    {
        match block_on(store.snapshots(TENANT, &[commits::id(n)])).map(|mut found| found.remove(0))
        {
            Ok(Some(found)) => assert_eq!(found, snapshots[0], "a wrong snapshot"),
            Ok(None) => seen.missing += 1,
            Err(_) => seen.refused += 1,
        }
        for Object { key, data } in objects {
            match block_on(store.get(TENANT, &[*key])).map(|mut found| found.remove(0)) {
                Ok(Some(found)) if found == *data => seen.right += 1,
                Ok(Some(_)) => panic!("wrong bytes for {key:?}"),
                Ok(None) => seen.missing += 1,
                Err(_) => seen.refused += 1,
            }
        }
    }
    seen
}

/// Flips one bit at a time, in `count` places of each file of this kind.
fn flip_bits(extension: &str, count: u64) -> Vec<Seen> {
    let directory = TempDir::new().unwrap();
    let made: Vec<_> = (0..COMMITS).map(commits::numbered).collect();
    let (path, _writer) = make(directory.path());
    let whole = read_all(&path, &made);
    assert_eq!((whole.missing, whole.refused), (0, 0));
    let mut random = SmallRng::seed_from_u64(1);
    let files = files(&path, extension);
    assert!(!files.is_empty(), "the store has {extension} files");
    let mut all = Vec::new();
    for file in files {
        let length = file.metadata().unwrap().len();
        for _ in 0..count {
            let (at, bit) = (random.random_range(0..length), random.random_range(0..8));
            let flipped = Flipped::new(&file, at, bit);
            all.push(read_all(&path, &made));
            drop(flipped);
        }
    }
    assert_eq!(read_all(&path, &made), whole, "the bits are as they were");
    all
}

#[test]
fn a_flipped_bit_in_a_table_file_gives_no_wrong_bytes_and_hides_none() {
    let all = flip_bits(".sst", 30);
    assert!(all.iter().all(|seen| seen.missing == 0), "{all:?}");
    assert!(all.iter().any(|seen| seen.refused > 0), "some were noticed");
}

#[test]
fn a_flipped_bit_in_a_blob_file_gives_no_wrong_bytes_and_hides_none() {
    let all = flip_bits(".blob", 60);
    assert!(all.iter().all(|seen| seen.missing == 0), "{all:?}");
    assert!(
        all.iter().any(|seen| seen.refused == 1),
        "most harm one object"
    );
}

#[test]
fn a_flipped_bit_in_the_log_gives_no_wrong_bytes() {
    // The rest of the log is lost: RocksDB cannot distinguish the damage from
    // the end of the log after a crash.
    let all = flip_bits(".log", 40);
    assert!(
        all.iter().any(|seen| seen.missing > 0 || seen.refused > 0),
        "some were noticed"
    );
}

#[test]
fn a_flipped_bit_in_the_list_of_files_gives_no_wrong_bytes() {
    let all = flip_bits("MANIFEST", 40);
    assert!(all.iter().any(|seen| seen.refused > 0), "some were noticed");
}

#[test]
fn the_error_names_the_object_that_is_damaged() {
    let directory = TempDir::new().unwrap();
    let (path, _writer) = make(directory.path());
    let blobs: Vec<_> = files(&path, ".blob")
        .into_iter()
        .map(|file| (fs::read(&file).unwrap(), file))
        .collect();
    let mut found = 0;
    for Object { key, data } in (0..16).flat_map(|n| commits::numbered(n).objects) {
        // Chunks that do not compress are stored plain.
        let Some(part) = data.get(1000..1032) else {
            continue;
        };
        let place = |(content, file): &(Vec<u8>, PathBuf)| {
            let at = content.windows(32).position(|window| window == part)?;
            Some((file.clone(), at as u64))
        };
        let Some((file, at)) = blobs.iter().find_map(place) else {
            continue;
        };
        let flipped = Flipped::new(&file, at, 3);
        let store = LocalStore::open_read_only(&path, &Options::default()).unwrap();
        for keys in [vec![key], vec![key, key]] {
            match block_on(store.get(TENANT, &keys)) {
                Err(StoreError::Damaged(words)) => {
                    assert!(words.contains(&key.hash.to_string()), "{words}");
                }
                other => panic!("{other:?}"),
            }
        }
        let contains = block_on(store.contains(TENANT, &[key])).unwrap();
        assert_eq!(contains, [true], "it is there, if damaged");
        drop(flipped);
        found += 1;
    }
    assert!(found > 5, "{found} objects found in blob files");
}
