//! Landing: merges a change into the head of a project, stores the result, and
//! moves the head in one transaction with the versions and reviews.
//!
//! Objects are stored first and the head moves last. So a server that is killed
//! in between leaves the previous head, and snapshots that the next garbage
//! collection deletes. The transaction fails if any of the rows that the landing
//! was computed from has changed: head, policy, base of the workspace, reviews.
//! So several processes may land at the same time, and a new policy applies to
//! every landing after it.

pub(crate) mod job;
pub(crate) mod precedence;
pub(crate) mod prepare;
pub(crate) mod queue;
pub(crate) mod retries;
pub(crate) mod review_plan;

use std::collections::HashMap;
use std::sync::Arc;

use elevo_api as api;
use elevo_catalog::{Catalog, Error as CatalogError, Landing, Project};
use elevo_core::{ErrorCode, ProjectId, TenantId};
use elevo_engine::{Commit, Guard, Object, Repository};
use elevo_objects::ObjectKey;
use elevo_policy::Strategy;
use tokio::sync::oneshot;
use tracing::Instrument;

use crate::app::projects::heads::Heads;
use crate::app::projects::landing::job::{Done, Job, Waiting};
use crate::app::projects::landing::prepare::{Prepared, Preparer, Staged};
use crate::app::projects::landing::queue::Queues;
use crate::app::projects::landing::review_plan::under_review;
use crate::app::projects::{Projects, out};
use crate::app::resources::Resources;
use crate::app::tenant_stores::TenantStores;
use crate::failure::{Failure, Result};
use crate::platform::clock;
use crate::platform::trace::step;

/// Maximum attempts to land a batch while other processes move the head.
const ATTEMPTS: usize = 16;

/// The result of an attempt to land a batch.
enum Attempt {
    /// Every job of the batch has its result.
    Done,
    /// These jobs must be merged into the newer head.
    Retry(Vec<Waiting>),
}

/// Lands changes in projects. Holds a queue of waiting jobs for each project:
/// all jobs that wait at the same time land in one transaction.
pub(crate) struct Landings {
    catalog: Arc<dyn Catalog>,
    heads: Arc<Heads>,
    stores: Arc<TenantStores>,
    projects: Arc<Projects>,
    preparer: Arc<Preparer>,
    queues: Queues,
}

impl Landings {
    pub(crate) fn new(
        resources: &Resources,
        projects: &Arc<Projects>,
        preparer: &Arc<Preparer>,
    ) -> Self {
        Self {
            catalog: resources.catalog.clone(),
            heads: resources.heads.clone(),
            projects: projects.clone(),
            preparer: preparer.clone(),
            stores: resources.stores.clone(),
            queues: Queues::default(),
        }
    }

    /// Lands a job in a project. The landing continues if the client
    /// disconnects.
    pub(crate) async fn land(self: &Arc<Self>, project: &Project, job: Job) -> Result<Done> {
        let mut done = self.land_all(project, vec![job]).await?;
        done.pop().ok_or_else(lost)
    }

    /// Lands jobs in one transaction: all of them, or none. The landing continues
    /// if the client disconnects.
    async fn land_all(self: &Arc<Self>, project: &Project, jobs: Vec<Job>) -> Result<Vec<Done>> {
        let (answer, mut answered) = oneshot::channel();
        let queue = self.queues.of(&project.id);
        // Pushed before the wait for the lock: the task that gets the lock next
        // lands all jobs of the queue in one batch.
        queue.push(Waiting { jobs, answer })?;
        let (app, project) = (self.clone(), project.clone());
        let tenant = project.tenant;
        let working = self.stores.spawn(tenant, async move {
            let _turn = queue.turn.lock().await;
            // While this task waited for the lock, another task may have landed
            // the job with its batch.
            loop {
                match answered.try_recv() {
                    Ok(done) => return done,
                    Err(oneshot::error::TryRecvError::Closed) => return Err(lost()),
                    Err(oneshot::error::TryRecvError::Empty) => {}
                }
                let batch = queue.take();
                // Another task has the job in its batch and will send the
                // result.
                if batch.is_empty() {
                    return answered.await.unwrap_or_else(|_| Err(lost()));
                }
                app.carry_out(project.tenant, &project.id, batch).await;
            }
        });
        working.await.map_err(|error| Failure::internal(&error))?
    }

    /// Lands a batch of jobs, with a limited number of attempts, and sends each
    /// job its result.
    async fn carry_out(&self, tenant: TenantId, project: &ProjectId, jobs: Vec<Waiting>) {
        let mut left = jobs;
        for _ in 0..ATTEMPTS {
            left = match self.attempt(tenant, project, left).await {
                Attempt::Retry(left) => left,
                Attempt::Done => return,
            };
        }
        for waiting in left {
            let message = "the head of the project moved during every attempt to merge; retry";
            let failure = Failure::new(ErrorCode::VersionConflict, message).retry_after(1);
            let _ = waiting.answer.send(Err(failure));
        }
    }

    /// Merges the jobs of a batch into the head, one after another, and moves
    /// the head in one transaction.
    async fn attempt(&self, tenant: TenantId, project: &ProjectId, jobs: Vec<Waiting>) -> Attempt {
        let mut base = match self.preparer.base(tenant, project).await {
            Ok(base) => base,
            Err(failure) => {
                answer_all(jobs, &failure);
                return Attempt::Done;
            }
        };
        // The transaction compares the stored head with the head before the
        // batch. `base.head` moves with every job below.
        let expected_head = base.head;
        let (mut prepared, mut waiting) = (Vec::new(), Vec::new());
        for request in jobs {
            match self.preparer.prepare_all(&mut base, &request.jobs).await {
                Ok(done) => {
                    prepared.extend(done);
                    waiting.push(request);
                }
                // The jobs of other requests can still land.
                Err(failure) => {
                    let _ = request.answer.send(Err(failure));
                }
            }
        }
        if prepared.is_empty() {
            return Attempt::Done;
        }
        // This guard alone keeps the new objects from garbage collection until
        // the catalog refers to them.
        let _made = match store(&base.repository, &mut prepared).await {
            Ok(made) => made,
            Err(failure) => {
                answer_all(waiting, &failure);
                return Attempt::Done;
            }
        };
        let landing = Landing {
            tenant,
            project: project.to_owned(),
            expected_head,
            expected_policy: base.project.policy_version,
            steps: prepared.iter().map(|done| done.step.clone()).collect(),
            now: clock::now(),
        };
        match self.catalog.land(&landing).await {
            Ok(landed) => {
                let steps = prepared.into_iter().zip(landed.steps);
                let mut results = steps.map(|(done, step)| Done {
                    head: step.head,
                    sequence: step.sequence,
                    merge: Some(done.merge),
                    reviews: done.reviews,
                });
                for request in waiting {
                    let own = results.by_ref().take(request.jobs.len()).collect();
                    let _ = request.answer.send(Ok(own));
                }
                self.heads.head_moved(project);
                Attempt::Done
            }
            Err(error) => self.not_landed(tenant, project, error, waiting).await,
        }
    }

    /// Decides what happens to the jobs of a batch whose transaction failed.
    async fn not_landed(
        &self,
        tenant: TenantId,
        project: &ProjectId,
        error: CatalogError,
        mut waiting: Vec<Waiting>,
    ) -> Attempt {
        match error {
            // The merges were computed with an old head or policy.
            CatalogError::HeadMoved { .. } | CatalogError::PolicyMoved { .. } => {
                Attempt::Retry(waiting)
            }
            // A single job can cause the failure, and the error does not say
            // which. So each job lands in a separate transaction.
            _ if waiting.len() > 1 => {
                for alone in waiting {
                    Box::pin(self.carry_out(tenant, project, vec![alone])).await;
                }
                Attempt::Done
            }
            // A review or workspace has changed, and the next attempt reads the
            // new row. A decision must not be applied to a review that has
            // changed since its author read it, so it fails (below).
            CatalogError::Changed { .. } if waiting.iter().all(is_no_decision) => {
                Attempt::Retry(waiting)
            }
            // An earlier attempt of the same request has landed. The client gets
            // what the history knows of it.
            CatalogError::Repeated { .. } => {
                if let Some(alone) = waiting.pop() {
                    let landed = self.landed_already(tenant, project, &alone.jobs).await;
                    let _ = alone.answer.send(landed);
                }
                Attempt::Done
            }
            error => {
                answer_all(waiting, &error.into());
                Attempt::Done
            }
        }
    }

    /// Lands a job, or only computes its result in a dry run. Returns the part
    /// of the result that the agent of the job may see.
    pub(crate) async fn settle(
        self: &Arc<Self>,
        project: &Project,
        job: Job,
        dry_run: bool,
    ) -> Result<api::MergeResult> {
        if dry_run {
            let rehearsed = self.rehearse_all(project, &[job]).await?.pop();
            return rehearsed.ok_or_else(lost)?;
        }
        let mut settled = self.settle_all(project, vec![job]).await?;
        settled.pop().ok_or_else(lost)
    }

    /// Lands jobs in one transaction: all of them, or none. Returns the part of
    /// each result that the agent of the job may see.
    pub(crate) async fn settle_all(
        self: &Arc<Self>,
        project: &Project,
        jobs: Vec<Job>,
    ) -> Result<Vec<api::MergeResult>> {
        let policy = self.projects.compiled_policy(project).await?;
        let of_job = |job: &Job| (policy.for_agent(job.rights.as_deref()), job.theirs.id);
        let views: Vec<_> = jobs.iter().map(of_job).collect();
        let started = clock::instant();
        let landing = self.land_all(project, jobs);
        let done = landing.instrument(step!("project.land")).await?;
        crate::platform::metrics::merged(started.elapsed());
        let mut results = Vec::new();
        for (done, (view, theirs)) in done.into_iter().zip(views) {
            results.push(match &done.merge {
                Some(_) => out::merge_result(project, &view, &done, theirs, false),
                None => self.result_of(project, done.head, done.sequence).await?,
            });
        }
        Ok(results)
    }

    /// Computes the results of jobs in a dry run, each on the result of the jobs
    /// before it.
    pub(crate) async fn rehearse_all(
        &self,
        project: &Project,
        jobs: &[Job],
    ) -> Result<Vec<Result<api::MergeResult>>> {
        let policy = self.projects.compiled_policy(project).await?;
        let (head, merges) = self.preparer.rehearse(project, jobs).await?;
        let mut results = Vec::new();
        for (job, merged) in jobs.iter().zip(merges) {
            let merge = match merged {
                Ok(merge) => merge,
                Err(failure) => {
                    results.push(Err(failure));
                    continue;
                }
            };
            let workspace = job.workspace.as_ref();
            let open = self
                .preparer
                .open_reviews(project.tenant, workspace)
                .await?;
            let done = Done {
                head,
                sequence: None,
                reviews: under_review(open, &merge),
                merge: Some(merge),
            };
            let view = policy.for_agent(job.rights.as_deref());
            let theirs = job.theirs.id;
            results.push(Ok(out::merge_result(project, &view, &done, theirs, true)));
        }
        Ok(results)
    }

    /// Denies a strategy that the policy of a project does not allow requests to
    /// set.
    pub(crate) async fn check_override(
        &self,
        project: &Project,
        strategy: Option<Strategy>,
    ) -> Result<()> {
        let Some(strategy) = strategy else {
            return Ok(());
        };
        match self
            .projects
            .compiled_policy(project)
            .await?
            .allows_override(strategy)
        {
            true => Ok(()),
            false => {
                let message = format!("the policy does not allow the strategy `{strategy}`");
                let failure = Failure::new(ErrorCode::PolicyRefused, message);
                Err(failure.remediation(format!(
                    "Leave `strategy` out, or add `{strategy}` to `overrides` in the policy of the project."
                )))
            }
        }
    }
}

fn is_no_decision(waiting: &Waiting) -> bool {
    waiting.jobs.iter().all(|job| job.decides.is_none())
}

fn lost() -> Failure {
    Failure::internal(&std::io::Error::other("a landing ended without a result"))
}

/// Stores the objects and snapshots of all jobs in one commit. The returned
/// guard keeps them from garbage collection; `None` if there are no snapshots.
async fn store(repository: &Repository, prepared: &mut [Prepared]) -> Result<Option<Guard>> {
    let mut objects: HashMap<ObjectKey, Object> = HashMap::new();
    let mut order = Vec::new();
    let mut snapshots = Vec::new();
    let mut after = Vec::new();
    // The trees keep their writers until the commit has returned.
    let mut trees = Vec::new();
    for Staged { commit, tree } in prepared.iter_mut().flat_map(|done| done.commits.drain(..)) {
        trees.push(tree);
        after.extend(commit.after);
        for object in commit.objects {
            let key = object.key;
            // Each job is merged into the results of the jobs before it, so its
            // commit can contain some of their objects again.
            if objects.insert(key, object).is_none() {
                order.push(key);
            }
        }
        snapshots.extend(commit.snapshots);
    }
    if snapshots.is_empty() {
        return Ok(None);
    }
    let objects = order.iter().filter_map(|key| objects.remove(key)).collect();
    let commit = Commit {
        objects,
        snapshots,
        after,
        ..Commit::default()
    };
    let stored = repository.store().commit(repository.tenant(), commit).await;
    let stored = stored.map_err(elevo_engine::Error::from)?;
    Ok(Some(stored.held))
}

fn answer_all(jobs: Vec<Waiting>, failure: &Failure) {
    for waiting in jobs {
        let _ = waiting.answer.send(Err(failure.again()));
    }
}
