//! The store keeps its promises through handles of two processes. Each call goes
//! to the other process than the one before.

#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

mod alternating;
mod remote;
mod support;

use std::ops::Deref;
use std::path::{Path, PathBuf};

use alternating::Alternating;
use elevo_store_cluster::ClusterStore;
use elevo_testkit::postgres::Database;
use elevo_testkit::rival::{Here, Rival};
use elevo_testkit::s3::S3;
use remote::Remote;
use support::options_at;
use tempfile::TempDir;
use tokio::net::UnixListener;
use tokio::runtime::{Handle, Runtime};

/// Serves its store to the test that has started this process. Nothing else
/// starts it so.
#[test]
fn the_other_process() {
    let Some(mut here) = Here::find() else {
        return;
    };
    let mut place = here.place().split_whitespace();
    let mut next = || place.next().unwrap().to_owned();
    let (socket, database, prefix) = (PathBuf::from(next()), next(), next());
    let runtime = Runtime::new().unwrap();
    runtime.block_on(async {
        let s3 = S3 {
            prefix,
            ..S3::new()
        };
        let store = ClusterStore::open(options_at(database, &s3)).await.unwrap();
        let listener = UnixListener::bind(socket).unwrap();
        tokio::spawn(remote::serve(store, listener));
    });
    // Returns when the test ends.
    assert_eq!(here.next_round(), None);
}

/// A store of this process and another one.
struct TwoProcesses {
    store: Alternating,
    _rival: Rival,
    _directory: TempDir,
    _database: Database,
}

impl Deref for TwoProcesses {
    type Target = Alternating;

    fn deref(&self) -> &Alternating {
        &self.store
    }
}

impl TwoProcesses {
    fn new() -> Self {
        let (database, s3) = (support::database(), S3::new());
        let directory = TempDir::new().unwrap();
        let socket = directory.path().join("socket");
        let place = |socket: &Path| {
            let socket = socket.display();
            format!("{socket} {} {}", database.url(), s3.prefix)
        };
        let rival = Rival::start("the_other_process", &place(&socket));
        let options = options_at(database.url(), &s3);
        let ours = Handle::current().block_on(ClusterStore::open(options));
        Self {
            store: Alternating::new([Box::new(ours.unwrap()), Box::new(Remote::new(&socket))]),
            _rival: rival,
            _directory: directory,
            _database: database,
        }
    }
}

elevo_engine::conformance_tests!(TwoProcesses::new);
