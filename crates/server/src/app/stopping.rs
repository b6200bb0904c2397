//! Shutdown of the server, in phases.
//!
//! | phase | new requests | running requests | output of commands | terminals, events |
//! |---|---|---|---|---|
//! | running | accepted | continue | continues | continue |
//! | draining | 503 | continue | continues | get a notice, and end |
//! | cutting | 503 | continue | gets a notice, and ends | are cut off |
//! | ended | no connection | are cut off | – | – |
//!
//! Draining ends when no request and no stream is running, at the latest after
//! `STOP_GRACE`. After a restart of the server, a client can continue a stream at
//! the position where it ended.

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

/// The phase of the server, and the number of running requests and streams.
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

/// Counts a running request, stream or terminal until dropped.
#[derive(Debug)]
pub(crate) struct Work(Arc<Stopping>);

impl Drop for Work {
    fn drop(&mut self) {
        self.0.at_work.send_modify(|count| *count -= 1);
    }
}

impl Stopping {
    /// Returns true if the server is stopping and rejects new requests.
    pub(crate) fn is_stopping(&self) -> bool {
        *self.phase.borrow() > Phase::Running
    }

    /// Enters a phase of the shutdown. Does nothing if the server is in a later
    /// phase.
    pub(crate) fn enter(&self, phase: Phase) {
        self.phase.send_if_modified(|now| {
            let is_next = phase > *now;
            *now = phase.max(*now);
            is_next
        });
    }

    /// Waits until a phase or a later one has begun.
    pub(crate) async fn entered(&self, phase: Phase) {
        let mut phases = self.phase.subscribe();
        // Fails only without a sender, and `self` holds the sender.
        let _ = phases.wait_for(|now| *now >= phase).await;
    }

    /// Counts a request, stream or terminal. The caller must call this before it
    /// checks [`Self::is_stopping`]: otherwise the shutdown could miss it.
    pub(crate) fn work(self: &Arc<Self>) -> Work {
        self.at_work.send_modify(|count| *count += 1);
        Work(self.clone())
    }

    /// Waits until no request, stream or terminal is running.
    pub(crate) async fn idle(&self) {
        let mut at_work = self.at_work.subscribe();
        let _ = at_work.wait_for(|count| *count == 0).await;
    }
}
