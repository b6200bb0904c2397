//! The conformance suite through two processes. Each call of a handle goes to
//! the other process than the one before.

mod calls;
mod other;
mod records;
mod wire;

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};

use elevo_testkit::postgres::Database;
use elevo_testkit::rival::{Here, Rival};
use tempfile::TempDir;
use tokio::net::UnixListener;

use self::calls::Alternating;
use self::other::Other;
use super::Temporary;
use crate::conformance::Backend;

/// Serves catalogs to the test that has started this process. Nothing else
/// starts it so.
#[tokio::test(flavor = "multi_thread")]
async fn the_other_process() {
    let Some(mut here) = Here::find() else {
        return;
    };
    let (socket, url) = here.place().split_once(' ').unwrap();
    let (listener, url) = (UnixListener::bind(socket).unwrap(), url.to_owned());
    tokio::spawn(other::serve(listener, url));
    let ended = tokio::task::spawn_blocking(move || here.next_round()).await;
    assert_eq!(ended.unwrap(), None);
}

/// A database that two processes open.
struct TwoProcesses {
    opened: AtomicUsize,
    socket: PathBuf,
    // In the order in which they end.
    _rival: Rival,
    database: Database,
    _directory: TempDir,
}

impl TwoProcesses {
    fn new() -> Self {
        let (database, directory) = (Database::create(), TempDir::new().unwrap());
        let socket = directory.path().join("socket");
        let place = format!("{} {}", socket.display(), database.url());
        let test = "postgres::tests::processes::the_other_process";
        Self {
            opened: AtomicUsize::new(0),
            socket,
            _rival: Rival::start(test, &place),
            database,
            _directory: directory,
        }
    }
}

impl Backend for TwoProcesses {
    type Catalog = Alternating;

    async fn open(&self) -> Alternating {
        let first = self.opened.fetch_add(1, Ordering::Relaxed);
        let url = self.database.url();
        let own = Temporary::open_at(&url);
        let (own, other) = tokio::join!(own, Other::open(&self.socket));
        Alternating::new(own, other, first)
    }
}

crate::conformance_tests!(TwoProcesses::new());
