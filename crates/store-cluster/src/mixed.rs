//! Commits, holds and collections at once, by several stores on real servers. Each
//! rule of collections, taken out, loses something that is found.

mod rules;
mod worker;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use elevo_core::TenantId;
use elevo_engine::{Error, StoreError};
use elevo_testkit::postgres::Database;
use elevo_testkit::s3::S3;
use elevo_testkit::wire::Wire;
use parking_lot::Mutex;
use tokio::time::{Instant, sleep};

use crate::{BucketOptions, BundleOptions, ClusterStore, Credentials, Options};
use rules::Rule;
pub(crate) use rules::forgets;
use worker::{Snapshot, Worker};

const TENANT: TenantId = TenantId::new([7; 16]);
/// Number of stores, and of workers at each of them.
const STORES: usize = 3;
const WORKERS: usize = 2;
/// Snapshots that workers of all stores may open.
const RECENT: usize = 40;
/// Time after which a test without a rule has failed.
const LIMIT: Duration = Duration::from_secs(800);

/// The state that the workers share.
#[derive(Debug, Default)]
struct Board {
    recent: Mutex<Vec<Snapshot>>,
    faults: Mutex<Vec<String>>,
    is_over: AtomicBool,
    commits: AtomicU64,
    collections: AtomicU64,
    removed: AtomicU64,
}

impl Board {
    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    fn end(&self) {
        self.is_over.store(true, Ordering::Relaxed);
    }

    fn found(&self, fault: String) {
        self.faults.lock().push(fault);
        self.end();
    }
}

/// Whether an error is the consequence of a connection that was cut. Any other
/// one is a fault.
fn is_cut(error: &Error) -> bool {
    matches!(
        error,
        Error::Store(StoreError::Unavailable(_) | StoreError::Unknown(_))
    )
}

/// The options of the bucket of a test.
pub(crate) fn bucket_of(s3: &S3) -> BucketOptions {
    let keys = Credentials::Keys {
        key: s3.key.clone(),
        secret: s3.secret.clone(),
    };
    BucketOptions {
        prefix: s3.prefix.clone(),
        ..BucketOptions::at(&s3.endpoint, &s3.bucket, keys)
    }
}

/// Three stores: the second one keeps everything in S3, which is slow; the
/// connections of the third one to the database are cut.
struct Place {
    database: Database,
    s3: S3,
    slow: Wire,
    cut: Wire,
}

impl Place {
    fn new() -> Self {
        let (database, s3) = (Database::migrated(&crate::migrations()), S3::new());
        let slow = Wire::http(s3.address());
        slow.delay(Duration::from_millis(60));
        Self {
            cut: database.wire(),
            slow,
            database,
            s3,
        }
    }

    async fn open(&self, number: usize, without: Option<Rule>) -> Arc<ClusterStore> {
        let mut options = Options::new(self.database.url(), bucket_of(&self.s3));
        options.connections = 6;
        options.beat = match (number, without) {
            (0, Some(Rule::Opening)) => Duration::from_secs(3),
            _ => Duration::from_millis(100),
        };
        // No store is late enough to be lost, however slow the machine is.
        options.lease = Duration::from_secs(3600);
        options.upkeep = Duration::from_millis(200);
        options.bundle = BundleOptions {
            age: Duration::ZERO,
            bytes: 1 << 20,
            oldest: Duration::from_secs(2),
        };
        options.grace = Duration::ZERO;
        if number == 1 {
            options.inline_bytes = 0;
            options.bucket.endpoint = Some(format!("http://{}", self.slow.address()));
        }
        if number == 2 {
            options.database = self.database.url_through(&self.cut);
            options.settle = Duration::ZERO;
        }
        Arc::new(ClusterStore::open(options).await.unwrap())
    }
}

/// The habits of workers, which make the moments frequent in which a rule matters.
#[derive(Clone, Copy, Debug)]
struct Habits {
    /// Probability that objects are put before a commit.
    ahead: f64,
    /// Number of different contents. With few, garbage is soon written again.
    contents: u64,
}

impl Habits {
    const fn of(without: Option<Rule>) -> Self {
        let (ahead, contents) = match without {
            None => (0.3, 5),
            Some(Rule::Sessions) => (0.8, 3),
            Some(Rule::Seen) => (0.0, 3),
            // A pause of a writer makes each collection longer.
            Some(Rule::Lock | Rule::Vetoes | Rule::Opening | Rule::Memory) => (0.0, 10),
        };
        Self { ahead, contents }
    }
}

/// Works until a fault is found or `enough` is true. Returns the board.
async fn work(without: Option<Rule>, enough: impl Fn(&Board) -> bool) -> Arc<Board> {
    let place = Place::new();
    let mut stores = Vec::new();
    for number in 0..STORES {
        stores.push(place.open(number, without).await);
    }
    rules::prepare(&place.database, without).await;
    let board = Arc::new(Board::default());
    let worker = |number| Worker::new(number, &stores, &board, Habits::of(without));
    let mut tasks: Vec<_> = (0..STORES * WORKERS)
        .map(|number| tokio::spawn(worker(number).work()))
        .collect();
    tasks.push(tokio::spawn(worker(STORES * WORKERS).collect()));
    let began = Instant::now();
    while !board.is_over() && !enough(&board) && began.elapsed() < LIMIT {
        sleep(Duration::from_millis(700)).await;
        if matches!(without, None | Some(Rule::Lock)) {
            place.cut.cut_all();
        }
    }
    board.end();
    for task in tasks {
        task.await.unwrap();
    }
    board
}

/// Works without a rule until this is found out.
async fn find_fault(rule: Rule) {
    let board = work(Some(rule), |_| false).await;
    let faults = board.faults.lock();
    assert!(!faults.is_empty(), "{board:?}");
    eprintln!(
        "{rule:?}: {} commits, {}",
        board.commits.load(Ordering::Relaxed),
        faults[0]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_lost() {
    let board = work(None, |board| {
        board.commits.load(Ordering::Relaxed) >= 200
            && board.collections.load(Ordering::Relaxed) >= 5
    })
    .await;
    assert!(board.faults.lock().is_empty(), "{:?}", board.faults.lock());
    assert!(board.removed.load(Ordering::Relaxed) > 0, "{board:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fault_is_found_without_the_number_of_the_collection_that_saw_an_object() {
    find_fault(Rule::Seen).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fault_is_found_without_the_wait_for_sessions() {
    find_fault(Rule::Sessions).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fault_is_found_without_the_shared_lock() {
    find_fault(Rule::Lock).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fault_is_found_without_vetoes() {
    find_fault(Rule::Vetoes).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fault_is_found_without_the_acknowledgement_of_the_opening() {
    find_fault(Rule::Opening).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fault_is_found_without_the_memory_of_holds() {
    find_fault(Rule::Memory).await;
}
