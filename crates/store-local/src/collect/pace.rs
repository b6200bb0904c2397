//! Throttles a collection: while other calls arrive, it rests twice as long as
//! it worked.

use std::thread;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// Maximum length of a rest. A long step may have spent its time waiting, so
/// its length does not justify a longer rest.
const REST: Duration = Duration::from_millis(100);

#[derive(Debug)]
pub(super) struct Pace(Mutex<Step>);

#[derive(Debug)]
struct Step {
    began: Instant,
    /// Number of calls by readers and writers until the step began.
    calls: u64,
}

impl Pace {
    pub(super) fn new(calls: u64) -> Self {
        let began = now();
        Self(Mutex::new(Step { began, calls }))
    }

    /// Rests at the end of a step, if other calls arrived in it.
    pub(super) fn rest(&self, calls: u64) {
        let mut step = self.0.lock();
        if calls != step.calls {
            thread::sleep((2 * step.began.elapsed()).min(REST));
        }
        let began = now();
        *step = Step { began, calls };
    }
}

#[expect(clippy::disallowed_methods, reason = "only for the length of a rest")]
fn now() -> Instant {
    Instant::now()
}
