//! Queues of the merges of each project. The first waiting task lands all jobs
//! that gathered during the previous landing, in one transaction.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use elevo_catalog::Project;
use tokio::sync::oneshot;

use super::landing::{Done, Job};
use crate::app::App;
use crate::failure::{Failure, Result};

/// Maximum jobs in one transaction.
const BATCH: usize = 32;

/// Maximum jobs that wait for one project.
const WAITING: usize = 1000;

/// The queues of all projects with waiting jobs.
#[derive(Debug, Default)]
pub(crate) struct Queues(Mutex<HashMap<String, Arc<Queue>>>);

#[derive(Debug, Default)]
struct Queue {
    waiting: Mutex<VecDeque<Waiting>>,
    turn: tokio::sync::Mutex<()>,
}

/// A job, and the channel for its result.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) job: Job,
    pub(super) answer: oneshot::Sender<Result<Done>>,
}

impl Queues {
    fn of(&self, project: &str) -> Arc<Queue> {
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
    fn push(&self, waiting: Waiting) -> Result<()> {
        let mut queue = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if queue.len() >= WAITING {
            let message = "too many merges wait for this project";
            let failure = Failure::new(elevo_core::ErrorCode::Overloaded, message);
            return Err(failure.retry_after(5));
        }
        queue.push_back(waiting);
        Ok(())
    }

    fn take(&self) -> Vec<Waiting> {
        let mut queue = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let count = queue.len().min(BATCH);
        queue.drain(..count).collect()
    }
}

impl App {
    /// Merges a job into its project's head. Continues in the background if the
    /// caller goes away.
    pub(super) async fn land(self: &Arc<Self>, project: &Project, job: Job) -> Result<Done> {
        let (answer, mut answered) = oneshot::channel();
        let queue = self.queues.of(&project.id);
        // Before the wait for the turn: the task that lands next takes all jobs
        // that are in the queue by then.
        queue.push(Waiting { job, answer })?;
        let (app, project) = (self.clone(), project.clone());
        let lost = |_| Failure::internal(&std::io::Error::other("a merge was lost"));
        let tenant = project.tenant;
        let working = self.spawn_apart(tenant, async move {
            let _turn = queue.turn.lock().await;
            // Another task may have landed the job while this one waited.
            loop {
                match answered.try_recv() {
                    Ok(done) => return done,
                    Err(oneshot::error::TryRecvError::Closed) => return Err(lost(())),
                    Err(oneshot::error::TryRecvError::Empty) => {}
                }
                let batch = queue.take();
                if batch.is_empty() {
                    return answered.await.unwrap_or_else(|_| Err(lost(())));
                }
                app.carry_out(project.tenant, &project.id, batch).await;
            }
        });
        working.await.map_err(|error| Failure::internal(&error))?
    }
}
