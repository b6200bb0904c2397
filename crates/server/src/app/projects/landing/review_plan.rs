//! Computes which reviews a landing opens, supersedes and leaves open.

use std::collections::HashMap;
use std::time::Duration;

use elevo_catalog::{Project, Review, ReviewChange, ReviewState, ReviewStep, Sides};
use elevo_core::{AgentId, ReviewId, TreePath, WorkspaceId};
use elevo_merge::{Conflict, TreeMerge};
use elevo_objects::SnapshotId;

use crate::app::projects::out;
use crate::platform::clock;

/// Time after which an open review expires.
const REVIEW_TIME: Duration = Duration::from_secs(30 * 24 * 3600);

/// The merge whose conflicts become reviews.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReviewInputs<'a> {
    pub(crate) project: &'a Project,
    pub(crate) workspace: Option<&'a WorkspaceId>,
    pub(crate) agent: Option<&'a AgentId>,
    /// True if the merge carries out a decision on a review. A conflict then
    /// keeps that review open instead of opening another.
    pub(crate) decides: bool,
    pub(crate) message: &'a str,
    pub(crate) base: SnapshotId,
    pub(crate) ours: SnapshotId,
    pub(crate) theirs: SnapshotId,
}

/// The reviews that a landing opens and changes, and the review of each
/// conflict.
#[derive(Debug, Default)]
pub(crate) struct ReviewPlan {
    pub(crate) opens: Vec<Review>,
    pub(crate) changes: Vec<ReviewStep>,
    pub(crate) by_path: HashMap<TreePath, ReviewId>,
}

impl ReviewPlan {
    /// Plans one open review for every conflict. `open` has the open reviews of
    /// the workspace, by path. A review stays if the sides of its conflict are
    /// the same, and is superseded by a new one otherwise. A review whose path no
    /// longer conflicts is superseded without a successor.
    pub(crate) fn of(
        inputs: ReviewInputs<'_>,
        mut open: HashMap<TreePath, Review>,
        merge: &TreeMerge,
    ) -> Self {
        let mut plan = Self::default();
        if inputs.decides {
            return plan;
        }
        for conflict in &merge.conflicts {
            let sides = Sides {
                base: conflict.base.clone(),
                ours: conflict.ours.clone(),
                theirs: conflict.theirs.clone(),
                base_snapshot: inputs.base,
                ours_snapshot: inputs.ours,
                theirs_snapshot: inputs.theirs,
            };
            let before = open.remove(&conflict.path);
            if let Some(before) = before.as_ref().filter(|before| same(&before.sides, &sides)) {
                let path = conflict.path.clone();
                plan.by_path.insert(path, before.id.clone());
                continue;
            }
            let review = new_review(inputs, conflict, sides);
            plan.changes
                .extend(before.map(|before| superseded(before, Some(review.id.clone()))));
            let path = conflict.path.clone();
            plan.by_path.insert(path, review.id.clone());
            plan.opens.push(review);
        }
        let obsolete = open.into_values().map(|review| superseded(review, None));
        plan.changes.extend(obsolete);
        plan
    }
}

fn same(one: &Sides, other: &Sides) -> bool {
    (&one.base, &one.ours, &one.theirs) == (&other.base, &other.ours, &other.theirs)
}

/// Returns the ids of the open reviews that a landing of this merge would leave
/// unchanged, by path.
pub(crate) fn under_review(
    mut open: HashMap<TreePath, Review>,
    merge: &TreeMerge,
) -> HashMap<TreePath, ReviewId> {
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

fn superseded(review: Review, by: Option<ReviewId>) -> ReviewStep {
    ReviewStep {
        id: review.id,
        change: ReviewChange {
            successor: by,
            ..ReviewChange::new(ReviewState::Open, ReviewState::Superseded)
        },
    }
}

fn new_review(inputs: ReviewInputs<'_>, conflict: &Conflict, sides: Sides) -> Review {
    let now = clock::now();
    Review {
        id: clock::id(),
        tenant: inputs.project.tenant,
        project: inputs.project.id.clone(),
        workspace: inputs.workspace.cloned(),
        agent: inputs.agent.cloned(),
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
            inputs.message,
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
