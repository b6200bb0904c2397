//! Merges of workspaces, and reviews for changes that cannot land.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use elevo_api as api;
use elevo_api::Scope;
use elevo_catalog::{
    LandingKind, Project, Review, ReviewChange, ReviewState, ReviewStep, Sides, Workspace,
};
use elevo_core::{ErrorCode, TreePath};
use elevo_merge::{Conflict, TreeMerge};
use elevo_objects::SnapshotId;
use elevo_policy::Strategy;

use super::landing::{Done, Job};
use super::out;
use super::repeated::Completing;
use tracing::Instrument;

use crate::app::kept::Kept;
use crate::app::{App, Once, Principal};
use crate::clock;
use crate::failure::{Failure, Result};
use crate::trace::step;

/// Time in which a review must be decided.
const REVIEW_TIME: Duration = Duration::from_secs(30 * 24 * 3600);

/// Maximum attempts of a merge while the base of the workspace keeps moving.
const ATTEMPTS: usize = 5;

/// The inputs of a merge that opens reviews.
#[derive(Clone, Copy, Debug)]
pub(super) struct Held<'a> {
    pub(super) project: &'a Project,
    pub(super) workspace: Option<&'a str>,
    pub(super) agent: Option<&'a str>,
    /// Whether the merge decides a review, which then stays open.
    pub(super) decides: bool,
    pub(super) message: &'a str,
    pub(super) base: SnapshotId,
    pub(super) ours: SnapshotId,
    pub(super) theirs: SnapshotId,
}

/// The reviews of a merge.
#[derive(Debug, Default)]
pub(super) struct Reviewed {
    pub(super) opens: Vec<Review>,
    pub(super) changes: Vec<ReviewStep>,
    pub(super) by_path: HashMap<TreePath, String>,
}

impl Reviewed {
    /// Opens a review for every conflict. A review that is open for the same
    /// path of the same workspace stays if its sides are the same, and is
    /// superseded otherwise. A review whose path no longer conflicts is
    /// superseded without a successor.
    pub(super) fn of(
        held: Held<'_>,
        mut open: HashMap<TreePath, Review>,
        merge: &TreeMerge,
    ) -> Self {
        let mut reviewed = Self::default();
        if held.decides {
            return reviewed;
        }
        for conflict in &merge.conflicts {
            let sides = Sides {
                base: conflict.base.clone(),
                ours: conflict.ours.clone(),
                theirs: conflict.theirs.clone(),
                base_snapshot: held.base,
                ours_snapshot: held.ours,
                theirs_snapshot: held.theirs,
            };
            let before = open.remove(&conflict.path);
            if let Some(before) = before.as_ref().filter(|before| same(&before.sides, &sides)) {
                let path = conflict.path.clone();
                reviewed.by_path.insert(path, before.id.clone());
                continue;
            }
            let review = new_review(held, conflict, sides);
            reviewed
                .changes
                .extend(before.map(|before| superseded(before, Some(&review.id))));
            let path = conflict.path.clone();
            reviewed.by_path.insert(path, review.id.clone());
            reviewed.opens.push(review);
        }
        let obsolete = open.into_values().map(|review| superseded(review, None));
        reviewed.changes.extend(obsolete);
        reviewed
    }
}

fn same(one: &Sides, other: &Sides) -> bool {
    (&one.base, &one.ours, &one.theirs) == (&other.base, &other.ours, &other.theirs)
}

/// Returns the open reviews that a merge would leave unchanged, by path.
fn under_review(
    mut open: HashMap<TreePath, Review>,
    merge: &TreeMerge,
) -> HashMap<TreePath, String> {
    let conflicts = merge.conflicts.iter();
    let reviewed = conflicts.filter_map(|conflict| {
        let review = open.remove(&conflict.path)?;
        let Sides {
            base, ours, theirs, ..
        } = &review.sides;
        let is_same = (base, ours, theirs) == (&conflict.base, &conflict.ours, &conflict.theirs);
        is_same.then(|| (conflict.path.clone(), review.id))
    });
    reviewed.collect()
}

fn superseded(review: Review, by: Option<&str>) -> ReviewStep {
    ReviewStep {
        id: review.id,
        change: ReviewChange {
            successor: by.map(str::to_owned),
            ..ReviewChange::new(ReviewState::Open, ReviewState::Superseded)
        },
    }
}

fn new_review(held: Held<'_>, conflict: &Conflict, sides: Sides) -> Review {
    let now = clock::now();
    Review {
        id: clock::id("rev-"),
        tenant: held.project.tenant,
        project: held.project.id.clone(),
        workspace: held.workspace.map(str::to_owned),
        agent: held.agent.map(str::to_owned),
        path: conflict.path.clone(),
        kind: conflict.kind.name().to_owned(),
        sides,
        algorithm: conflict.algorithm.to_owned(),
        state: ReviewState::Open,
        detail: out::with_message(
            out::detail(
                conflict.from.as_ref(),
                &conflict.hunks,
                out::suggestion(&conflict.suggestion),
                conflict.reason,
            ),
            held.message,
        ),
        created: now,
        expires: Some(clock::after(now, REVIEW_TIME)),
        closed: None,
        closed_by: None,
        resolution: None,
        successor: None,
        reopened: 0,
    }
}

impl App {
    /// Returns the open reviews of a workspace, by path.
    pub(super) async fn open_reviews(
        &self,
        workspace: Option<&str>,
    ) -> Result<HashMap<TreePath, Review>> {
        let mut open = HashMap::new();
        let Some(workspace) = workspace else {
            return Ok(open);
        };
        let mut after = None;
        loop {
            let page = self
                .catalog
                .open_reviews_of(workspace, after.as_ref(), elevo_catalog::MAX_PAGE)
                .await?;
            after = page.last().map(|review| review.path.clone());
            let is_last = page.len() < elevo_catalog::MAX_PAGE as usize;
            open.extend(page.into_iter().map(|review| (review.path.clone(), review)));
            if is_last {
                return Ok(open);
            }
        }
    }

    /// Lands the changes of a workspace.
    pub(crate) async fn merge_workspace(
        self: &Arc<Self>,
        who: &Principal,
        id: &str,
        wish: api::Merge,
        once: Once,
    ) -> Result<api::MergeResult> {
        who.needs(Scope::ProjectsWrite)?;
        let row = self.visible_workspace(who, id).await?;
        if wish.dry_run {
            once.rehearsed();
        } else if once.is_again() {
            let project = self.project_of_row(&row).await?;
            // An earlier attempt may have landed without storing its response.
            if let Some(done) = self.landed_before(&project, &once).await? {
                return Ok(done);
            }
        }
        self.merge_row(who, &row, &wish, once.landing(), false)
            .await
    }

    pub(super) async fn merge_row(
        self: &Arc<Self>,
        who: &Principal,
        row: &Workspace,
        wish: &api::Merge,
        request: Option<String>,
        last: bool,
    ) -> Result<api::MergeResult> {
        let project = self.project_of_row(row).await?;
        if row.read_only {
            let message = "the workspace is read-only and has nothing to merge";
            return Err(Failure::new(ErrorCode::WorkspaceReadOnly, message));
        }
        self.check_override(&project, wish.strategy).await?;
        let may_decide = who.may_decide(row.agent.as_deref());
        let mut attempts = 1..ATTEMPTS;
        loop {
            let taken = self.take(who, row).await?;
            let job = Job {
                kind: LandingKind::Merge,
                expected: Some(taken.base),
                unsettled: taken.unsettled,
                last,
                workspace: Some(row.id.clone()),
                agent: row.agent.clone(),
                rights: row.agent.clone(),
                ..job(who, wish, taken.snapshot, request.clone())
            };
            match self.settle(&project, job, wish.dry_run).await {
                // The base has moved, so the files have to be read again.
                Err(failure) if failure.code == ErrorCode::WorkspaceBusy => {
                    attempts.next().ok_or(failure)?;
                }
                done => {
                    let merged = done?;
                    return Ok(api::MergeResult {
                        may_decide,
                        ..merged
                    });
                }
            }
        }
    }

    /// Lands a job, or only computes the result.
    pub(super) async fn settle(
        self: &Arc<Self>,
        project: &Project,
        job: Job,
        dry_run: bool,
    ) -> Result<api::MergeResult> {
        let theirs = job.theirs.id;
        let view = self.policy_of(project).await?;
        let view = view.for_agent(job.rights.as_deref());
        if dry_run {
            let (head, merge) = self.rehearse(project, &job).await?;
            let open = self.open_reviews(job.workspace.as_deref()).await?;
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
        crate::metrics::merged(started.elapsed());
        Ok(out::merge_result(project, &view, &done, theirs, false))
    }

    /// Merges a workspace for the last time, and deletes it.
    pub(crate) async fn complete_workspace(
        self: &Arc<Self>,
        who: &Principal,
        id: &str,
        wish: api::Merge,
        once: Once,
    ) -> Result<api::MergeResult> {
        who.needs(Scope::ProjectsWrite)?;
        if let Some(done) = self.completed_before(who, id, &wish, &once).await? {
            return Ok(done);
        }
        let row = self.visible_workspace(who, id).await?;
        self.not_in_a_sandbox(&row).await?;
        let project = self.project_of_row(&row).await?;
        match wish.dry_run {
            true => once.rehearsed(),
            // Recorded before the merge: a retry may find the workspace
            // deleted, and needs the project to look up the result.
            false => once.note(&Completing::new(&project, &row)).await?,
        }
        let result = match row.read_only {
            true => out::nothing(&project, row.base),
            false => {
                self.merge_row(who, &row, &wish, once.landing(), true)
                    .await?
            }
        };
        if !result.dry_run {
            self.remove_completed(&row, &result).await?;
        }
        Ok(result)
    }

    /// Deletes a workspace after its last merge. A workspace with refused
    /// changes stays: they exist nowhere else.
    pub(super) async fn remove_completed(
        &self,
        row: &Workspace,
        result: &api::MergeResult,
    ) -> Result<()> {
        match result.refused_count {
            0 => self.forget_workspace(row).await,
            _ => Ok(()),
        }
    }

    pub(super) async fn check_override(
        &self,
        project: &Project,
        strategy: Option<Strategy>,
    ) -> Result<()> {
        let Some(strategy) = strategy else {
            return Ok(());
        };
        match self.policy_of(project).await?.allows_override(strategy) {
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

/// Creates a job of this principal.
pub(super) fn job(
    who: &Principal,
    wish: &api::Merge,
    theirs: Kept,
    request: Option<String>,
) -> Job {
    Job {
        kind: LandingKind::Apply,
        base: None,
        expected: None,
        unsettled: Vec::new(),
        last: false,
        theirs,
        workspace: None,
        agent: who.agent.clone(),
        rights: who.agent.clone(),
        key: who.key.clone(),
        message: wish.message.clone(),
        request,
        strategy: wish.strategy,
        renames: wish.renames,
        atomic: wish.atomic,
        decides: None,
    }
}
