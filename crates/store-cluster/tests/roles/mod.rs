//! Processes of a cluster that work until the test kills them. Each says with lines
//! what it does.

mod collector;
mod committer;
mod holder;

use std::fmt::{self, Display};
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use elevo_core::TenantId;
use elevo_engine::{Commit, Error, Repository, Store, StoreError, Walk};
use elevo_objects::SnapshotId;
use elevo_store_cluster::{BundleOptions, CacheOptions, ClusterStore, Options};
use elevo_testkit::crash::Victim;
use elevo_testkit::postgres::Database;
use elevo_testkit::s3::S3;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use tokio::runtime::Runtime;
use tokio::time::sleep;

use crate::support::options_at;

pub(crate) const TENANT: TenantId = TenantId::new([7; 16]);
pub(crate) const COMMITTERS: [&str; 3] = ["committer0", "committer1", "committer2"];
pub(crate) const HOLDER: &str = "holder";
pub(crate) const COLLECTOR: &str = "collector";
/// The file with the place of the store.
const PLACE: &str = "place";
/// Time after which a stopped process is lost.
const LEASE: Duration = Duration::from_secs(3);
/// The value of a ref that does not exist, in a line.
pub(crate) const NONE: &str = "none";

/// A line of a process. Every value is one word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Line {
    /// The store was opened as this node.
    Node(i32),
    /// A commit begins that moves a ref to this value.
    Tries(String, String),
    /// The commit is acknowledged.
    Moved(String, String),
    /// A snapshot is held from now on, and was read.
    Holds(String),
    /// It is not held any more after this line.
    Releases(String),
    /// A collection has ended, which deleted so many objects and snapshots.
    Collected(u64),
    /// Others have declared this process lost. It does nothing more.
    Lost,
}

impl Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Node(node) => write!(f, "node {node}"),
            Self::Tries(name, value) => write!(f, "tries {name} {value}"),
            Self::Moved(name, value) => write!(f, "moved {name} {value}"),
            Self::Holds(id) => write!(f, "holds {id}"),
            Self::Releases(id) => write!(f, "releases {id}"),
            Self::Collected(removed) => write!(f, "collected {removed}"),
            Self::Lost => write!(f, "lost"),
        }
    }
}

impl Line {
    pub(crate) fn read(line: &str) -> Self {
        let words: Vec<_> = line.split(' ').collect();
        match words[..] {
            ["node", node] => Self::Node(node.parse().unwrap()),
            ["tries", name, value] => Self::Tries(name.into(), value.into()),
            ["moved", name, value] => Self::Moved(name.into(), value.into()),
            ["holds", id] => Self::Holds(id.into()),
            ["releases", id] => Self::Releases(id.into()),
            ["collected", removed] => Self::Collected(removed.parse().unwrap()),
            ["lost"] => Self::Lost,
            _ => panic!("{line:?} is not a line of a process"),
        }
    }
}

/// Writes the place of the store for all processes in the directory.
pub(crate) fn write_place(directory: &Path, database: &Database, s3: &S3) {
    let place = format!("{} {}", database.url(), s3.prefix);
    fs::write(directory.join(PLACE), place).unwrap();
}

/// The options of all stores: everything happens soon and often.
pub(crate) fn options(database: String, s3: &S3) -> Options {
    Options {
        beat: Duration::from_millis(100),
        lease: LEASE,
        inline_bytes: 16 << 10,
        upkeep: Duration::from_millis(300),
        bundle: BundleOptions {
            age: Duration::ZERO,
            bytes: 32 << 10,
            oldest: Duration::from_secs(1),
        },
        grace: Duration::ZERO,
        // Most reads are from the database and the bucket.
        cache: CacheOptions {
            memory: 256 << 10,
            disk: None,
        },
        ..options_at(database, s3)
    }
}

/// The number of the node that a store is.
fn node_of(store: &ClusterStore) -> i32 {
    let shown = format!("{store:?}");
    let (_, rest) = shown.split_once("node: ").unwrap();
    let (node, _) = rest.split_once(',').unwrap();
    node.parse().unwrap()
}

/// A process at work.
struct Process {
    victim: Victim,
    store: Arc<ClusterStore>,
    random: SmallRng,
    role: String,
}

/// Works as the role that the name of the directory names, until this process is
/// killed.
pub(crate) fn work(victim: Victim) -> ! {
    let directory = victim.directory().to_owned();
    let role = directory.file_name().unwrap().to_str().unwrap().to_owned();
    let place = fs::read_to_string(directory.parent().unwrap().join(PLACE)).unwrap();
    let (database, prefix) = place.split_once(' ').unwrap();
    let s3 = S3 {
        prefix: prefix.into(),
        ..S3::new()
    };
    let runtime = Runtime::new().unwrap();
    runtime.block_on(async {
        let store = ClusterStore::open(options(database.into(), &s3)).await;
        let store = Arc::new(store.unwrap());
        let process = Process {
            random: SmallRng::seed_from_u64(victim.seed()),
            victim,
            store,
            role,
        };
        process.say(&Line::Node(node_of(&process.store)));
        let victim = process.work().await;
        victim.acknowledge(Line::Lost);
    });
    loop {
        thread::park();
    }
}

impl Process {
    /// Works until the store is lost.
    async fn work(self) -> Victim {
        match self.role.as_str() {
            HOLDER => holder::work(self).await,
            COLLECTOR => collector::work(self).await,
            _ => committer::work(self).await,
        }
    }

    fn say(&self, line: &Line) {
        self.victim.acknowledge(line);
    }

    fn chance(&mut self, part: f64) -> bool {
        self.random.random_bool(part)
    }

    fn repository(&self) -> Repository {
        let store: Arc<dyn Store> = self.store.clone();
        Repository::new(store, TENANT, 1)
    }

    /// Pauses for a random time, which makes the moments longer in which a rule of
    /// collections matters.
    async fn pause(&mut self, longest: u64) {
        sleep(Duration::from_millis(self.random.random_range(0..longest))).await;
    }

    /// Returns one of all refs.
    async fn any_ref(&mut self) -> Result<Option<(String, SnapshotId)>, Error> {
        let all = self.store.list_references(TENANT, "", None, 100).await?;
        Ok(match all.is_empty() {
            true => None,
            false => Some(all[self.random.random_range(0..all.len())].clone()),
        })
    }

    /// Whether a step has ended because the store is lost. An error after which a
    /// retry helps is none; any other one is a defect.
    async fn is_lost<T>(&self, step: Result<T, Error>) -> bool {
        match step {
            Ok(_) => false,
            Err(Error::Store(
                StoreError::Lost | StoreError::Unavailable(_) | StoreError::Unknown(_),
            )) => self.commits_nothing().await,
            // A lost process holds nothing, so it may find objects missing.
            Err(error) => {
                assert!(self.commits_nothing().await, "{}: {error:?}", self.role);
                true
            }
        }
    }

    async fn commits_nothing(&self) -> bool {
        let committed = self.store.commit(TENANT, Commit::default()).await;
        matches!(committed, Err(StoreError::Lost))
    }
}

/// Reads a snapshot with everything that it needs. The store verifies each object by
/// its hash, so the content is that of the commit.
pub(crate) async fn read_whole(repository: &Repository, id: SnapshotId) -> Result<(), Error> {
    let (_guard, snapshot) = repository.hold(id).await?;
    let mut walk = Walk::new(repository, snapshot.tree, snapshot.times).await?;
    while let Some(visit) = walk.next().await? {
        repository.bytes(&visit.entry).await?;
    }
    Ok(())
}
