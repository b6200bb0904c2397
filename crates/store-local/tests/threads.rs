//! Many threads on one store.

#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

use std::thread;

use elevo_core::TenantId;
use elevo_engine::{Commit, Store, Writer};
use elevo_store_local::{LocalStore, Options};
use elevo_testkit::commits;
use futures::executor::block_on;
use tempfile::TempDir;

const THREADS: u64 = 8;
const COMMITS: u64 = 100;

fn tenant(thread: u64) -> TenantId {
    TenantId::new([(thread % 3) as u8; 16])
}

#[test]
fn commits_of_many_threads_survive_closing_and_opening() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("store");
    let store = LocalStore::create(&path, &Options::default()).unwrap();
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let store = &store;
            scope.spawn(move || {
                for n in thread * COMMITS..(thread + 1) * COMMITS {
                    let mut commit = commits::numbered(n);
                    let ahead = (n % 3 == 0).then(|| {
                        let objects = std::mem::take(&mut commit.objects);
                        commits::put(store, tenant(thread), objects)
                    });
                    commit.after.extend(ahead.iter().map(Writer::id));
                    block_on(store.commit(tenant(thread), commit)).unwrap();
                    commits::assert_whole(store, tenant(thread), n);
                }
            });
        }
    });
    drop(store);
    let store = LocalStore::open(&path, &Options::default()).unwrap();
    for n in 0..THREADS * COMMITS {
        commits::assert_whole(&store, tenant(n / COMMITS), n);
    }
}

#[test]
fn objects_that_another_thread_is_putting_are_read_whole_or_not_at_all() {
    let directory = TempDir::new().unwrap();
    let store = LocalStore::create(&directory.path().join("store"), &Options::default()).unwrap();
    let (store, tenant) = (&store, TenantId::LOCAL);
    thread::scope(|scope| {
        scope.spawn(move || {
            for n in 0..200 {
                let Commit { objects, .. } = commits::numbered(n);
                commits::put(store, tenant, objects);
            }
        });
        for n in (0..200).cycle().take(400) {
            for object in commits::numbered(n).objects {
                let found = block_on(store.get(tenant, &[object.key])).unwrap();
                assert!(found[0].is_none() || found[0] == Some(object.data));
            }
        }
    });
}
