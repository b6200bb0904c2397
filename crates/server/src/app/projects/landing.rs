//! Landing: merges a change against the head of a project, stores the result,
//! and moves the head by compare-and-swap, together with versions and reviews.
//!
//! Objects are stored first and the head moves last, so a server that is killed
//! in between leaves unreferenced snapshots and the previous head. The
//! transaction checks everything that a landing was computed from (head,
//! policy, base of the workspace, reviews), so any number of servers may land
//! at once, and a new policy binds every landing after it.

use std::collections::{BTreeMap, HashMap};

use elevo_catalog::{
    BaseMove, Error as CatalogError, Landing, LandingKind, Project, Review, ReviewChange,
    ReviewState, ReviewStep, Sides as ReviewSides, Step, Unsettled, Workspace,
};
use elevo_core::{ErrorCode, TenantId, TreePath};
use elevo_engine::{Commit, CommitInfo, Guard, Object, Repository, StateTree};
use elevo_merge::{Limits, Precedence, Refused, Rules, Sides, TreeMerge, Why, merge_trees};
use elevo_objects::{ObjectKey, SnapshotId};
use elevo_policy::{Compiled, Strategy};
use serde_json::json;

use super::merging::Reviewed;
use super::out;
use super::queue::Waiting;
use super::reviews::put;
use super::unsettled::Standing;
use crate::app::App;
use crate::app::files::SHARED;
use crate::app::kept::Kept;
use crate::clock;
use crate::failure::{Failure, Result};

/// Maximum attempts to land while other servers move the head.
const ATTEMPTS: usize = 16;

/// A change to merge into a project's head.
#[derive(Clone, Debug)]
pub(super) struct Job {
    pub(super) kind: LandingKind,
    /// The snapshot that the change started from, if it is not the workspace's
    /// base.
    pub(super) base: Option<Kept>,
    /// The base of the workspace when `theirs` was taken: the change is the
    /// difference between the two. The landing fails if the base has moved
    /// since.
    pub(super) expected: Option<SnapshotId>,
    /// Conflicts that refreshes left to the workspace.
    pub(super) unsettled: Vec<Unsettled>,
    /// Whether this is the last merge of the workspace before its deletion.
    pub(super) last: bool,
    /// The changed files.
    pub(super) theirs: Kept,
    /// The workspace whose base moves.
    pub(super) workspace: Option<String>,
    /// The agent that the step is attributed to.
    pub(super) agent: Option<String>,
    /// The agent whose rights apply; `None` means no limits.
    pub(super) rights: Option<String>,
    pub(super) key: String,
    pub(super) message: String,
    /// The name of the request, so that a retry does not land twice.
    pub(super) request: Option<String>,
    pub(super) strategy: Option<Strategy>,
    pub(super) renames: bool,
    pub(super) atomic: bool,
    /// The review that the job decides.
    pub(super) decides: Option<Decision>,
}

/// A decision on a review.
#[derive(Clone, Debug)]
pub(super) struct Decision {
    pub(super) review: Review,
    pub(super) change: ReviewChange,
}

impl Decision {
    /// The record for the log, read back as `api::Decided`.
    fn for_log(&self) -> serde_json::Value {
        let resolution = self.change.resolution.as_ref();
        let told = |name: &str| resolution.map(|value| value[name].clone());
        json!({
            "by": self.change.by, "name": told("name"),
            "review": self.review.id, "resolution": told("resolution"),
        })
    }
}

/// The result of a job.
#[derive(Debug)]
pub(super) struct Done {
    pub(super) head: SnapshotId,
    pub(super) sequence: Option<u64>,
    pub(super) merge: Option<TreeMerge>,
    /// The review of each held path.
    pub(super) reviews: HashMap<TreePath, String>,
}

/// A merged job that has not landed yet.
struct Prepared {
    step: Step,
    merge: TreeMerge,
    reviews: HashMap<TreePath, String>,
    commits: Vec<Commit>,
    /// Keeps the snapshot that the merge refers to.
    _kept: Option<Kept>,
}

/// The result of merging one job.
struct Outcome {
    merge: TreeMerge,
    /// Conflicts of refreshes that the workspace has settled.
    settled: Vec<TreePath>,
    kept: Option<Kept>,
}

/// The state that the jobs of a batch are merged into, one after the other.
struct Base {
    project: Project,
    policy: std::sync::Arc<Compiled>,
    repository: Repository,
    head: SnapshotId,
    tree: StateTree,
    /// Keeps the head that the first job is merged into.
    _kept: Kept,
}

impl App {
    pub(super) async fn carry_out(&self, tenant: TenantId, project: &str, jobs: Vec<Waiting>) {
        let mut left = jobs;
        for _ in 0..ATTEMPTS {
            left = match self.attempt(tenant, project, left).await {
                Some(left) => left,
                None => return,
            };
        }
        for waiting in left {
            let message = "the head of the project moved during every attempt to merge";
            let failure = Failure::new(ErrorCode::VersionConflict, message).retry_after(1);
            let _ = waiting.answer.send(Err(failure));
        }
    }

    /// Tries to land a batch. Returns the jobs to retry, or `None` if all have
    /// their results.
    async fn attempt(
        &self,
        tenant: TenantId,
        project: &str,
        jobs: Vec<Waiting>,
    ) -> Option<Vec<Waiting>> {
        let mut base = match self.base(tenant, project).await {
            Ok(base) => base,
            Err(failure) => {
                answer_all(jobs, &failure);
                return None;
            }
        };
        // The transaction compares the head from before the batch, and
        // `base.head` moves with every job below.
        let expected_head = base.head;
        let (mut prepared, mut waiting) = (Vec::new(), Vec::new());
        for job in jobs {
            match self.prepare(&base, &job.job).await {
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
            return None;
        }
        // Nothing else keeps the new objects until the catalog refers to them.
        let _made = match store(&base.repository, &mut prepared).await {
            Ok(made) => made,
            Err(failure) => {
                answer_all(waiting, &failure);
                return None;
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
                self.head_moved(project);
                None
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
    ) -> Option<Vec<Waiting>> {
        match error {
            // The landing is computed again, with the new head and policy.
            CatalogError::HeadMoved { .. } | CatalogError::PolicyMoved { .. } => Some(waiting),
            // One job makes the transaction of all fail: land each alone.
            _ if waiting.len() > 1 => {
                for alone in waiting {
                    Box::pin(self.carry_out(tenant, project, vec![alone])).await;
                }
                None
            }
            // The next attempt reads the changed rows again. A decision was
            // made for a review as it was, so it fails instead.
            CatalogError::Changed { .. } if waiting.iter().all(is_no_decision) => Some(waiting),
            CatalogError::Repeated { landed, .. } => {
                if let Some(alone) = waiting.pop() {
                    let _ = alone.answer.send(Ok(Done {
                        head: landed.head,
                        sequence: landed.sequence,
                        merge: None,
                        reviews: HashMap::new(),
                    }));
                }
                None
            }
            error => {
                answer_all(waiting, &error.into());
                None
            }
        }
    }

    async fn base(&self, tenant: TenantId, project: &str) -> Result<Base> {
        let (project, kept) = self.with_head(tenant, project).await?;
        let repository = self.homes.repository(tenant);
        Ok(Base {
            policy: self.policy_of(&project).await?,
            head: project.head,
            tree: StateTree::open(&repository, project.head).await?,
            repository,
            project,
            _kept: kept,
        })
    }

    /// Computes a merge without landing it.
    pub(super) async fn rehearse(
        &self,
        project: &Project,
        job: &Job,
    ) -> Result<(SnapshotId, TreeMerge)> {
        let base = self.base(project.tenant, &project.id).await?;
        let workspace = self.workspace_of(&base, job).await?;
        let done = self.merge(&base, job, workspace.as_ref()).await?;
        Ok((base.head, done.merge))
    }

    async fn workspace_of(&self, base: &Base, job: &Job) -> Result<Option<Workspace>> {
        let Some(id) = &job.workspace else {
            return Ok(None);
        };
        let found = self.catalog.workspace(base.project.tenant, id).await?;
        let found = found.ok_or_else(|| super::workspaces::no_workspace(id))?;
        match job.expected.is_some_and(|expected| expected != found.base) {
            true => Err(moved_meanwhile()),
            false => Ok(Some(found)),
        }
    }

    async fn merge(
        &self,
        base: &Base,
        job: &Job,
        workspace: Option<&Workspace>,
    ) -> Result<Outcome> {
        let from = from(base, job, workspace);
        // Held, because a refresh may move the workspace's base at the same
        // time.
        let _from = base.repository.hold(from).await?;
        let from = base.repository.snapshot(from).await?;
        let theirs = base.repository.snapshot(job.theirs.id).await?;
        let taken = StateTree::at(&base.repository, &theirs);
        let standing = Standing::of(&taken, &job.unsettled).await?;
        let kept = standing.without_marked(&base.repository, &from, &theirs);
        let kept = kept.await?;
        let theirs = match &kept {
            Some(kept) => base.repository.snapshot(kept.id).await?,
            None => theirs,
        };
        let precedence = ByPriority {
            app: self,
            base,
            theirs: base.policy.priority(job.agent.as_deref()),
        };
        let policy = self.policy_for(&base.project, job.kind).await?;
        let rules = Rules {
            view: &policy.for_agent(job.rights.as_deref()),
            policy: &policy,
            decided: job.decides.is_some(),
            careful: job.decides.is_some(),
            instead: job.strategy,
            precedence: &precedence,
            unsettled: &standing.untouched,
        };
        let limits = Limits {
            renames: job.renames,
            changes: elevo_catalog::MAX_CHANGES as u64,
            ..Limits::default()
        };
        let sides = Sides {
            base: &from,
            ours: &base.tree,
            theirs: &theirs,
        };
        let mut merge = merge_trees(&sides, &rules, &self.drivers, &limits).await?;
        standing.refuse(&mut merge);
        Ok(Outcome {
            merge,
            settled: standing.settled,
            kept,
        })
    }

    async fn prepare(&self, base: &Base, job: &Job) -> Result<Prepared> {
        let open = self.open_reviews(job.workspace.as_deref());
        let (workspace, open) = tokio::try_join!(self.workspace_of(base, job), open)?;
        let Outcome {
            merge,
            settled,
            kept,
        } = self.merge(base, job, workspace.as_ref()).await?;
        if job.last && merge.refused.iter().any(is_marked) {
            return Err(out::unfinished(&merge));
        }
        if job.atomic && !(merge.conflicts.is_empty() && merge.refused.is_empty()) {
            let view = base.policy.for_agent(job.rights.as_deref());
            return Err(out::not_atomic(&view, &merge, base.head, &job.theirs.id));
        }
        if merge.conflicts.len() >= elevo_catalog::MAX_REVIEWS {
            let message = format!(
                "the merge has too many conflicts: {}",
                merge.conflicts.len()
            );
            let failure = Failure::new(ErrorCode::TooManyChanges, message);
            return Err(failure.about("limit", elevo_catalog::MAX_REVIEWS));
        }
        // Otherwise the review would close although its change has not landed.
        if let (Some(_), Some(refused)) = (&job.decides, merge.refused.first()) {
            let failure = Failure::new(ErrorCode::PolicyRefused, refused.why.to_string());
            return Err(failure.remediation(refused.why.remedy()));
        }
        let mut commits = Vec::new();
        let snapshot = match merge.landed.is_empty() {
            true => base.head,
            false => {
                let staged = merge.tree.staged(head_info(base, job)).await?;
                commits.push(staged.1);
                staged.0
            }
        };
        let from = from(base, job, workspace.as_ref());
        let held = Reviewed::of(base_of(base, job, from), open, &merge);
        let moved = match (&workspace, &job.decides) {
            (Some(row), _) => Some(BaseMove {
                settled,
                ..base_move(base, job, row, &merge, &mut commits).await?
            }),
            (None, Some(decision)) if merge.conflicts.is_empty() => {
                self.settled(base, decision, &mut commits).await?
            }
            (None, _) => None,
        };
        let mut reviews = held.changes;
        if let Some(decision) = &job.decides {
            reviews.push(self.decided(decision, base, &merge).await?);
        }
        let from = job
            .decides
            .as_ref()
            .and_then(|decision| decision.review.workspace.clone());
        let step = Step {
            kind: job.kind,
            snapshot,
            agent: job.agent.clone(),
            workspace: job.workspace.clone().or(from.filter(|_| moved.is_some())),
            key: job.key.clone(),
            message: job.message.clone(),
            request: job.request.clone(),
            counts: json!({
                "landed": merge.landed.len(), "held": merge.conflicts.len(),
                "refused": merge.refused.len(), "local": merge.local,
                "decided": job.decides.as_ref().map(Decision::for_log),
            }),
            changes: merge.landed.iter().map(out::path_change).collect(),
            reviews,
            opens: held.opens,
            base: moved,
        };
        Ok(Prepared {
            step,
            merge,
            reviews: held.by_path,
            commits,
            _kept: kept,
        })
    }

    /// Returns the change of the decided review. If the decision meets another
    /// conflict, the review stays open, now against the current head.
    async fn decided(
        &self,
        decision: &Decision,
        base: &Base,
        merge: &TreeMerge,
    ) -> Result<ReviewStep> {
        let Decision { review, change } = decision;
        let mut change = change.clone();
        if !merge.conflicts.is_empty() {
            let sides = ReviewSides {
                ours: base.tree.entry(&review.path).await?,
                ours_snapshot: base.head,
                ..review.sides.clone()
            };
            change = ReviewChange::new(ReviewState::Open, ReviewState::Open);
            let detail = self.detail_of(review, &sides).await?;
            change.detail = Some(out::with_message(detail, out::message_of(review)));
            change.sides = Some(sides);
        }
        Ok(ReviewStep {
            id: review.id.clone(),
            change,
        })
    }

    /// Adds the decided change to the base of its workspace, so that the next
    /// merge does not bring it up again.
    async fn settled(
        &self,
        base: &Base,
        decision: &Decision,
        commits: &mut Vec<Commit>,
    ) -> Result<Option<BaseMove>> {
        let review = &decision.review;
        let Some(id) = &review.workspace else {
            return Ok(None);
        };
        let Some(row) = self.catalog.workspace(review.tenant, id).await? else {
            return Ok(None);
        };
        let tree = StateTree::open(&base.repository, row.base).await?;
        put(&tree, &review.path, review.sides.theirs.clone()).await?;
        if let Some(from) = out::moved_from(review) {
            put(&tree, &from, None).await?;
        }
        let staged = tree.staged(agreed_info(base, id)).await?;
        commits.push(staged.1);
        Ok(Some(BaseMove {
            expected: row.base,
            base: staged.0,
            synced: row.synced,
            settled: Vec::new(),
        }))
    }
}

/// The base of the workspace's next merge: the state that both sides agree on.
async fn base_move(
    base: &Base,
    job: &Job,
    row: &Workspace,
    merge: &TreeMerge,
    commits: &mut Vec<Commit>,
) -> Result<BaseMove> {
    Ok(BaseMove {
        expected: row.base,
        base: agreed(base, job, row, merge, commits).await?,
        // A merge brings nothing into the workspace.
        synced: row.synced,
        settled: Vec::new(),
    })
}

async fn agreed(
    base: &Base,
    job: &Job,
    row: &Workspace,
    merge: &TreeMerge,
    commits: &mut Vec<Commit>,
) -> Result<SnapshotId> {
    if merge.is_complete() {
        return Ok(job.theirs.id);
    }
    let before = base.repository.snapshot(row.base).await?;
    if merge.agreed.tree().await? == before.tree {
        return Ok(row.base);
    }
    let (id, commit) = merge.agreed.staged(agreed_info(base, &row.id)).await?;
    commits.push(commit);
    Ok(id)
}

fn is_marked(refused: &Refused) -> bool {
    matches!(refused.why, Why::Markers(_))
}

/// A refresh or another merge came between the snapshot and this landing.
fn moved_meanwhile() -> Failure {
    let message = "another request merged or refreshed the workspace";
    Failure::new(ErrorCode::WorkspaceBusy, message).retry_after(1)
}

fn is_no_decision(waiting: &Waiting) -> bool {
    waiting.job.decides.is_none()
}

fn agreed_info(base: &Base, workspace: &str) -> CommitInfo {
    CommitInfo {
        parents: Vec::new(),
        author: "elevo".into(),
        message: format!("common state of {workspace} and the project"),
        created: clock::now(),
        labels: BTreeMap::from([(SHARED.to_owned(), base.project.id.clone())]),
        reference: None,
    }
}

/// Returns the snapshot that a job's change started from.
fn from(base: &Base, job: &Job, workspace: Option<&Workspace>) -> SnapshotId {
    let given = job.base.as_ref().map(|kept| kept.id);
    let from = given.or(workspace.map(|row| row.base));
    from.unwrap_or(base.head)
}

fn base_of<'a>(base: &'a Base, job: &'a Job, from: SnapshotId) -> super::merging::Held<'a> {
    super::merging::Held {
        project: &base.project,
        workspace: job.workspace.as_deref(),
        agent: job.agent.as_deref(),
        decides: job.decides.is_some(),
        message: &job.message,
        base: from,
        ours: base.head,
        theirs: job.theirs.id,
    }
}

fn head_info(base: &Base, job: &Job) -> CommitInfo {
    let mut labels = BTreeMap::new();
    labels.insert(SHARED.to_owned(), base.project.id.clone());
    labels.insert("kind".to_owned(), job.kind.to_string());
    CommitInfo {
        parents: vec![base.head],
        author: job.agent.clone().unwrap_or_else(|| job.key.clone()),
        message: job.message.clone(),
        created: clock::now(),
        labels,
        reference: None,
    }
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

/// Precedence by the priorities of the policy.
struct ByPriority<'a> {
    app: &'a App,
    base: &'a Base,
    theirs: i32,
}

impl std::fmt::Debug for ByPriority<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ByPriority").finish_non_exhaustive()
    }
}

#[async_trait::async_trait]
impl Precedence for ByPriority<'_> {
    async fn theirs_first(&self, path: &TreePath) -> elevo_merge::Result<Option<bool>> {
        let project = &self.base.project.id;
        let last = self.app.catalog.last_version(project, path).await;
        let last = last.map_err(|error| elevo_merge::Error::Precedence(error.into()))?;
        let ours = last.and_then(|version| version.agent);
        let ours = self.base.policy.priority(ours.as_deref());
        Ok((ours != self.theirs).then_some(self.theirs > ours))
    }
}
