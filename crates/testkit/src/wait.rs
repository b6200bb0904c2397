//! Waits for changes that no event announces.
//!
//! Tests wait for events where they can: a line of output, a channel, the end
//! of a process. For everything else they poll, and only with these functions:
//! a test that sleeps for a fixed time instead either fails on a slow machine
//! or wastes time on a fast one.

use std::thread;
use std::time::{Duration, Instant};

/// Maximum time to wait. The server retries some repairs every ten seconds, and
/// a test may need several of them on a busy machine.
const LIMIT: Duration = Duration::from_secs(100);

/// The first pause between two calls. Each pause is twice as long as the
/// previous pause, up to `LONGEST_PAUSE`.
const FIRST_PAUSE: Duration = Duration::from_millis(1);
const LONGEST_PAUSE: Duration = Duration::from_millis(50);

/// Calls `ask` until it returns a value; panics with `what` if that takes too
/// long.
pub fn until<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let mut waiting = Waiting::new(what);
    loop {
        match ask() {
            Some(answer) => return answer,
            // No event announces the change: see the top of this file.
            None => thread::sleep(waiting.next_pause()),
        }
    }
}

/// Does the same as [`until`] in an asynchronous test. A task that is spawned
/// needs [`Waiting`]: the compiler cannot prove that this future is `Send`.
pub async fn until_async<T>(what: &str, mut ask: impl AsyncFnMut() -> Option<T>) -> T {
    let mut waiting = Waiting::new(what);
    loop {
        match ask().await {
            Some(answer) => return answer,
            None => waiting.pause().await,
        }
    }
}

/// The pauses of a loop that polls until a change has happened.
#[derive(Debug)]
pub struct Waiting<'a> {
    what: &'a str,
    began: Instant,
    pause: Duration,
}

impl<'a> Waiting<'a> {
    /// Begins to wait for `what`.
    pub fn new(what: &'a str) -> Self {
        Self {
            what,
            began: Instant::now(),
            pause: FIRST_PAUSE,
        }
    }

    /// Pauses before the next check; panics if the whole wait has taken too
    /// long.
    pub async fn pause(&mut self) {
        // No event announces the change: see the top of this file.
        tokio::time::sleep(self.next_pause()).await;
    }

    fn next_pause(&mut self) -> Duration {
        let (what, waited) = (self.what, self.began.elapsed());
        assert!(waited < LIMIT, "waited {waited:.0?} in vain until {what}");
        let pause = self.pause;
        self.pause = LONGEST_PAUSE.min(pause * 2);
        pause
    }
}
