//! Queues of the merges of each project. The first waiting task lands all jobs
//! that gathered during the previous landing, in one transaction.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use crate::app::projects::landing::job::Waiting;
use crate::failure::{Failure, Result};

/// Maximum jobs in one transaction.
const BATCH: usize = 32;

/// Maximum jobs that wait for one project.
const WAITING: usize = 1000;

/// The queues of all projects with waiting jobs.
#[derive(Debug, Default)]
pub(crate) struct Queues(Mutex<HashMap<String, Arc<Queue>>>);

#[derive(Debug, Default)]
pub(crate) struct Queue {
    waiting: Mutex<VecDeque<Waiting>>,
    /// Held by the task that lands jobs of the project.
    pub(crate) turn: tokio::sync::Mutex<()>,
}

impl Queues {
    pub(crate) fn of(&self, project: &str) -> Arc<Queue> {
        let mut queues = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if queues.len() > 1000 {
            // Queues are cloned only here, under the lock, so a queue with one
            // owner is not in use.
            queues.retain(|_, queue| Arc::strong_count(queue) > 1);
        }
        queues.entry(project.to_owned()).or_default().clone()
    }
}

impl Queue {
    pub(crate) fn push(&self, waiting: Waiting) -> Result<()> {
        let mut queue = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if queue.len() >= WAITING {
            let message = "too many merges wait for this project";
            let failure = Failure::new(elevo_core::ErrorCode::Overloaded, message);
            return Err(failure.retry_after(5));
        }
        queue.push_back(waiting);
        Ok(())
    }

    pub(crate) fn take(&self) -> Vec<Waiting> {
        let mut queue = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let count = queue.len().min(BATCH);
        queue.drain(..count).collect()
    }
}
