//! Landing: merges a change against the head of a project, stores the result,
//! and moves the head by compare-and-swap, together with versions and reviews.
//!
//! Objects are stored first and the head moves last, so a server that is killed
//! in between leaves unreferenced snapshots and the previous head. The
//! transaction checks everything that a landing was computed from (head,
//! policy, base of the workspace, reviews), so any number of servers may land
//! at once, and a new policy binds every landing after it.

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
use elevo_core::{ErrorCode, TenantId};
use elevo_engine::{Commit, Guard, Object, Repository};
use elevo_objects::ObjectKey;
use elevo_policy::Strategy;
use tokio::sync::oneshot;
use tracing::Instrument;

use crate::app::projects::heads::Heads;
use crate::app::projects::landing::job::{Done, Job, Waiting};
use crate::app::projects::landing::prepare::{Prepared, Preparer};
use crate::app::projects::landing::queue::Queues;
use crate::app::projects::landing::review_plan::under_review;
use crate::app::projects::{Projects, out};
use crate::app::resources::Resources;
use crate::app::tenant_stores::TenantStores;
use crate::failure::{Failure, Result};
use crate::platform::clock;
use crate::platform::trace::step;

/// Maximum attempts to land while other servers move the head.
const ATTEMPTS: usize = 16;

/// The result of an attempt to land a batch.
enum Attempt {
    /// Every job has its result.
    Done,
    /// These jobs have to be merged again, into a newer head.
    Retry(Vec<Waiting>),
}

/// Lands changes in projects.
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

    /// Merges a job into its project's head. Continues in the background if the
    /// caller goes away.
    pub(crate) async fn land(self: &Arc<Self>, project: &Project, job: Job) -> Result<Done> {
        let (answer, mut answered) = oneshot::channel();
        let queue = self.queues.of(&project.id);
        // Before the wait for the turn: the task that lands next takes all jobs
        // that are in the queue by then.
        queue.push(Waiting { job, answer })?;
        let (app, project) = (self.clone(), project.clone());
        let lost = |_| Failure::internal(&std::io::Error::other("a merge was lost"));
        let tenant = project.tenant;
        let working = self.stores.spawn(tenant, async move {
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

    async fn carry_out(&self, tenant: TenantId, project: &str, jobs: Vec<Waiting>) {
        let mut left = jobs;
        for _ in 0..ATTEMPTS {
            left = match self.attempt(tenant, project, left).await {
                Attempt::Retry(left) => left,
                Attempt::Done => return,
            };
        }
        for waiting in left {
            let message = "the head of the project moved during every attempt to merge";
            let failure = Failure::new(ErrorCode::VersionConflict, message).retry_after(1);
            let _ = waiting.answer.send(Err(failure));
        }
    }

    /// Tries to land a batch.
    async fn attempt(&self, tenant: TenantId, project: &str, jobs: Vec<Waiting>) -> Attempt {
        let mut base = match self.preparer.base(tenant, project).await {
            Ok(base) => base,
            Err(failure) => {
                answer_all(jobs, &failure);
                return Attempt::Done;
            }
        };
        // The transaction compares the head from before the batch, and
        // `base.head` moves with every job below.
        let expected_head = base.head;
        let (mut prepared, mut waiting) = (Vec::new(), Vec::new());
        for job in jobs {
            match self.preparer.prepare(&base, &job.job).await {
                Ok(done) => {
                    // The next job is merged into this result, so that the
                    // steps of a batch form one chain.
                    if done.step.snapshot != base.head {
                        base.head = done.step.snapshot;
                        base.tree = done.merge.tree.clone();
                    }
                    prepared.push(done);
                    waiting.push(job);
                }
                Err(failure) => {
                    let _ = job.answer.send(Err(failure));
                }
            }
        }
        if prepared.is_empty() {
            return Attempt::Done;
        }
        // Nothing else keeps the new objects until the catalog refers to them.
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
                for ((done, step), waiting) in steps.zip(waiting) {
                    let _ = waiting.answer.send(Ok(Done {
                        head: step.head,
                        sequence: step.sequence,
                        merge: Some(done.merge),
                        reviews: done.reviews,
                    }));
                }
                self.heads.head_moved(project);
                Attempt::Done
            }
            Err(error) => self.not_landed(tenant, project, error, waiting).await,
        }
    }

    async fn not_landed(
        &self,
        tenant: TenantId,
        project: &str,
        error: CatalogError,
        mut waiting: Vec<Waiting>,
    ) -> Attempt {
        match error {
            // The landing is computed again, with the new head and policy.
            CatalogError::HeadMoved { .. } | CatalogError::PolicyMoved { .. } => {
                Attempt::Retry(waiting)
            }
            // One job makes the transaction of all fail: land each alone.
            _ if waiting.len() > 1 => {
                for alone in waiting {
                    Box::pin(self.carry_out(tenant, project, vec![alone])).await;
                }
                Attempt::Done
            }
            // The next attempt reads the changed rows again. A decision was
            // made for a review as it was, so it fails instead.
            CatalogError::Changed { .. } if waiting.iter().all(is_no_decision) => {
                Attempt::Retry(waiting)
            }
            CatalogError::Repeated { landed, .. } => {
                if let Some(alone) = waiting.pop() {
                    let _ = alone.answer.send(Ok(Done {
                        head: landed.head,
                        sequence: landed.sequence,
                        merge: None,
                        reviews: HashMap::new(),
                    }));
                }
                Attempt::Done
            }
            error => {
                answer_all(waiting, &error.into());
                Attempt::Done
            }
        }
    }

    /// Lands a job, or only computes the result.
    pub(crate) async fn settle(
        self: &Arc<Self>,
        project: &Project,
        job: Job,
        dry_run: bool,
    ) -> Result<api::MergeResult> {
        let theirs = job.theirs.id;
        let view = self.projects.compiled_policy(project).await?;
        let view = view.for_agent(job.rights.as_deref());
        if dry_run {
            let (head, merge) = self.preparer.rehearse(project, &job).await?;
            let open = self.preparer.open_reviews(job.workspace.as_deref()).await?;
            let done = Done {
                head,
                sequence: None,
                reviews: under_review(open, &merge),
                merge: Some(merge),
            };
            return Ok(out::merge_result(project, &view, &done, theirs, true));
        }
        let started = clock::instant();
        let landing = self.land(project, job);
        let done = landing.instrument(step!("project.land")).await?;
        crate::platform::metrics::merged(started.elapsed());
        Ok(out::merge_result(project, &view, &done, theirs, false))
    }

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
                Err(failure.remediation(
                    "Leave `strategy` out, or have it added to `overrides` of the policy.",
                ))
            }
        }
    }
}

fn is_no_decision(waiting: &Waiting) -> bool {
    waiting.job.decides.is_none()
}

/// Stores the objects of all jobs in one commit. The guard keeps them from
/// garbage collection.
async fn store(repository: &Repository, prepared: &mut [Prepared]) -> Result<Option<Guard>> {
    let mut objects: HashMap<ObjectKey, Object> = HashMap::new();
    let mut order = Vec::new();
    let mut snapshots = Vec::new();
    for commit in prepared.iter_mut().flat_map(|done| done.commits.drain(..)) {
        for object in commit.objects {
            let key = object.key;
            // A job is merged into the results of the jobs before it, so its
            // commit may repeat their objects.
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
        references: Vec::new(),
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
