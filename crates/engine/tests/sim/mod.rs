//! Simulated runs of the engine: clients commit, fork, read and collect over a
//! store whose calls take time, fail, and lose power, on one thread and with a
//! simulated clock. A seed determines a run to the last event.
//!
//! `docs/decisions/0019-simulation.md` has the reasons for this design.

#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]
#![allow(
    dead_code,
    unreachable_pub,
    reason = "each test binary uses a part of it"
)]

mod check;
mod clients;
pub mod cluster;
mod collection;
mod collector;
mod edits;
mod executor;
mod model;
mod processes;
mod store;
mod unnamed;

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::thread;

use bytes::Bytes;
use elevo_core::TenantId;
use elevo_engine::{Attributes, CommitInfo, Expected, Repository, StateTree};
use elevo_testkit::long;
use futures::executor::block_on;
use futures::future::{FutureExt, LocalBoxFuture};
use rand::RngExt;
use rand::rngs::SmallRng;

use clients::Client;
use executor::{Ended, Sim};
use model::{File, Files, Model, Move};
use processes::{Process, Processes};
use store::{Disk, SimStore};

const TENANT: TenantId = TenantId::new([7; 16]);

/// The ref that all clients move.
const SHARED: &str = "shared";

/// Settings that a seed decides at the beginning.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Probability that a call fails.
    errors: f64,
    /// Probability that a call takes time.
    delays: f64,
    /// Bytes of nodes that a repository caches: almost none, or all. With a
    /// size in between, a seed would not determine the run, because the
    /// evictions of a full cache do not depend on the seed.
    cache: u64,
    /// Time that unnamed snapshots are kept, in microseconds.
    keep: Option<u64>,
    clients: usize,
    collectors: usize,
    actions: usize,
    /// Probability that an action builds on a commit that nothing refers to.
    builds: f64,
    /// Number of times the machine is started.
    lives: usize,
    /// Number of files in a wide directory, for trees with inner nodes.
    wide: usize,
    /// Whether some files have several chunks.
    is_large: bool,
}

impl Settings {
    fn new(random: &mut SmallRng) -> Self {
        let one_of = |random: &mut SmallRng, all: [f64; 4]| all[random.random_range(0..4)];
        Self {
            errors: one_of(random, [0.0, 0.001, 0.005, 0.02]),
            delays: one_of(random, [0.1, 0.3, 0.6, 0.9]),
            cache: [1, 64 << 20][random.random_range(0..2)],
            keep: [None, Some(20_000), Some(200_000)][random.random_range(0..3)],
            clients: random.random_range(1..5),
            collectors: [1, 1, 1, 2][random.random_range(0..4)],
            actions: random.random_range(2..7),
            builds: 0.0,
            lives: random.random_range(1..5),
            wide: [0, 100][usize::from(random.random_bool(0.04))],
            is_large: random.random_bool(0.04),
        }
    }

    /// Returns the duration of a call in microseconds.
    fn latency(&self, random: &mut SmallRng) -> u64 {
        if !random.random_bool(self.delays) {
            return 0;
        }
        match random.random_range(0..100) {
            0..85 => random.random_range(1..200),
            85..98 => random.random_range(200..5000),
            _ => random.random_range(5000..50_000),
        }
    }

    fn name(&self, random: &mut SmallRng) -> String {
        if self.wide > 0 && random.random_bool(0.3) {
            return format!("wide/f{}", random.random_range(0..self.wide));
        }
        let (d, e, f) = (
            random.random_range(0..2),
            random.random_range(0..2),
            random.random_range(0..3),
        );
        format!("d{d}/e{e}/f{f}")
    }

    /// Returns one of few contents, so that garbage is soon written again.
    fn content(&self, random: &mut SmallRng) -> Bytes {
        let which = random.random_range(0..16_u64);
        match which {
            0 if self.is_large => clients::bytes(which, 300_000),
            1 => Bytes::new(),
            _ => clients::bytes(which, 10 + which as usize),
        }
    }
}

/// Result of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Hash of all events with their times.
    pub trace: u64,
    pub crashes: usize,
    /// Number of attempted commits.
    pub commits: usize,
}

const REPLAY: &str = "cargo nextest run -p elevo-engine --test simulation --no-capture";

/// Prints how to repeat a run that fails: its seed, and a part of the name of
/// the test.
struct Replay(u64, &'static str);

impl Drop for Replay {
    fn drop(&mut self) {
        if thread::panicking() {
            let Self(seed, test) = self;
            long::note(format_args!(
                "To see it again:\n  ELEVO_SEED={seed} {REPLAY} {test}"
            ));
        }
    }
}

/// Runs a seed from beginning to end.
pub fn run(seed: u64, is_told: bool) -> Outcome {
    let _replay = Replay(seed, "some_hundred");
    let sim = Sim::new(seed, is_told);
    let settings = sim.random(Settings::new);
    if is_told {
        long::note(format_args!("{settings:?}"));
    }
    let disk = Arc::new(Disk::default());
    let model = Rc::new(RefCell::new(Model::default()));
    begin(&disk, &settings, &mut model.borrow_mut());
    let mut crashes = 0;
    for life in 0..settings.lives {
        let is_last = life + 1 == settings.lives;
        let crash_at = (!is_last).then(|| sim.below(1500) as u64 + 1);
        let tasks = tasks(&sim, &settings, &disk, &model);
        let ended = sim.run(tasks, crash_at);
        crashes += usize::from(ended == Ended::Crashed);
        if !is_last {
            disk.lose_power(&sim);
        }
        check::check(&disk, &mut model.borrow_mut());
    }
    check::check_garbage(&disk, &model.borrow());
    check::check(&disk, &mut model.borrow_mut());
    Outcome {
        trace: sim.trace(),
        crashes,
        commits: model.borrow().attempts.len(),
    }
}

/// Makes the first commit of the shared ref, without faults.
fn begin(disk: &Disk, settings: &Settings, model: &mut Model) {
    let repository = Repository::new(disk.memory.clone(), TENANT, settings.cache);
    let tree = StateTree::empty(&repository);
    let mut files = Files::default();
    for at in 0..settings.wide {
        let name = format!("wide/f{at}");
        let (path, bytes) = (clients::path(&name), clients::bytes(at as u64 % 16, 10));
        let written = tree.write(&path, bytes.clone(), Attributes::default());
        block_on(written).expect("write");
        let modified = None;
        files.write(&name, File { bytes, modified });
    }
    let number = model.attempt(files, &[], 0);
    model.begin(SHARED, Move::new(None, Some(number), false));
    let info = CommitInfo {
        parents: Vec::new(),
        author: "client".into(),
        message: number.to_string(),
        created: executor::timestamp(0),
        labels: Default::default(),
        reference: Some((SHARED.into(), Expected::Absent)),
    };
    let id = block_on(tree.commit(info)).expect("commit");
    model.attempts[number].id = Some(id);
    model.end(SHARED, Some(number), true);
}

fn tasks<'a>(
    sim: &Sim,
    settings: &Settings,
    disk: &Arc<Disk>,
    model: &Rc<RefCell<Model>>,
) -> Vec<LocalBoxFuture<'a, ()>> {
    let repository = |puts_ahead| {
        let store = SimStore {
            sim: sim.clone(),
            disk: disk.clone(),
            settings: *settings,
            puts_ahead,
        };
        Repository::new(Arc::new(store), TENANT, settings.cache)
    };
    let process = Process {
        repositories: [repository(false), repository(true)],
        node: None,
    };
    client_tasks(sim, settings, model, &Processes::new(vec![process]))
}

/// Returns the tasks of clients and collectors.
fn client_tasks<'a>(
    sim: &Sim,
    settings: &Settings,
    model: &Rc<RefCell<Model>>,
    processes: &Processes,
) -> Vec<LocalBoxFuture<'a, ()>> {
    let working = Rc::new(Cell::new(settings.clients));
    let client = |number| Client {
        sim: sim.clone(),
        settings: *settings,
        model: model.clone(),
        processes: processes.clone(),
        number,
        working: working.clone(),
    };
    let workers = (0..settings.clients).map(|at| client(at).work().boxed_local());
    let collectors = (0..settings.collectors).map(|at| client(at).collect().boxed_local());
    workers.chain(collectors).collect()
}
