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

fn make(options: &Options) -> Temporary {
    let directory = TempDir::new().unwrap();
    let store = LocalStore::create(&directory.path().join("store"), options).unwrap();
    Temporary {
        store,
        _directory: directory,
    }
}

mod as_by_default {
    elevo_engine::conformance_tests!(|| super::make(&super::Options::default()));
    elevo_engine::inspection_tests!(|| super::make(&super::Options::default()));
}

mod with_nothing_logged_but_commits {
    elevo_engine::conformance_tests!(|| super::make(&super::Options {
        logged_puts: 0,
        ..super::Options::default()
    }));
}
