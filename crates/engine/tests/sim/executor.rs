//! Tasks on one thread with a simulated clock. One generator decides which task
//! runs next, how long a call takes and what fails, so a seed determines the
//! whole run.

use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::future::poll_fn;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Wake, Waker};

use elevo_core::Timestamp;
use elevo_testkit::long;
use futures::future::LocalBoxFuture;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

/// The state of a run: clock, generator, and trace.
#[derive(Clone)]
pub struct Sim(Arc<Mutex<World>>);

struct World {
    random: SmallRng,
    /// Microseconds since the beginning.
    now: u64,
    timers: BTreeMap<(u64, u64), Waker>,
    next_timer: u64,
    /// The running task.
    task: usize,
    /// Number of steps since the last crash at which a crash was possible.
    steps: u64,
    crash_at: Option<u64>,
    is_crashed: bool,
    trace: DefaultHasher,
    is_told: bool,
}

/// How the tasks ended: all were done, or a crash dropped them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    Done,
    Crashed,
}

impl Sim {
    /// With `is_told`, every event is printed.
    pub fn new(seed: u64, is_told: bool) -> Self {
        Self(Arc::new(Mutex::new(World {
            random: SmallRng::seed_from_u64(seed),
            now: 0,
            timers: BTreeMap::new(),
            next_timer: 0,
            task: 0,
            steps: 0,
            crash_at: None,
            is_crashed: false,
            trace: DefaultHasher::new(),
            is_told,
        })))
    }

    fn lock(&self) -> MutexGuard<'_, World> {
        self.0.lock().expect("no holder panics")
    }

    /// Draws a value from the generator.
    pub fn random<T>(&self, ask: impl FnOnce(&mut SmallRng) -> T) -> T {
        ask(&mut self.lock().random)
    }

    pub fn chance(&self, probability: f64) -> bool {
        self.random(|random| random.random_bool(probability))
    }

    /// Returns a number below `end`.
    pub fn below(&self, end: usize) -> usize {
        self.random(|random| random.random_range(0..end))
    }

    /// Returns one of `from`; `None` if it is empty.
    pub fn pick<T: Clone>(&self, from: &[T]) -> Option<T> {
        match from.len() {
            0 => None,
            count => Some(from[self.below(count)].clone()),
        }
    }

    pub fn now(&self) -> u64 {
        self.lock().now
    }

    /// Adds an event to the trace, with its time and its task.
    pub fn note(&self, what: &str, details: impl Hash + Debug) {
        let mut world = self.lock();
        let World { now, task, .. } = *world;
        (now, task, what).hash(&mut world.trace);
        details.hash(&mut world.trace);
        if world.is_told {
            long::note(format_args!("{now:>9} {task:>2} {what} {details:?}"));
        }
    }

    /// The hash of all events, the same in every run of a build.
    pub fn trace(&self) -> u64 {
        self.lock().trace.finish()
    }

    /// A point at which a crash may end everything.
    pub async fn step(&self) {
        let is_crash = {
            let mut world = self.lock();
            world.steps += 1;
            world.is_crashed |= world.crash_at == Some(world.steps);
            world.is_crashed
        };
        if is_crash {
            std::future::pending().await
        }
    }

    pub async fn delay(&self, micros: u64) {
        let due = self.now() + micros;
        poll_fn(|context| self.poll_at(due, context)).await;
    }

    fn poll_at(&self, due: u64, context: &Context<'_>) -> Poll<()> {
        let mut world = self.lock();
        if world.now >= due {
            return Poll::Ready(());
        }
        world.next_timer += 1;
        let place = (due, world.next_timer);
        world.timers.insert(place, context.waker().clone());
        Poll::Pending
    }

    /// Runs tasks until all have ended, or until step number `crash_at`: then
    /// they are dropped where they are.
    pub fn run(&self, mut tasks: Vec<LocalBoxFuture<'_, ()>>, crash_at: Option<u64>) -> Ended {
        {
            let mut world = self.lock();
            world.timers.clear();
            (world.steps, world.crash_at, world.is_crashed) = (0, crash_at, false);
        }
        let ready = Arc::new(Mutex::new((0..tasks.len()).collect::<BTreeSet<_>>()));
        let mut tasks: Vec<_> = tasks.drain(..).map(Some).collect();
        while tasks.iter().any(Option::is_some) {
            let Some(at) = self.next_ready(&ready) else {
                self.advance();
                continue;
            };
            self.lock().task = at;
            let waker = Waker::from(Arc::new(Ready(at, ready.clone())));
            let task = tasks[at].as_mut();
            let polled = task.map(|task| task.as_mut().poll(&mut Context::from_waker(&waker)));
            if self.lock().is_crashed {
                self.note("crash", ());
                return Ended::Crashed;
            }
            if polled.is_some_and(|polled| polled.is_ready()) {
                tasks[at] = None;
            }
        }
        Ended::Done
    }

    fn next_ready(&self, ready: &Mutex<BTreeSet<usize>>) -> Option<usize> {
        let mut ready = ready.lock().expect("no holder panics");
        if ready.is_empty() {
            return None;
        }
        let place = self.below(ready.len());
        let at = ready.iter().nth(place).copied()?;
        ready.remove(&at);
        Some(at)
    }

    /// No task can continue: advances the clock to the next timer.
    fn advance(&self) {
        let waker = {
            let mut world = self.lock();
            let next = world.timers.pop_first();
            let ((due, _), waker) = next.expect("a task waits for nothing");
            world.now = due;
            waker
        };
        waker.wake();
    }
}

/// Converts microseconds of a run to a time.
pub fn timestamp(micros: u64) -> Timestamp {
    let nanos = (micros % 1_000_000) as u32 * 1000;
    Timestamp::new((micros / 1_000_000) as i64, nanos).expect("a time within range")
}

/// Wakes a task.
struct Ready(usize, Arc<Mutex<BTreeSet<usize>>>);

impl Wake for Ready {
    fn wake(self: Arc<Self>) {
        self.1.lock().expect("no holder panics").insert(self.0);
    }
}
