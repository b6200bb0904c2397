//! Merges jobs into the head of a project and computes their steps, reviews and
//! new objects. Nothing here moves the head or writes to the store's refs.

mod batch;
mod decisions;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use elevo_catalog::{BaseMove, Catalog, Project, Review, Step, Workspace};
use elevo_core::{ErrorCode, ProjectId, ReviewId, TenantId, TreePath, WorkspaceId};
use elevo_engine::{Commit, CommitInfo, Repository, StateTree};
use elevo_merge::{Drivers, Limits, RefusalReason, Refused, Rules, Sides, TreeMerge, merge_trees};
use elevo_objects::SnapshotId;
use elevo_policy::Compiled;
use serde_json::json;

use crate::app::missing::no_workspace;
use crate::app::projects::landing::job::{Decision, Job};
use crate::app::projects::landing::precedence::ByPriority;
use crate::app::projects::landing::review_plan::{ReviewInputs, ReviewPlan};
use crate::app::projects::{Projects, out};
use crate::app::resources::Resources;
use crate::app::snapshots::{Kept, SHARED, Snapshots};
use crate::app::tenant_stores::TenantStores;
use crate::app::workspaces::unsettled::Standing;
use crate::failure::{Failure, Result};
use crate::platform::clock;

/// A merged job that has not landed yet.
pub(crate) struct Prepared {
    pub(crate) step: Step,
    pub(crate) merge: TreeMerge,
    pub(crate) reviews: HashMap<TreePath, ReviewId>,
    pub(crate) commits: Vec<Staged>,
    /// Keeps the snapshot that was merged, if it is not the one of the job.
    _kept: Option<Kept>,
}

/// A commit that is not stored yet, and the tree that has put some of its objects
/// ahead of it.
pub(crate) struct Staged {
    pub(crate) commit: Commit,
    pub(crate) tree: StateTree,
}

/// The result of merging one job.
struct MergedJob {
    merge: TreeMerge,
    /// Paths whose conflict of a refresh was resolved in the workspace.
    settled: Vec<TreePath>,
    /// The merged snapshot, if it is not the one of the job.
    kept: Option<Kept>,
}

/// The head that the next job of a batch is merged into, with the project and
/// its policy. It moves with every job.
pub(crate) struct LandingBase {
    pub(crate) project: Project,
    policy: Arc<Compiled>,
    pub(crate) repository: Repository,
    pub(crate) head: SnapshotId,
    pub(crate) tree: StateTree,
    /// Keeps the head before the batch from garbage collection.
    _kept: Kept,
}

/// Merges jobs into a head, and computes the steps and reviews for their
/// landing.
pub(crate) struct Preparer {
    catalog: Arc<dyn Catalog>,
    drivers: Arc<Drivers>,
    stores: Arc<TenantStores>,
    projects: Arc<Projects>,
    snapshots: Arc<Snapshots>,
}

impl Preparer {
    pub(crate) fn new(
        resources: &Resources,
        projects: &Arc<Projects>,
        snapshots: &Arc<Snapshots>,
    ) -> Self {
        Self {
            catalog: resources.catalog.clone(),
            drivers: resources.drivers.clone(),
            stores: resources.stores.clone(),
            projects: projects.clone(),
            snapshots: snapshots.clone(),
        }
    }

    /// Reads the project and its head, into which the first job is merged.
    pub(crate) async fn base(&self, tenant: TenantId, project: &ProjectId) -> Result<LandingBase> {
        let (project, kept) = self.snapshots.with_head(tenant, project).await?;
        let repository = self.stores.repository(tenant);
        Ok(LandingBase {
            policy: self.projects.compiled_policy(&project).await?,
            head: project.head,
            tree: StateTree::open(&repository, project.head).await?,
            repository,
            project,
            _kept: kept,
        })
    }

    /// Returns the workspace of a job. Fails if its base has changed since the
    /// snapshot of the job was created.
    async fn workspace_of(&self, base: &LandingBase, job: &Job) -> Result<Option<Workspace>> {
        let Some(id) = &job.workspace else {
            return Ok(None);
        };
        let found = self.catalog.workspace(base.project.tenant, id).await?;
        let found = found.ok_or_else(|| no_workspace(id))?;
        match job.expected.is_some_and(|expected| expected != found.base) {
            true => Err(moved_meanwhile()),
            false => Ok(Some(found)),
        }
    }

    async fn merge(
        &self,
        base: &LandingBase,
        job: &Job,
        workspace: Option<&Workspace>,
    ) -> Result<MergedJob> {
        let from = start_of(base, job, workspace);
        // The guard keeps this snapshot from garbage collection, because a
        // refresh may move the base of the workspace away from it during the
        // merge.
        let (_held, from) = base.repository.hold(from).await?;
        let theirs = &*job.theirs.snapshot;
        let taken = StateTree::at(&base.repository, theirs);
        // Files with conflict markers of a refresh must not land. They are
        // merged as unchanged, and reported as refused below.
        let standing = Standing::of(&taken, &job.unsettled).await?;
        let kept = standing.without_marked(&base.repository, &from, theirs);
        let kept = kept.await?;
        let theirs = match &kept {
            Some(kept) => &*kept.snapshot,
            None => theirs,
        };
        let precedence = ByPriority {
            catalog: &*self.catalog,
            project: &base.project,
            policy: &base.policy,
            theirs: base.policy.priority(job.agent.as_deref()),
        };
        let policy = self.projects.policy_for(&base.project, job.kind).await?;
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
            theirs,
        };
        let mut merge = merge_trees(&sides, &rules, &self.drivers, &limits).await?;
        standing.refuse(&mut merge);
        Ok(MergedJob {
            merge,
            settled: standing.settled,
            kept,
        })
    }

    /// Merges a job into `base`, and computes the step that lands the result.
    /// Fails if no part of the job may land.
    pub(crate) async fn prepare(&self, base: &LandingBase, job: &Job) -> Result<Prepared> {
        let open = self.open_reviews(base.project.tenant, job.workspace.as_ref());
        let (workspace, open) = tokio::try_join!(self.workspace_of(base, job), open)?;
        let MergedJob {
            merge,
            settled,
            kept,
        } = self.merge(base, job, workspace.as_ref()).await?;
        check(base, job, &merge)?;
        let mut commits = Vec::new();
        // A job without changes adds no snapshot: the head does not move.
        let snapshot = if merge.landed.is_empty() {
            base.head
        } else {
            let (snapshot, commit) = merge.tree.staged(head_info(base, job)).await?;
            let tree = merge.tree.clone();
            commits.push(Staged { commit, tree });
            snapshot
        };
        let start = start_of(base, job, workspace.as_ref());
        let plan = ReviewPlan::of(review_inputs(base, job, start), open, &merge);
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
        let mut reviews = plan.changes;
        if let Some(decision) = &job.decides {
            reviews.push(self.decided(decision, base, &merge).await?);
        }
        // The step of a decision names the workspace of the review only if it
        // moves the base of that workspace. Then the transaction fails if
        // another request has moved the base first.
        let decided = job.decides.as_ref();
        let decided = decided.and_then(|decision| decision.review.workspace.clone());
        let decided = decided.filter(|_| moved.is_some());
        let step = Step {
            workspace: job.workspace.clone().or(decided),
            snapshot,
            reviews,
            opens: plan.opens,
            base: moved,
            ..step_of(job, &merge)
        };
        Ok(Prepared {
            step,
            merge,
            reviews: plan.by_path,
            commits,
            _kept: kept,
        })
    }

    /// Returns the open reviews of a workspace, by path.
    pub(crate) async fn open_reviews(
        &self,
        tenant: TenantId,
        workspace: Option<&WorkspaceId>,
    ) -> Result<HashMap<TreePath, Review>> {
        let mut open = HashMap::new();
        let Some(workspace) = workspace else {
            return Ok(open);
        };
        let mut after = None;
        loop {
            let page = self
                .catalog
                .open_reviews_of(tenant, workspace, after.as_ref(), elevo_catalog::MAX_PAGE)
                .await?;
            after = page.last().map(|review| review.path.clone());
            let is_last = page.len() < elevo_catalog::MAX_PAGE as usize;
            open.extend(page.into_iter().map(|review| (review.path.clone(), review)));
            if is_last {
                return Ok(open);
            }
        }
    }
}

/// Fails if no part of a merged job may land.
fn check(base: &LandingBase, job: &Job, merge: &TreeMerge) -> Result<()> {
    if job.last && merge.refused.iter().any(is_marked) {
        return Err(out::unfinished(merge));
    }
    if job.atomic && !(merge.conflicts.is_empty() && merge.refused.is_empty()) {
        let view = base.policy.for_agent(job.rights.as_deref());
        return Err(out::not_atomic(&view, merge, base.head, &job.theirs.id));
    }
    if merge.conflicts.len() >= elevo_catalog::MAX_REVIEWS {
        let message = format!(
            "the merge has {} conflicts, which is too many for one landing; land the change in \
             parts, or base it on the current head",
            merge.conflicts.len()
        );
        let failure = Failure::new(ErrorCode::TooManyChanges, message);
        return Err(failure.about("limit", elevo_catalog::MAX_REVIEWS));
    }
    // A refused change does not land. Without this check, the review would be
    // closed as if it had.
    if let (Some(_), Some(refused)) = (&job.decides, merge.refused.first()) {
        let failure = Failure::new(ErrorCode::PolicyRefused, refused.why.to_string());
        return Err(failure.remediation(refused.why.remedy()));
    }
    Ok(())
}

/// Returns a step with the fields that depend only on the job and its merge. The
/// caller sets the snapshot, the workspace, the reviews and the base.
fn step_of(job: &Job, merge: &TreeMerge) -> Step {
    Step {
        kind: job.kind,
        snapshot: job.theirs.id,
        agent: job.agent.clone(),
        workspace: None,
        key: job.key.clone(),
        message: job.message.clone(),
        request: job.request.clone(),
        counts: json!({
            "landed": merge.landed.len(), "held": merge.conflicts.len(),
            "refused": merge.refused.len(), "local": merge.local,
            "decided": job.decides.as_ref().map(Decision::for_log),
        }),
        changes: merge.landed.iter().map(out::path_change).collect(),
        reviews: Vec::new(),
        opens: Vec::new(),
        base: None,
    }
}

/// Returns the move of a workspace's base to the state that the workspace and
/// the head have in common after the merge. The next merge starts from there.
async fn base_move(
    base: &LandingBase,
    job: &Job,
    row: &Workspace,
    merge: &TreeMerge,
    commits: &mut Vec<Staged>,
) -> Result<BaseMove> {
    Ok(BaseMove {
        expected: row.base,
        base: agreed(base, job, row, merge, commits).await?,
        // A merge does not change the files of the workspace, so the version
        // that it was last refreshed to stays.
        synced: row.synced,
        settled: Vec::new(),
    })
}

/// Returns the snapshot that a workspace and the head have in common after a
/// merge. Adds its commit to `commits` if the snapshot is new.
async fn agreed(
    base: &LandingBase,
    job: &Job,
    row: &Workspace,
    merge: &TreeMerge,
    commits: &mut Vec<Staged>,
) -> Result<SnapshotId> {
    // Everything landed: the files of the workspace are the common state.
    if merge.is_complete() {
        return Ok(job.theirs.id);
    }
    let before = base.repository.snapshot(row.base).await?;
    if merge.agreed.tree().await? == before.tree {
        return Ok(row.base);
    }
    let (id, commit) = merge.agreed.staged(agreed_info(base, &row.id)).await?;
    let tree = merge.agreed.clone();
    commits.push(Staged { commit, tree });
    Ok(id)
}

/// Returns true if a file was refused because it has conflict markers.
fn is_marked(refused: &Refused) -> bool {
    matches!(refused.why, RefusalReason::Markers(_))
}

/// Returns the failure of a job whose workspace was merged or refreshed after the
/// snapshot of the job was created.
fn moved_meanwhile() -> Failure {
    let message = "another request merged or refreshed the workspace at the same time; retry";
    Failure::new(ErrorCode::WorkspaceBusy, message).retry_after(1)
}

fn agreed_info(base: &LandingBase, workspace: &str) -> CommitInfo {
    CommitInfo {
        parents: Vec::new(),
        author: "elevo".into(),
        message: format!("common state of {workspace} and the project"),
        created: clock::now(),
        labels: BTreeMap::from([(SHARED.to_owned(), base.project.id.to_string())]),
        reference: None,
    }
}

/// Returns the snapshot that the change of a job started from.
fn start_of(base: &LandingBase, job: &Job, workspace: Option<&Workspace>) -> SnapshotId {
    let given = job.base.as_ref().map(|kept| kept.id);
    given.or(workspace.map(|row| row.base)).unwrap_or(base.head)
}

fn review_inputs<'a>(base: &'a LandingBase, job: &'a Job, start: SnapshotId) -> ReviewInputs<'a> {
    ReviewInputs {
        project: &base.project,
        workspace: job.workspace.as_ref(),
        agent: job.agent.as_ref(),
        decides: job.decides.is_some(),
        message: &job.message,
        base: start,
        ours: base.head,
        theirs: job.theirs.id,
    }
}

fn head_info(base: &LandingBase, job: &Job) -> CommitInfo {
    let mut labels = BTreeMap::new();
    labels.insert(SHARED.to_owned(), base.project.id.to_string());
    labels.insert("kind".to_owned(), job.kind.to_string());
    CommitInfo {
        parents: vec![base.head],
        author: job.agent.as_deref().unwrap_or(&job.key).to_owned(),
        message: job.message.clone(),
        created: clock::now(),
        labels,
        reference: None,
    }
}
