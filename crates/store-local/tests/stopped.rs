//! A store whose database cannot open a file. The limit of open files belongs
//! to the process, so this test is alone in its binary.

#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

use std::fs::File;
use std::os::fd::AsRawFd;

use elevo_core::TenantId;
use elevo_engine::{Store, StoreError};
use elevo_store_local::{LocalStore, Options};
use elevo_testkit::commits;
use futures::executor::block_on;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tempfile::TempDir;

const TENANT: TenantId = TenantId::LOCAL;

#[test]
fn a_store_that_rejects_writes_reports_it_until_it_is_opened_again() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("store");
    // Everything is put without a log, so that a commit waits for a table file.
    let options = Options {
        logged_puts: 0,
        ..Options::default()
    };
    let store = LocalStore::create(&path, &options).unwrap();
    block_on(store.commit(TENANT, commits::numbered(1))).unwrap();
    store.check_writes().unwrap();

    let mut commit = commits::numbered(2);
    let objects = std::mem::take(&mut commit.objects);
    let ahead = commits::put(&store, TENANT, objects);
    commit.after.push(ahead.id());
    let limit = getrlimit(Resource::Nofile);
    let free = File::open("/dev/null").unwrap().as_raw_fd();
    let none = Rlimit {
        current: Some(free as u64),
        ..limit
    };
    setrlimit(Resource::Nofile, none).unwrap();
    let failed = block_on(store.commit(TENANT, commit)).unwrap_err();
    setrlimit(Resource::Nofile, limit).unwrap();
    assert!(matches!(failed, StoreError::Storage(_)), "{failed:?}");

    // The process can open files again, but the store still rejects writes.
    let refused = store.check_writes().unwrap_err();
    assert!(matches!(refused, StoreError::Storage(_)), "{refused:?}");
    let refused = block_on(store.commit(TENANT, commits::numbered(3)));
    assert!(refused.is_err(), "the database takes no writes");
    commits::assert_whole(&store, TENANT, 1);

    drop(store);
    let store = LocalStore::open(&path, &options).unwrap();
    store.check_writes().unwrap();
    block_on(store.commit(TENANT, commits::numbered(3))).unwrap();
    for n in [1, 3] {
        commits::assert_whole(&store, TENANT, n);
    }
}
