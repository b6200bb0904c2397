//! Single bits that flip anywhere in a store: everything reads back unchanged,
//! or `verify` reports damage, or opening the store fails with an error.

#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

mod support;

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use elevo_store_local::{LocalStore, OpenError, Options};
use elevo_testkit::long;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use support::{Content, Seen, check, copy, files, make, read_all};

/// Flips one bit of a file.
fn flip(path: &Path, at: u64, bit: u8) {
    let file: File = OpenOptions::new()
        .read(true)
        .write(true)
        .open(path)
        .unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_all_at(&[byte[0] ^ 1 << bit], at).unwrap();
}

#[derive(Debug, Default)]
struct Outcomes {
    unharmed: u32,
    told: u32,
    not_opened: u32,
}

impl Outcomes {
    /// Checks a store after one flip.
    fn add(
        &mut self,
        opened: Result<LocalStore, OpenError>,
        content: &Content,
        whole: &Seen,
        what: &str,
    ) {
        let store = match opened {
            Ok(store) => Arc::new(store),
            Err(error) => {
                assert!(error.to_string().contains("store"), "{what}: {error}");
                self.not_opened += 1;
                return;
            }
        };
        let seen = read_all(&store, content);
        let found = check(&store);
        if !found.is_whole() {
            self.told += 1;
        } else {
            assert_eq!(seen, *whole, "{what}: lost without a report");
            self.unharmed += 1;
        }
        // A verification that reports damage also finds everything that cannot
        // be read.
        assert!(seen.refused == 0 || !found.is_whole(), "{what}: {seen:?}");
    }
}

#[test]
fn a_flipped_bit_is_harmless_or_reported() {
    let places = long::rounds(60, 4);
    let directory = tempfile::tempdir().unwrap();
    let (path, content) = make(directory.path(), 24);
    let options = Options::default();
    let opened = LocalStore::open_read_only(&path, &options).map(Arc::new);
    let whole = read_all(opened.as_ref().unwrap(), &content);
    assert_eq!((whole.missing, whole.refused), (0, 0));
    assert!(check(opened.as_ref().unwrap()).is_whole());
    drop(opened);
    let mut random = SmallRng::seed_from_u64(long::seed());
    for file in files(&path) {
        let name = file.strip_prefix(&path).unwrap().to_owned();
        let length = file.metadata().unwrap().len();
        let mut outcomes = Outcomes::default();
        for n in 0..places.min(8 * length as u32) {
            let (at, bit) = (random.random_range(0..length), random.random_range(0..8));
            let what = format!("bit {bit} of byte {at} of {}", name.display());
            flip(&file, at, bit);
            let opened = LocalStore::open_read_only(&path, &options);
            outcomes.add(opened, &content, &whole, &what);
            // Opening for writing may repair or delete files, so it is done on
            // a copy.
            if n % 4 == 0 {
                let copied = directory.path().join("copy of the store");
                copy(&path, &copied);
                let opened = LocalStore::open(&copied, &options);
                outcomes.add(opened, &content, &whole, &format!("{what}, to write"));
                std::fs::remove_dir_all(copied).unwrap();
            }
            flip(&file, at, bit);
        }
        long::note(format_args!("{}: {outcomes:?}", name.display()));
    }
    let store = Arc::new(LocalStore::open_read_only(&path, &options).unwrap());
    assert_eq!(
        read_all(&store, &content),
        whole,
        "the bits are as they were"
    );
}
