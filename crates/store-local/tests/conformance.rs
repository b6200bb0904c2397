//! The store on RocksDB keeps the promises of a store.

#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

use std::ops::Deref;

use elevo_store_local::{LocalStore, Options};
use tempfile::TempDir;

struct Temporary {
    store: LocalStore,
    _directory: TempDir,
}

impl Deref for Temporary {
    type Target = LocalStore;

    fn deref(&self) -> &LocalStore {
        &self.store
    }
}

fn make() -> Temporary {
    let directory = TempDir::new().unwrap();
    let store = LocalStore::create(&directory.path().join("store"), &Options::default()).unwrap();
    Temporary {
        store,
        _directory: directory,
    }
}

elevo_engine::conformance_tests!(make);
