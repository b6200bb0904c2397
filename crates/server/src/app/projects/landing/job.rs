//! Jobs: changes that wait to land, and their results.

use std::collections::HashMap;

use elevo_api as api;
use elevo_catalog::{LandingKind, Review, ReviewChange, Unsettled};
use elevo_core::{AgentId, KeyId, ReviewId, TreePath, WorkspaceId};
use elevo_merge::TreeMerge;
use elevo_objects::SnapshotId;
use elevo_policy::Strategy;
use serde_json::json;
use tokio::sync::oneshot;

use crate::app::access::principal::Principal;
use crate::app::snapshots::Kept;
use crate::failure::Result;

/// A change to merge into the head of a project. The change is the difference
/// between a base and `theirs`.
#[derive(Clone, Debug)]
pub(crate) struct Job {
    pub(crate) kind: LandingKind,
    /// The snapshot that the change started from, if that is not the base of the
    /// workspace.
    pub(crate) base: Option<Kept>,
    /// The base of the workspace when the snapshot `theirs` was created. The
    /// landing fails if the base has changed since, because the difference would
    /// be wrong.
    pub(crate) expected: Option<SnapshotId>,
    /// Conflicts that refreshes of the workspace left unresolved in its files.
    pub(crate) unsettled: Vec<Unsettled>,
    /// True for the last merge of a workspace, which is deleted afterwards.
    pub(crate) last: bool,
    /// The snapshot of the project with the changed files.
    pub(crate) theirs: Kept,
    /// The workspace that the change comes from. Its base moves with the landing.
    pub(crate) workspace: Option<WorkspaceId>,
    /// The agent that the step is attributed to.
    pub(crate) agent: Option<AgentId>,
    /// The agent whose access to paths applies; `None` means access to all.
    pub(crate) rights: Option<AgentId>,
    pub(crate) key: KeyId,
    pub(crate) message: String,
    /// The name of the request in the catalog, by which a retry is detected.
    pub(crate) request: Option<String>,
    pub(crate) strategy: Option<Strategy>,
    pub(crate) renames: bool,
    pub(crate) atomic: bool,
    /// The decision on a review that the job carries out.
    pub(crate) decides: Option<Decision>,
}

impl Job {
    /// Creates a job for a principal, without a workspace.
    pub(crate) fn new(
        who: &Principal,
        wish: &api::Merge,
        theirs: Kept,
        request: Option<String>,
    ) -> Self {
        Self {
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
}

/// A review, and the change of its row by a decision.
#[derive(Clone, Debug)]
pub(crate) struct Decision {
    pub(crate) review: Review,
    pub(crate) change: ReviewChange,
}

impl Decision {
    /// Returns the record of the decision for the history. Its format must
    /// match `api::Decided`, because the history parses the record as that
    /// type.
    pub(crate) fn for_log(&self) -> serde_json::Value {
        let resolution = self.change.resolution.as_ref();
        let told = |name: &str| resolution.map(|value| value[name].clone());
        json!({
            "by": self.change.by, "name": told("name"),
            "review": self.review.id, "take": told("take"),
        })
    }
}

/// The result of a job that has landed.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) head: SnapshotId,
    pub(crate) sequence: Option<u64>,
    /// `None` if an earlier attempt of the request has landed.
    pub(crate) merge: Option<TreeMerge>,
    /// The id of the review of each path that was held back.
    pub(crate) reviews: HashMap<TreePath, ReviewId>,
}

/// The jobs of one request in the queue, and the channel for their results. All
/// of them land in one transaction, or none does.
#[derive(Debug)]
pub(crate) struct Waiting {
    pub(crate) jobs: Vec<Job>,
    pub(crate) answer: oneshot::Sender<Result<Vec<Done>>>,
}
