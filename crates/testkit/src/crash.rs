//! Processes that are killed during their work.
//!
//! A test starts its own binary again as a *victim*, which works without end
//! and acknowledges each completed step with a line. The test kills the victim
//! at a random moment, and then checks that the result of every acknowledged
//! step still exists:
//!
//! ```no_run
//! use elevo_testkit::{crash, long};
//!
//! #[test]
//! fn nothing_is_lost() {
//!     if let Some(victim) = crash::Victim::here() {
//!         loop {
//!             // ... do something in victim.directory(), then:
//!             victim.acknowledge("what was done");
//!         }
//!     }
//!     let directory = std::path::Path::new("some/where");
//!     let kills = crash::Kills::new("nothing_is_lost", directory, long::rounds(200, 1));
//!     kills.run(|done| { /* open what is in `directory` and look for done.all() */ });
//! }
//! # fn main() {}
//! ```

use std::env;
use std::fmt::Display;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use rustix::process::{Pid, Signal, getpid, kill_process};

use crate::long;

const DIRECTORY: &str = "ELEVO_VICTIM_DIRECTORY";
const SEED: &str = "ELEVO_VICTIM_SEED";
/// Distinguishes an acknowledgement from the output of the test framework.
const MARK: &str = "acknowledged: ";

/// A process that the test will kill, as the process sees itself.
#[derive(Debug)]
pub struct Victim {
    directory: PathBuf,
    seed: u64,
}

impl Victim {
    /// Returns `Some` in a process that was started as a victim.
    pub fn here() -> Option<Self> {
        let directory = env::var_os(DIRECTORY)?.into();
        let seed = env::var(SEED).unwrap().parse().unwrap();
        Some(Self { directory, seed })
    }

    /// The directory that the victim works in.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The seed of the victim's random choices, which differs for each victim.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// Kills this process, as [`Running::kill`] does from outside.
    pub fn die(&self) -> ! {
        kill_process(getpid(), Signal::KILL).unwrap();
        loop {
            thread::park();
        }
    }

    /// Acknowledges that the step `what` is complete, so that its result must
    /// never be lost. Panics if the test has ended.
    pub fn acknowledge(&self, what: impl Display) {
        // A single write that fits into a pipe arrives whole or not at all.
        let line = format!("{MARK}{what}\n");
        let mut out = std::io::stdout().lock();
        out.write_all(line.as_bytes())
            .and_then(|()| out.flush())
            .expect("the test has ended");
    }
}

/// The test's view of a running victim. The victim is killed when this value is
/// dropped.
#[derive(Debug)]
pub struct Running {
    child: Child,
    lines: Receiver<String>,
}

impl Running {
    /// Starts this test binary again as a victim that runs only `test`.
    pub fn start(test: &str, directory: &Path, seed: u64) -> Self {
        let mut child = Command::new(env::current_exe().unwrap())
            .args(["--exact", test, "--nocapture", "--include-ignored"])
            .env(DIRECTORY, directory)
            .env(SEED, seed.to_string())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        let (send, lines) = mpsc::channel();
        thread::spawn(move || {
            for line in out.lines().map_while(Result::ok) {
                if let Some((_, what)) = line.split_once(MARK) {
                    let _ = send.send(what.to_owned());
                }
            }
        });
        Self { child, lines }
    }

    /// Waits for the next acknowledgement.
    pub fn wait_for_next(&mut self) -> String {
        self.lines
            .recv()
            .unwrap_or_else(|_| panic!("ended by itself: {:?}", self.child.wait()))
    }

    /// Lets the process work until a random moment, at most `longest` from now.
    pub fn work_for_a_moment(&self, random: &mut impl RngExt, longest: Duration) {
        // A crash at any moment must be harmless, so the moment of the kill is
        // random and does not depend on an event. No check depends on the
        // length of this pause.
        thread::sleep(random.random_range(Duration::ZERO..longest));
    }

    /// Returns the acknowledgements since the last call.
    pub fn acknowledged(&mut self) -> Vec<String> {
        self.lines.try_iter().collect()
    }

    /// Panics if the process has ended by itself.
    pub fn assert_running(&mut self) {
        if let Some(status) = self.child.try_wait().unwrap() {
            panic!("ended by itself: {status}");
        }
    }

    /// Waits until the process has called [`Victim::die`]; panics if it ends in
    /// another way. Returns its acknowledgements.
    pub fn wait_for_death(mut self) -> Vec<String> {
        let status = self.child.wait().unwrap();
        assert_eq!(
            status.signal(),
            Some(Signal::KILL.as_raw()),
            "ended by itself: {status}"
        );
        self.lines.iter().collect()
    }

    /// Stops the process until [`Self::resume`].
    pub fn pause(&self) {
        self.signal(Signal::STOP);
    }

    /// Continues the process after [`Self::pause`].
    pub fn resume(&self) {
        self.signal(Signal::CONT);
    }

    /// Kills the process, and returns its further acknowledgements.
    pub fn kill(mut self) -> Vec<String> {
        self.assert_running();
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        self.lines.iter().collect()
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Kills one victim after another, each at a random moment.
#[derive(Debug)]
pub struct Kills<'a> {
    test: &'a str,
    directory: &'a Path,
    count: u32,
    longest: Duration,
    seed: u64,
}

/// The acknowledgements of all victims so far.
#[derive(Debug, Default)]
pub struct Acknowledged {
    all: Vec<String>,
    before: usize,
    /// Number of victims killed.
    pub kills: u32,
    /// Whether this was the last victim.
    pub is_last: bool,
}

impl Acknowledged {
    /// All acknowledgements, in order.
    pub fn all(&self) -> &[String] {
        &self.all
    }

    /// The acknowledgements of the last victim.
    pub fn of_the_last(&self) -> &[String] {
        &self.all[self.before..]
    }
}

impl<'a> Kills<'a> {
    /// Creates a run of `count` victims that run `test` in `directory`.
    pub fn new(test: &'a str, directory: &'a Path, count: u32) -> Self {
        let longest = Duration::from_millis(1500);
        Self {
            test,
            directory,
            count,
            longest,
            seed: long::seed(),
        }
    }

    /// Sets the maximum lifetime of a victim, including its start.
    pub fn longest_life(self, longest: Duration) -> Self {
        Self { longest, ..self }
    }

    /// Runs and kills one victim after another. After each kill, calls
    /// `verify`, which must panic if the result of an acknowledged step is
    /// missing. Fails if no victim acknowledged a step.
    pub fn run(&self, mut verify: impl FnMut(&Acknowledged)) {
        let mut random = SmallRng::seed_from_u64(self.seed);
        let mut done = Acknowledged::default();
        for round in 1..=self.count {
            let victim = Running::start(self.test, self.directory, random.random());
            victim.work_for_a_moment(&mut random, self.longest);
            let new = victim.kill();
            done = Acknowledged {
                before: done.all.len(),
                all: [done.all, new].concat(),
                kills: round,
                is_last: round == self.count,
            };
            verify(&done);
        }
        long::note(format_args!(
            "{} kills, {} acknowledgements",
            self.count,
            done.all.len()
        ));
        assert!(
            !done.all.is_empty(),
            "no victim lived long enough to do anything"
        );
    }
}
