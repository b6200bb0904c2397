//! Three processes of a cluster over one model of its tables. Each statement
//! takes effect at one moment, with delays before and after; a change has two,
//! since it reads the phase of the collection first. Processes stall, are
//! declared lost, and are replaced.

mod collecting;
mod guards;
mod node;
mod rounds;
mod sessions;
mod store;
mod tables;

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use elevo_engine::{GcOptions, GcScope, Repository, StoreError};
use elevo_testkit::long;
use futures::future::{FutureExt, LocalBoxFuture};
use rand::RngExt;
use rand::rngs::SmallRng;

use super::clients::Client;
use super::executor::Sim;
use super::model::Model;
use super::processes::{Process, Processes};
use super::store::Disk;
use super::{Replay, Settings, TENANT, check};
pub use node::Node;
use store::ClusterStore;
pub use tables::Counts;
use tables::Database;

/// Time after which a node that has not reported is lost, in microseconds.
const LEASE: u64 = 300_000;
/// Pause of a process while an opening waits for its commits.
const AGAIN: u64 = 500;
/// Number of processes.
const PROCESSES: usize = 3;

/// A rule that keeps collections away from what other processes need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// Commits and lookups during a collection keep the objects they find.
    Seen,
    /// A collection waits for the sessions that began before it.
    Sessions,
    /// Between the two steps of a change, no collection begins, and its node
    /// neither leaves nor is declared lost.
    SharedLocks,
    /// Snapshots that nodes hold at the closing are not deleted.
    Vetoes,
    /// A collection waits until all nodes have heard of its opening.
    Acknowledgement,
    /// A node vetoes all snapshots that it has held since the opening.
    Memory,
}

/// The delays and failures of processes.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    settings: Settings,
    /// Probability that a statement fails.
    errors: f64,
    /// Pause between two reports of a process, in microseconds.
    beat: u64,
    /// Probability that a process stalls at a statement.
    stalls: f64,
    /// Probability that a process leaves after a report.
    leaves: f64,
}

impl Plan {
    /// Decides the settings of a run. Those of one store are changed so that
    /// there is more garbage at any time.
    fn new(random: &mut SmallRng) -> Self {
        let mut settings = Settings::new(random);
        settings.keep = [None, None, None, Some(20_000)][random.random_range(0..4)];
        settings.clients = random.random_range(3..7);
        settings.collectors = random.random_range(1..3);
        settings.actions = random.random_range(4..12);
        settings.builds = 0.7;
        settings.lives = [1, 1, 2][random.random_range(0..3)];
        settings.delays = [0.3, 0.6, 0.9][random.random_range(0..3)];
        Self {
            settings,
            errors: settings.errors / 4.0,
            beat: [10_000, 40_000, 120_000][random.random_range(0..3)],
            leaves: [0.0, 0.002, 0.01][random.random_range(0..3)],
            stalls: [0.0, 0.0, 0.0005, 0.002][random.random_range(0..4)],
        }
    }

    /// The same without faults.
    const fn quiet(mut self) -> Self {
        (self.errors, self.stalls, self.settings.delays) = (0.0, 0.0, 0.0);
        self.leaves = 0.0;
        self
    }

    /// Returns the time between the two steps of a change, which may wait for
    /// the locks of others, in microseconds.
    fn wait(&self, random: &mut SmallRng) -> u64 {
        match random.random_range(0..100) {
            0..90 => self.settings.latency(random),
            _ => random.random_range(0..60_000),
        }
    }

    /// Returns the duration of a message in microseconds.
    fn latency(&self, random: &mut SmallRng) -> u64 {
        self.settings.latency(random)
    }
}

/// Result of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Hash of all events with their times.
    pub trace: u64,
    pub counts: Counts,
}

struct Cluster {
    sim: Sim,
    plan: Plan,
    database: Database,
    model: Rc<RefCell<Model>>,
}

/// Runs a seed from beginning to end, perhaps without one of the rules.
pub fn run(seed: u64, is_told: bool, without: Option<Rule>) -> Outcome {
    let _replay = without.is_none().then(|| Replay(seed, "three_stores_run"));
    let sim = Sim::new(seed, is_told);
    let plan = sim.random(Plan::new);
    if is_told {
        long::note(format_args!("{plan:?}"));
    }
    let disk = Disk::default();
    let mut model = Model::default();
    super::begin(&disk, &plan.settings, &mut model);
    let mut cluster = Cluster {
        sim,
        plan,
        database: Database::of(&disk.memory, without),
        model: Rc::new(RefCell::new(model)),
    };
    for life in 0..plan.settings.lives {
        let is_last = life + 1 == plan.settings.lives;
        let crash_at = (!is_last).then(|| cluster.sim.below(3000) as u64 + 1);
        cluster.sim.run(cluster.tasks(), crash_at);
        check::check(&cluster.content(), &mut cluster.model.borrow_mut());
    }
    cluster.plan = plan.quiet();
    cluster.sim.run(cluster.last_tasks(), None);
    let disk = cluster.content();
    check::check(&disk, &mut cluster.model.borrow_mut());
    check::check_rest(&disk, &cluster.model.borrow());
    let counts = cluster.database.lock().counts;
    let trace = cluster.sim.trace();
    Outcome { trace, counts }
}

impl Cluster {
    /// Copies the tables, so that they can be checked.
    fn content(&self) -> Disk {
        let disk = Disk::default();
        self.database.lock().copy(&disk.memory);
        disk
    }

    fn process(&self, node: Arc<Node>) -> Process {
        let repository = |puts_ahead| {
            let node = node.clone();
            let store = ClusterStore { node, puts_ahead };
            Repository::new(Arc::new(store), TENANT, self.plan.settings.cache)
        };
        Process {
            repositories: [repository(false), repository(true)],
            node: Some(node),
        }
    }

    fn join(&self) -> Arc<Node> {
        Node::join(&self.sim, self.plan, &self.database)
    }

    fn start(&self, count: usize) -> (Vec<Arc<Node>>, Processes) {
        let nodes: Vec<_> = (0..count).map(|_| self.join()).collect();
        for node in &nodes {
            node.hear(node.open_collection());
        }
        let all = nodes.iter().map(|node| self.process(node.clone()));
        let processes = Processes::new(all.collect());
        (nodes, processes)
    }

    /// Returns the tasks of clients, collectors and processes. Those of the
    /// processes end after the others.
    fn tasks(&self) -> Vec<LocalBoxFuture<'_, ()>> {
        let (nodes, processes) = self.start(PROCESSES);
        let clients = super::client_tasks(&self.sim, &self.plan.settings, &self.model, &processes);
        let running = Rc::new(Cell::new(clients.len()));
        let clients = clients.into_iter().map(|client| {
            let running = running.clone();
            let client = client.map(move |()| running.set(running.get() - 1));
            client.boxed_local()
        });
        let places = nodes.into_iter().enumerate();
        let beats = places.map(|(at, node)| {
            let places = (processes.clone(), at);
            self.live(node, places, running.clone()).boxed_local()
        });
        clients.chain(beats).collect()
    }

    /// Reports until all clients have ended. A process that is lost is replaced
    /// by a new one.
    async fn live(
        &self,
        mut node: Arc<Node>,
        (processes, at): (Processes, usize),
        running: Rc<Cell<usize>>,
    ) {
        while running.get() > 0 {
            let is_lost = matches!(node.act().await, Err(StoreError::Lost));
            self.database.lock().counts.lost += usize::from(is_lost);
            if is_lost || self.sim.chance(self.plan.leaves) && node.leave().await.is_ok() {
                node.travels().await;
                node = self.join();
                node.travels().await;
                let open = node.open_collection();
                node.travels().await;
                node.hear(open);
                processes.replace(at, self.process(node.clone()));
            }
            let pause = match node.has_openings() {
                true => AGAIN,
                false => self.plan.beat,
            };
            self.sim.delay(pause).await;
        }
    }

    /// Returns the task of a full collection by one process, after all others
    /// have ended.
    fn last_tasks(&self) -> Vec<LocalBoxFuture<'_, ()>> {
        let task = async {
            self.sim.delay(2 * LEASE).await;
            let (_nodes, processes) = self.start(1);
            let client = Client {
                sim: self.sim.clone(),
                settings: self.plan.settings,
                model: self.model.clone(),
                processes,
                number: 0,
                working: Rc::new(Cell::new(0)),
            };
            let options = GcOptions {
                scope: GcScope::Full,
                dry_run: false,
                keep_recent: None,
            };
            client.collect_once(&options).await.expect("a collection");
        };
        vec![task.boxed_local()]
    }
}
