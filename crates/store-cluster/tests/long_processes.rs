//! Processes of a cluster that are killed, and stopped for longer than their leases:
//! three commit, one holds snapshots, one collects. Each process says what is
//! acknowledged or held. Fresh stores read all of it whole, during the run and after
//! it.
//!
//! `ELEVO_LONG` sets the number of rounds (see CONTRIBUTING.md); `ELEVO_SEED` repeats
//! the choices of a run.

#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

mod roles;
mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::sync::Arc;
use std::time::Duration;

use elevo_engine::{
    Error, GcOptions, GcProgress, GcRun, GcScope, Inspect, Progress, Repository, Store, StoreError,
    VerifyOptions, verify,
};
use elevo_objects::{Hash, SnapshotId};
use elevo_store_cluster::{ClusterStore, Options};
use elevo_testkit::crash::{Running, Victim};
use elevo_testkit::long;
use elevo_testkit::postgres::Database;
use elevo_testkit::s3::S3;
use elevo_testkit::wait::{until, until_async};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use roles::{COLLECTOR, COMMITTERS, HOLDER, Line, NONE, TENANT, options, read_whole};
use sqlx::{Connection, PgConnection};
use support::NEVER;
use tempfile::TempDir;
use tokio::runtime::Runtime;

const NAME: &str = "acknowledged_and_held_snapshots_survive_kills_and_stops";
/// Rounds that take ten minutes on two cores with other work. Every third one stops
/// a committer, the others kill a process.
const ROUNDS: u32 = 168;
/// Commits of each committer in a round.
const COMMITS: u64 = 4;

/// The values of a ref, in the order in which its role has tried to set them.
struct Ref {
    values: Vec<String>,
    /// The index of the last acknowledged one. Earlier ones cannot come back: each
    /// commit names the value that it replaces.
    acknowledged: usize,
}

/// The statements of all processes.
#[derive(Default)]
struct Known {
    refs: BTreeMap<String, Ref>,
    held: BTreeSet<String>,
    removed: u64,
    collections: u64,
    lost: u64,
}

struct Process {
    role: &'static str,
    running: Running,
    said: Said,
}

/// The statements of one process.
#[derive(Default)]
struct Said {
    node: Option<i32>,
    /// Commits, collections and holds in this round.
    steps: u64,
    /// Values that a lost process has tried to set: none of its commits may succeed.
    refused: Option<Vec<String>>,
    is_lost: bool,
}

struct Cluster {
    /// Killed before the database is deleted.
    processes: Vec<Process>,
    known: Known,
    random: SmallRng,
    runtime: Runtime,
    database: Database,
    s3: S3,
    directory: TempDir,
}

impl Known {
    fn hear(&mut self, said: &mut Said, line: &str) {
        match Line::read(line) {
            Line::Node(node) => said.node = Some(node),
            Line::Tries(name, value) => {
                if let Some(refused) = &mut said.refused {
                    refused.push(value.clone());
                }
                let found = self.refs.entry(name).or_insert_with(|| Ref {
                    values: vec![NONE.into()],
                    acknowledged: 0,
                });
                found.values.push(value);
            }
            Line::Moved(name, value) => {
                let refused = said.refused.iter().flatten();
                assert!(
                    refused.clone().all(|one| *one != value),
                    "a lost process has moved {name} to {value}"
                );
                let found = self.refs.get_mut(&name).unwrap();
                let place = found.values.iter().rposition(|one| *one == value);
                found.acknowledged = place.unwrap();
                said.steps += 1;
            }
            Line::Holds(id) => {
                self.held.insert(id);
                said.steps += 1;
            }
            Line::Releases(id) => {
                self.held.remove(&id);
            }
            Line::Collected(removed) => {
                self.removed += removed;
                self.collections += 1;
                said.steps += u64::from(removed > 0);
            }
            Line::Lost => {
                self.lost += 1;
                said.is_lost = true;
            }
        }
    }

    /// The acknowledged value of each ref, as an index.
    fn acknowledged(&self) -> BTreeMap<String, usize> {
        let each = self.refs.iter();
        each.map(|(name, one)| (name.clone(), one.acknowledged))
            .collect()
    }
}

impl Process {
    fn start(role: &'static str, directory: &TempDir, random: &mut SmallRng) -> Self {
        let place = directory.path().join(role);
        Self {
            role,
            running: Running::start(NAME, &place, random.random()),
            said: Said::default(),
        }
    }

    fn has_worked(&self) -> bool {
        let is_committer = COMMITTERS.contains(&self.role);
        self.said.steps >= if is_committer { COMMITS } else { 1 }
    }

    /// Kills the process, and hears its last lines.
    fn end(mut self, known: &mut Known) {
        for line in self.running.kill() {
            known.hear(&mut self.said, &line);
        }
    }
}

fn id_of(text: &str) -> SnapshotId {
    SnapshotId(text.parse::<Hash>().unwrap())
}

impl Cluster {
    fn start() -> Self {
        let (database, s3) = (Database::create(), S3::new());
        let directory = TempDir::new().unwrap();
        roles::write_place(directory.path(), &database, &s3);
        let mut cluster = Self {
            processes: Vec::new(),
            known: Known::default(),
            random: SmallRng::seed_from_u64(long::seed()),
            runtime: Runtime::new().unwrap(),
            database,
            s3,
            directory,
        };
        // Creates the schema.
        let store = cluster.open();
        cluster.runtime.block_on(store.close()).unwrap();
        for role in COMMITTERS.into_iter().chain([HOLDER, COLLECTOR]) {
            fs::create_dir(cluster.directory.path().join(role)).unwrap();
            let process = Process::start(role, &cluster.directory, &mut cluster.random);
            cluster.processes.push(process);
        }
        cluster
    }

    fn open(&self) -> Arc<ClusterStore> {
        let options = Options {
            // The test's own stores are never lost.
            lease: NEVER,
            ..options(self.database.url(), &self.s3)
        };
        Arc::new(self.runtime.block_on(ClusterStore::open(options)).unwrap())
    }

    /// Hears the lines of all processes, and replaces those that are lost.
    fn hear(&mut self) {
        for index in 0..self.processes.len() {
            let process = &mut self.processes[index];
            for line in process.running.acknowledged() {
                self.known.hear(&mut process.said, &line);
            }
            process.running.assert_running();
            if process.said.is_lost {
                self.kill(index);
            }
        }
    }

    /// Kills a process, and starts another one with its role.
    fn kill(&mut self, index: usize) {
        let role = self.processes[index].role;
        let next = Process::start(role, &self.directory, &mut self.random);
        let killed = std::mem::replace(&mut self.processes[index], next);
        killed.end(&mut self.known);
        if role == HOLDER {
            self.known.held.clear();
        }
    }

    /// Waits until every process has done something in this round.
    fn wait_for_work(&mut self) {
        for process in &mut self.processes {
            process.said.steps = 0;
        }
        until("all processes have worked", || {
            self.hear();
            let has_worked = self.processes.iter().all(Process::has_worked);
            has_worked.then_some(())
        });
    }

    fn kill_any(&mut self) {
        let index = self.random.random_range(0..self.processes.len());
        let running = &self.processes[index].running;
        running.work_for_a_moment(&mut self.random, Duration::from_millis(500));
        self.kill(index);
    }

    /// Stops a committer until the others have declared it lost. Its next change must
    /// fail.
    fn stop_a_committer(&mut self) {
        let index = self.random.random_range(0..COMMITTERS.len());
        let node = until("the committer has opened the store", || {
            self.hear();
            self.processes[index].said.node
        });
        let running = &self.processes[index].running;
        running.work_for_a_moment(&mut self.random, Duration::from_millis(500));
        running.pause();
        until("the stopped committer is lost", || {
            self.is_lost(node).then_some(())
        });
        // The lines from before the stop.
        self.hear();
        let process = &mut self.processes[index];
        // Otherwise it knew before the stop, and was replaced.
        if process.said.node == Some(node) {
            process.said.refused = Some(Vec::new());
        }
        process.running.resume();
        until("the committer knows that it is lost", || {
            self.hear();
            (self.processes[index].said.node != Some(node)).then_some(())
        });
    }

    fn is_lost(&self, node: i32) -> bool {
        let url = self.database.url();
        self.runtime.block_on(async {
            let mut connection = PgConnection::connect(&url).await.unwrap();
            let state = "SELECT state::text FROM store.nodes WHERE id = $1";
            let state = sqlx::query_scalar(state).bind(node);
            let state: String = state.fetch_one(&mut connection).await.unwrap();
            state == "x"
        })
    }

    /// A fresh store reads all refs, whose values are acknowledged or newer.
    fn check_refs(&mut self) {
        self.hear();
        let least = self.known.acknowledged();
        let store = self.open();
        let found = self.runtime.block_on(read_refs(&store));
        self.runtime.block_on(store.close()).unwrap();
        for (name, least) in least {
            let value = found.get(&name).map_or(NONE, String::as_str);
            // The line may be on its way. Only an unknown value is waited for.
            let place = until(&format!("{name} is {value}, and its role says so"), || {
                self.hear();
                let values = &self.known.refs[&name].values;
                values.iter().rposition(|one| one == value)
            });
            assert!(
                place >= least,
                "{name} is {value}, which is not the last value"
            );
        }
    }

    /// Kills all processes, the collector first: everything that is held stays from
    /// then on.
    fn end(mut self) {
        while let Some(process) = self.processes.pop() {
            process.end(&mut self.known);
        }
        let held = std::mem::take(&mut self.known.held);
        let store = self.open();
        self.runtime.block_on(async {
            for id in &held {
                read_whole(&repository(&store), id_of(id)).await.unwrap();
            }
            assert_whole(&store).await;
            collect(&store).await;
            assert_whole(&store).await;
            store.clean().await.unwrap();
            let compared = store.compare_files().await.unwrap();
            assert!(compared.is_equal(), "{compared:?}");
        });
        self.check_refs();
        let known = &self.known;
        long::note(format_args!(
            "{} values of refs, {} held at the end; {} collections deleted {}; {} times lost",
            known
                .refs
                .values()
                .map(|one| one.values.len() - 1)
                .sum::<usize>(),
            held.len(),
            known.collections,
            known.removed,
            known.lost
        ));
        assert!(known.removed > 0 && known.lost > 0);
    }
}

fn repository(store: &Arc<ClusterStore>) -> Repository {
    let store: Arc<dyn Store> = store.clone();
    Repository::new(store, TENANT, 1)
}

/// Reads the snapshots of all refs, and returns their values.
async fn read_refs(store: &Arc<ClusterStore>) -> BTreeMap<String, String> {
    let repository = repository(store);
    let mut found = BTreeMap::new();
    for (name, id) in store.list_references(TENANT, "", None, 1000).await.unwrap() {
        match read_whole(&repository, id).await {
            Err(Error::NoSuchSnapshot(_)) => {
                let now = store.reference(TENANT, &name).await.unwrap();
                assert_ne!(now, Some(id), "{name} has lost its snapshot");
            }
            read => read.unwrap(),
        }
        found.insert(name, id.to_string());
    }
    found
}

/// Panics unless every stored snapshot has all its objects.
async fn assert_whole(store: &Arc<ClusterStore>) {
    let store: &dyn Inspect = store.as_ref();
    let (options, progress) = (VerifyOptions::default(), Progress::new());
    let verified = verify(store, TENANT, &options, &progress).await.unwrap();
    assert!(verified.is_whole(), "{verified:?}");
}

/// Collects garbage as soon as the killed processes are lost.
async fn collect(store: &Arc<ClusterStore>) {
    let options = GcOptions {
        scope: GcScope::Full,
        dry_run: false,
        keep_recent: None,
    };
    let (repository, progress) = (repository(store), GcProgress::default());
    let collect = async || {
        let mut run = GcRun::begin(&repository, &options, &progress).await?;
        while run.older_writers().await? > 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        run.references().await?;
        run.finish().await
    };
    until_async("the killed processes are lost", async || {
        match collect().await {
            Err(Error::Store(StoreError::Refused(_))) => None,
            collected => Some(collected.unwrap()),
        }
    })
    .await;
}

#[test]
fn acknowledged_and_held_snapshots_survive_kills_and_stops() {
    if let Some(victim) = Victim::here() {
        roles::work(victim);
    }
    let mut cluster = Cluster::start();
    for round in 0..long::rounds(ROUNDS, 2) {
        cluster.wait_for_work();
        match round % 3 {
            1 => cluster.stop_a_committer(),
            _ => cluster.kill_any(),
        }
        if round % 4 == 1 {
            cluster.check_refs();
        }
    }
    cluster.wait_for_work();
    cluster.check_refs();
    cluster.end();
}
