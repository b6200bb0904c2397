//! A collection gives way to others: while somebody writes, it rests twice as
//! long as it worked.

use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// No longer than that, however long a step took: it may have waited itself.
const REST: Duration = Duration::from_millis(100);

#[derive(Debug)]
pub(super) struct Pace(Mutex<Step>);

#[derive(Debug)]
struct Step {
    began: Instant,
    /// How many calls of others there had been.
    calls: u64,
}

impl Pace {
    pub(super) fn new(calls: u64) -> Self {
        let began = now();
        Self(Mutex::new(Step { began, calls }))
    }

    /// Rests at the end of a step, if there were calls of others in it.
    pub(super) fn rest(&self, calls: u64) {
        let mut step = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if calls != step.calls {
            thread::sleep((2 * step.began.elapsed()).min(REST));
        }
        let began = now();
        *step = Step { began, calls };
    }
}

#[expect(clippy::disallowed_methods, reason = "how long to rest, no more")]
fn now() -> Instant {
    Instant::now()
}
