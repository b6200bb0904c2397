//! A second process that competes with a test.
//!
//! A test starts its own binary again as a *rival*. Both then make the same
//! changes at once, round by round: the test releases each round with a line, and
//! the rival answers with its outcome.
//!
//! ```text
//! test    prepares ── begins round 1 ─┬─ competes ── reads the outcome, judges ──►
//! rival       waits ──────────────────┴─ competes ── reports its outcome ── waits ──►
//! ```
//!
//! ```no_run
//! use elevo_testkit::rival::{Here, Rival};
//! # fn compete(place: &str, round: u64, side: usize) -> String { String::new() }
//!
//! #[test]
//! fn one_of_two_processes_wins() {
//!     if let Some(mut here) = Here::find() {
//!         while let Some(round) = here.next_round() {
//!             here.report(&compete(here.place(), round, 1));
//!         }
//!         return;
//!     }
//!     let place = "some/where";
//!     let mut rival = Rival::start("one_of_two_processes_wins", place);
//!     for round in 0..20 {
//!         rival.begin(round);
//!         let outcomes = [compete(place, round, 0), rival.outcome()];
//!         // ... check both
//!     }
//!     rival.end();
//! }
//! # fn main() {}
//! ```

use std::env;
use std::io::{self, BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

const PLACE: &str = "ELEVO_RIVAL_PLACE";
/// Distinguishes an outcome from the output of the test framework.
const MARK: &str = "outcome: ";
/// The outcome that a rival reports before the first round.
const READY: &str = "ready";

/// A rival, as the test sees it. It is killed when this value is dropped.
#[derive(Debug)]
pub struct Rival {
    child: Child,
    /// `None` after the last round.
    rounds: Option<ChildStdin>,
    outcomes: BufReader<ChildStdout>,
}

impl Rival {
    /// Starts this test binary again as a rival that runs only `test`, at the
    /// place where both compete. Returns when it is ready for the first round.
    pub fn start(test: &str, place: &str) -> Self {
        let mut child = Command::new(env::current_exe().unwrap())
            .args(["--exact", test, "--nocapture", "--include-ignored"])
            .env(PLACE, place)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let rounds = child.stdin.take();
        let outcomes = BufReader::new(child.stdout.take().unwrap());
        let mut rival = Self {
            child,
            rounds,
            outcomes,
        };
        assert_eq!(rival.outcome(), READY);
        rival
    }

    /// Releases the rival into a round.
    pub fn begin(&mut self, round: u64) {
        let rounds = self.rounds.as_mut().expect("the rival has not ended");
        writeln!(rounds, "{round}").expect("the rival runs");
    }

    /// Waits for the outcome of the round.
    pub fn outcome(&mut self) -> String {
        let mut line = String::new();
        loop {
            line.clear();
            if self.outcomes.read_line(&mut line).unwrap() == 0 {
                panic!("the rival ended by itself: {:?}", self.child.wait());
            }
            // The test framework can have begun the line.
            if let Some((_, outcome)) = line.trim_end().split_once(MARK) {
                return outcome.to_owned();
            }
        }
    }

    /// Ends the rival; panics unless its test passes.
    pub fn end(mut self) {
        drop(self.rounds.take());
        // Its last lines need a reader.
        io::copy(&mut self.outcomes, &mut io::sink()).unwrap();
        let ended = self.child.wait().unwrap();
        assert!(ended.success(), "the rival failed: {ended}");
    }
}

impl Drop for Rival {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A rival, as the process sees itself.
#[derive(Debug)]
pub struct Here {
    place: String,
    is_ready: bool,
}

impl Here {
    /// Returns `Some` in a process that was started as a rival.
    pub fn find() -> Option<Self> {
        let place = env::var(PLACE).ok()?;
        Some(Self {
            place,
            is_ready: false,
        })
    }

    /// The place where both compete.
    pub fn place(&self) -> &str {
        &self.place
    }

    /// Waits for the next round. Returns `None` after the last one.
    pub fn next_round(&mut self) -> Option<u64> {
        if !self.is_ready {
            self.report(READY);
            self.is_ready = true;
        }
        let mut line = String::new();
        let length = io::stdin().lock().read_line(&mut line).unwrap();
        (length > 0).then(|| line.trim().parse().expect("a round"))
    }

    /// Reports the outcome of a round, in one line.
    pub fn report(&self, outcome: &str) {
        assert!(!outcome.contains('\n'), "one line");
        let mut out = io::stdout().lock();
        writeln!(out, "{MARK}{outcome}")
            .and_then(|()| out.flush())
            .expect("the test runs");
    }
}
