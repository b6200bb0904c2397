//! A process is killed at each step of its work. Nothing acknowledged is lost, nothing
//! is visible in part, and another process can do the same work at once.

use std::collections::BTreeMap;
use std::fs;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use elevo_core::{TenantId, Timestamp, TreePath};
use elevo_engine::{
    Attributes, CommitInfo, Error, Expected, GcOptions, GcProgress, GcReport, GcRun, GcScope,
    Progress, Repository, StateTree, Store, StoreError, VerifyOptions, Walk, verify,
};
use elevo_objects::SnapshotId;
use elevo_testkit::crash::{Running, Victim};
use elevo_testkit::postgres::Database;
use elevo_testkit::s3::S3;
use elevo_testkit::wait::{Waiting, until_async};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use sqlx::{Connection, PgConnection};
use tempfile::TempDir;
use tokio::runtime::Runtime;

use crate::mixed::bucket_of;
use crate::steps::Step;
use crate::{BundleOptions, ClusterStore, Options};

const TENANT: TenantId = TenantId::new([7; 16]);
const MAIN: &str = "main";
/// The file with the place of the store, the work, and the last step.
const PLACE: &str = "place";
/// Longer than the test.
const NEVER: Duration = Duration::from_secs(3600);
/// Time after which the killed process is lost.
const LEASE: Duration = Duration::from_secs(2);
/// Size of a large file. Commits of more than this are uploaded.
const LARGE: usize = 16 << 10;

/// The step after which this process ends.
static LAST: OnceLock<(Step, Victim)> = OnceLock::new();

/// Ends this process if the test says so.
pub(crate) fn reached(step: Step) {
    if let Some((last, victim)) = LAST.get()
        && *last == step
    {
        victim.die();
    }
}

/// The work of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Work {
    SmallCommit,
    LargeCommit,
    Bundle,
    Collect,
    Clean,
}

impl Work {
    const ALL: [Self; 5] = [
        Self::SmallCommit,
        Self::LargeCommit,
        Self::Bundle,
        Self::Collect,
        Self::Clean,
    ];

    const fn steps(self) -> &'static [Step] {
        match self {
            Self::SmallCommit => &[Step::Prepared, Step::Committed],
            Self::LargeCommit => &[
                Step::Staged,
                Step::Uploaded,
                Step::Published,
                Step::Prepared,
                Step::Committed,
            ],
            Self::Bundle => &[Step::BundleStaged, Step::BundleUploaded, Step::Bundled],
            Self::Collect => &[
                Step::Begun,
                Step::Condemned,
                Step::Called,
                Step::Pardoned,
                Step::Sweeping,
                Step::SnapshotsDeleted,
                Step::ObjectsDeleted,
                Step::MarksStaged,
                Step::MarksUploaded,
                Step::Finished,
            ],
            Self::Clean => &[Step::Doomed, Step::Deleted, Step::Forgotten],
        }
    }

    /// Returns what the text of `Debug` names.
    fn read(work: &str, step: &str) -> (Self, Step) {
        let is_work = |one: &Self| format!("{one:?}") == work;
        let work = Self::ALL.into_iter().find(is_work).unwrap();
        let is_step = |one: &&Step| format!("{one:?}") == step;
        (work, *work.steps().iter().find(is_step).unwrap())
    }

    async fn run(self, store: &Arc<ClusterStore>, main: SnapshotId) -> Result<(), Error> {
        match self {
            Self::SmallCommit => commit(store, 2, Expected::At(main)).await.map(drop),
            Self::LargeCommit => commit(store, LARGE, Expected::At(main)).await.map(drop),
            Self::Bundle => Ok(store.bundle().await.map(drop)?),
            Self::Collect => collect(store, false).await.map(drop),
            Self::Clean => Ok(store.clean().await.map(drop)?),
        }
    }
}

async fn open(database: String, s3: &S3, lease: Duration) -> Arc<ClusterStore> {
    let mut options = Options::new(database, bucket_of(s3));
    options.connections = 4;
    options.beat = Duration::from_millis(50);
    // The test's own stores are never lost.
    options.lease = lease;
    options.inline_bytes = LARGE;
    options.upkeep = NEVER;
    options.bundle = BundleOptions {
        age: Duration::ZERO,
        bytes: 0,
        oldest: Duration::ZERO,
    };
    options.grace = Duration::ZERO;
    Arc::new(ClusterStore::open(options).await.unwrap())
}

fn repository(store: &Arc<ClusterStore>) -> Repository {
    let store: Arc<dyn Store> = store.clone();
    Repository::new(store, TENANT, 1)
}

/// Commits two files of a size, which says their content, and moves the ref.
async fn commit(
    store: &Arc<ClusterStore>,
    size: usize,
    expected: Expected,
) -> Result<SnapshotId, Error> {
    let repository = repository(store);
    let tree = match expected {
        Expected::At(base) => StateTree::open(&repository, base).await?,
        _ => StateTree::empty(&repository),
    };
    for n in 0..2 {
        let path = TreePath::new(format!("d{n}/f{size}")).unwrap();
        let mut bytes = vec![0; size];
        SmallRng::seed_from_u64(size as u64 + n).fill_bytes(&mut bytes);
        let attributes = Attributes {
            mode: None,
            modified: Some(Timestamp::EPOCH),
        };
        tree.write(&path, Bytes::from(bytes), attributes).await?;
    }
    let info = CommitInfo {
        parents: Vec::new(),
        author: "test".into(),
        message: size.to_string(),
        created: Timestamp::EPOCH,
        labels: BTreeMap::new(),
        reference: Some((MAIN.into(), expected)),
    };
    tree.commit(info).await
}

async fn collect(store: &Arc<ClusterStore>, dry_run: bool) -> Result<GcReport, Error> {
    let options = GcOptions {
        scope: GcScope::Full,
        dry_run,
        keep_recent: None,
    };
    let (repository, progress) = (repository(store), GcProgress::default());
    let mut run = GcRun::begin(&repository, &options, &progress).await?;
    let mut waiting = Waiting::new("earlier writers have ended");
    while run.older_writers().await? > 0 {
        waiting.pause().await;
    }
    run.references().await?;
    run.finish().await
}

/// Collects as soon as a process that was killed is lost. Earlier attempts say what to
/// do.
async fn collect_soon(store: &Arc<ClusterStore>, dry_run: bool) -> GcReport {
    until_async("the killed process is lost", async || {
        match collect(store, dry_run).await {
            Err(Error::Store(StoreError::Refused(cause))) => {
                let is_clear = cause.contains("another collection of this tenant is running")
                    || cause.contains("begin another one");
                assert!(is_clear, "{cause}");
                None
            }
            collected => Some(collected.unwrap()),
        }
    })
    .await
}

/// Makes a snapshot with a ref, and garbage: an earlier snapshot, in the database or, for
/// a later deletion, in S3 without a live object.
async fn prepare(store: &Arc<ClusterStore>, work: Work) -> SnapshotId {
    let small = commit(store, 1, Expected::Absent).await.unwrap();
    let large = commit(store, LARGE + 1, Expected::At(small)).await.unwrap();
    let tree = StateTree::empty(&repository(store));
    let path = TreePath::new("kept").unwrap();
    let content = Bytes::from_static(b"kept");
    let written = tree.write(&path, content, Attributes::default()).await;
    written.unwrap();
    let info = CommitInfo {
        parents: Vec::new(),
        author: "test".into(),
        message: "main".into(),
        created: Timestamp::EPOCH,
        labels: BTreeMap::new(),
        reference: Some((MAIN.into(), Expected::At(large))),
    };
    let main = tree.commit(info).await.unwrap();
    drop(tree);
    if work == Work::Clean {
        collect_soon(store, false).await;
    }
    main
}

/// A fresh store reads the ref and everything else whole.
async fn assert_whole(store: &Arc<ClusterStore>, main: SnapshotId) {
    let repository = repository(store);
    let (_guard, snapshot) = repository.hold(main).await.unwrap();
    let walk = Walk::new(&repository, snapshot.tree, snapshot.times).await;
    let mut walk = walk.unwrap();
    while let Some(visit) = walk.next().await.unwrap() {
        repository.bytes(&visit.entry).await.unwrap();
    }
    let (options, progress) = (VerifyOptions::default(), Progress::new());
    let verified = verify(store.as_ref(), TENANT, &options, &progress).await;
    let verified = verified.unwrap();
    assert!(verified.is_whole(), "{verified:?}");
}

/// Checks the state that a killed process has left, and does its work.
async fn check(url: String, s3: &S3, (work, step): (Work, Step), old: SnapshotId) {
    let store = open(url.clone(), s3, NEVER).await;
    let main = store.reference(TENANT, MAIN).await.unwrap().unwrap();
    assert_eq!(main != old, step == Step::Committed, "{main} is the value");
    assert_whole(&store, main).await;
    if main == old && matches!(work, Work::SmallCommit | Work::LargeCommit) {
        let all = store.list_snapshots(TENANT, None, 100).await.unwrap();
        assert_eq!(all.len(), 3, "the new snapshot is not visible");
    }
    match work {
        Work::Collect => drop(collect_soon(&store, false).await),
        _ => match work.run(&store, old).await {
            Err(Error::Store(StoreError::ReferenceMoved { name, current })) => {
                assert_eq!((name.as_str(), current), (MAIN, Some(main)));
                assert_eq!(step, Step::Committed);
            }
            done => done.unwrap(),
        },
    }
    let main = store.reference(TENANT, MAIN).await.unwrap().unwrap();
    assert_eq!(
        main != old,
        matches!(work, Work::SmallCommit | Work::LargeCommit)
    );
    // Nothing that the killed process has left stays.
    collect_soon(&store, false).await;
    let all = store.list_snapshots(TENANT, None, 100).await.unwrap();
    assert_eq!(all, [main]);
    let rest = collect_soon(&store, true).await;
    assert_eq!((rest.objects_removed, rest.snapshots_removed), (0, 0));
    store.clean().await.unwrap();
    assert_whole(&store, main).await;
    let compared = store.compare_files().await.unwrap();
    assert!(compared.is_equal(), "{compared:?}");
    let mut connection = PgConnection::connect(&url).await.unwrap();
    let left = "SELECT (SELECT count(*) FROM store.files WHERE state = 's') \
                + (SELECT count(*) FROM store.doomed) + (SELECT count(*) FROM store.sessions)";
    let left: i64 = sqlx::query_scalar(left)
        .fetch_one(&mut connection)
        .await
        .unwrap();
    assert_eq!(left, 0, "rows of uploads, deletions and writers");
    store.close().await.unwrap();
}

/// The process that is killed.
fn work(victim: Victim) {
    let place = fs::read_to_string(victim.directory().join(PLACE)).unwrap();
    let [url, prefix, work, step, main] = place.split(' ').collect::<Vec<_>>()[..] else {
        panic!("{place} is not a place");
    };
    let s3 = S3 {
        prefix: prefix.into(),
        ..S3::new()
    };
    let (work, step) = Work::read(work, step);
    let main = SnapshotId(main.parse().unwrap());
    Runtime::new().unwrap().block_on(async {
        let store = open(url.into(), &s3, LEASE).await;
        LAST.set((step, victim)).unwrap();
        work.run(&store, main).await.unwrap();
        panic!("{work:?} has no step {step:?}");
    });
}

/// Kills a process at each step of its work.
fn kill_at_each_step(test: &str, works: &[Work]) {
    if let Some(victim) = Victim::here() {
        return work(victim);
    }
    let runtime = Runtime::new().unwrap();
    let steps = works
        .iter()
        .flat_map(|work| work.steps().iter().map(|step| (*work, *step)));
    for (work, step) in steps {
        elevo_testkit::long::note(format_args!("{work:?} until {step:?}"));
        let (database, s3) = (Database::create(), S3::new());
        let directory = TempDir::new().unwrap();
        let main = runtime.block_on(async {
            let store = open(database.url(), &s3, NEVER).await;
            let main = prepare(&store, work).await;
            store.close().await.unwrap();
            main
        });
        let (url, prefix) = (database.url(), &s3.prefix);
        let place = format!("{url} {prefix} {work:?} {step:?} {main}");
        fs::write(directory.path().join(PLACE), place).unwrap();
        Running::start(test, directory.path(), 0).wait_for_death();
        runtime.block_on(check(database.url(), &s3, (work, step), main));
    }
}

#[test]
fn a_commit_survives_the_death_of_its_process_at_each_step() {
    let name = "killed::a_commit_survives_the_death_of_its_process_at_each_step";
    kill_at_each_step(name, &[Work::SmallCommit, Work::LargeCommit]);
}

#[test]
fn upkeep_survives_the_death_of_its_process_at_each_step() {
    let name = "killed::upkeep_survives_the_death_of_its_process_at_each_step";
    kill_at_each_step(name, &[Work::Bundle, Work::Clean]);
}

#[test]
fn a_collection_survives_the_death_of_its_process_at_each_step() {
    let name = "killed::a_collection_survives_the_death_of_its_process_at_each_step";
    kill_at_each_step(name, &[Work::Collect]);
}
