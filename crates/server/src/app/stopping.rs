//! Shutdown of the server, in phases.
//!
//! | phase | new requests | running requests | output of commands | terminals, events |
//! |---|---|---|---|---|
//! | running | accepted | continue | continues | continue |
//! | draining | 503 | continue | continues | get a notice, and end |
//! | cutting | 503 | continue | gets a notice, and ends | are cut off |
//! | ended | no connection | are cut off | – | – |
//!
//! Draining ends when nothing is running any more, at the latest after
//! `STOP_GRACE`. Readers of a stream continue at another server, or at this one
//! after its restart, from where the stream broke off.

use std::sync::Arc;

use tokio::sync::watch;

/// The phase of a shutdown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Phase {
    Running,
    Draining,
    Cutting,
    Ended,
}

/// The phase, and the amount of running work.
#[derive(Debug)]
pub(crate) struct Stopping {
    phase: watch::Sender<Phase>,
    at_work: watch::Sender<usize>,
}

impl Default for Stopping {
    fn default() -> Self {
        Self {
            phase: watch::Sender::new(Phase::Running),
            at_work: watch::Sender::new(0),
        }
    }
}

/// A running request, stream or terminal.
#[derive(Debug)]
pub(crate) struct Work(Arc<Stopping>);

impl Drop for Work {
    fn drop(&mut self) {
        self.0.at_work.send_modify(|count| *count -= 1);
    }
}

impl Stopping {
    /// Whether new requests are rejected, because the server is stopping.
    pub(crate) fn is_stopping(&self) -> bool {
        *self.phase.borrow() > Phase::Running
    }

    /// Enters a phase of the shutdown. The server never goes back to an earlier
    /// one.
    pub(crate) fn enter(&self, phase: Phase) {
        self.phase.send_if_modified(|now| {
            let is_next = phase > *now;
            *now = phase.max(*now);
            is_next
        });
    }

    /// Waits until a phase has begun.
    pub(crate) async fn entered(&self, phase: Phase) {
        let mut phases = self.phase.subscribe();
        // An error means that no phase follows.
        let _ = phases.wait_for(|now| *now >= phase).await;
    }

    /// Counts running work. Must be called before [`Self::is_stopping`], so
    /// that nothing begins unseen.
    pub(crate) fn work(self: &Arc<Self>) -> Work {
        self.at_work.send_modify(|count| *count += 1);
        Work(self.clone())
    }

    /// Waits until nothing is running.
    pub(crate) async fn idle(&self) {
        let mut at_work = self.at_work.subscribe();
        let _ = at_work.wait_for(|count| *count == 0).await;
    }
}
