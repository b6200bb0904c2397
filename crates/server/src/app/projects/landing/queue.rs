//! A queue of jobs for each project. A task that gets the lock of the queue
//! lands all jobs that were added during the previous landing in one
//! transaction.

use elevo_core::ProjectId;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use parking_lot::Mutex;

use crate::app::projects::landing::job::Waiting;
use crate::failure::{Failure, Result};

/// Maximum jobs in one transaction, unless a single request has more.
const BATCH: usize = 32;

/// Maximum jobs in the queue of one project.
const WAITING: usize = 1000;

/// The queues of projects, by the id of the project.
#[derive(Debug, Default)]
pub(crate) struct Queues(Mutex<HashMap<ProjectId, Arc<Queue>>>);

/// The queue of one project.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    waiting: Mutex<VecDeque<Waiting>>,
    /// Held by the task that lands jobs of the project.
    pub(crate) turn: tokio::sync::Mutex<()>,
}

impl Queues {
    pub(crate) fn of(&self, project: &ProjectId) -> Arc<Queue> {
        let mut queues = self.0.lock();
        if queues.len() > 1000 {
            // A queue is cloned only here, under the lock. So a queue whose only
            // owner is this map is not in use.
            queues.retain(|_, queue| Arc::strong_count(queue) > 1);
        }
        queues.entry(project.clone()).or_default().clone()
    }
}

impl Queue {
    pub(crate) fn push(&self, waiting: Waiting) -> Result<()> {
        let mut queue = self.waiting.lock();
        if queue.len() >= WAITING {
            let message = "too many merges wait for this project; retry later";
            let failure = Failure::new(elevo_core::ErrorCode::Overloaded, message);
            return Err(failure.retry_after(5));
        }
        queue.push_back(waiting);
        Ok(())
    }

    /// Removes and returns the jobs of the next batch.
    pub(crate) fn take(&self) -> Vec<Waiting> {
        let mut queue = self.waiting.lock();
        let mut batch: Vec<Waiting> = Vec::new();
        let mut jobs = 0;
        while let Some(next) = queue.front() {
            jobs += next.jobs.len();
            if jobs > BATCH && !batch.is_empty() {
                break;
            }
            batch.extend(queue.pop_front());
        }
        batch
    }
}
