//! The end of the server, in phases.
//!
//! | phase | new requests | requests at work | output of commands | terminals, events |
//! |---|---|---|---|---|
//! | running | taken | go on | goes on | go on |
//! | draining | 503 | go on | goes on | get a notice, and end |
//! | cutting | 503 | go on | gets a notice, and ends | are cut off |
//! | ended | no connection | are cut off | – | – |
//!
//! Draining ends when nothing is at work any more, and after `STOP_GRACE` at the
//! latest. Readers of a stream go on at another server, or this one's next start,
//! from where the stream broke off.

use std::sync::Arc;

use tokio::sync::watch;

use crate::app::App;

/// How far the server is with its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Phase {
    Running,
    Draining,
    Cutting,
    Ended,
}

/// The phase, and how much is at work.
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

/// Something at work: a request, a stream or a terminal.
#[derive(Debug)]
pub(crate) struct Work(Arc<App>);

impl Drop for Work {
    fn drop(&mut self) {
        self.0.stopping.at_work.send_modify(|count| *count -= 1);
    }
}

impl App {
    /// Whether new requests are refused, since the server is about to end.
    pub(crate) fn is_stopping(&self) -> bool {
        *self.stopping.phase.borrow() > Phase::Running
    }

    /// Enters a phase of the end. No phase comes again.
    pub(crate) fn enter(&self, phase: Phase) {
        self.stopping.phase.send_if_modified(|now| {
            let is_next = phase > *now;
            *now = phase.max(*now);
            is_next
        });
    }

    /// Waits until a phase has begun.
    pub(crate) async fn entered(&self, phase: Phase) {
        let mut phases = self.stopping.phase.subscribe();
        // An error is that no one can say so any more.
        let _ = phases.wait_for(|now| *now >= phase).await;
    }

    /// Counts something as being at work. To be called before
    /// [`Self::is_stopping`] is asked: then nothing begins unseen.
    pub(crate) fn work(self: &Arc<Self>) -> Work {
        self.stopping.at_work.send_modify(|count| *count += 1);
        Work(self.clone())
    }

    /// Waits until nothing is at work.
    pub(crate) async fn idle(&self) {
        let mut at_work = self.stopping.at_work.subscribe();
        let _ = at_work.wait_for(|count| *count == 0).await;
    }
}
