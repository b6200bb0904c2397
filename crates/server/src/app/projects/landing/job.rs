//! Changes that wait to land, and their results.

use std::collections::HashMap;

use elevo_api as api;
use elevo_catalog::{LandingKind, Review, ReviewChange, Unsettled};
use elevo_core::TreePath;
use elevo_merge::TreeMerge;
use elevo_objects::SnapshotId;
use elevo_policy::Strategy;
use serde_json::json;
use tokio::sync::oneshot;

use crate::app::access::principal::Principal;
use crate::app::snapshots::Kept;
use crate::failure::Result;

/// A change to merge into a project's head.
#[derive(Clone, Debug)]
pub(crate) struct Job {
    pub(crate) kind: LandingKind,
    /// The snapshot that the change started from, if it is not the workspace's
    /// base.
    pub(crate) base: Option<Kept>,
    /// The base of the workspace when `theirs` was taken: the change is the
    /// difference between the two. The landing fails if the base has moved
    /// since.
    pub(crate) expected: Option<SnapshotId>,
    /// Conflicts that refreshes left to the workspace.
    pub(crate) unsettled: Vec<Unsettled>,
    /// Whether this is the last merge of the workspace before its deletion.
    pub(crate) last: bool,
    /// The changed files.
    pub(crate) theirs: Kept,
    /// The workspace whose base moves.
    pub(crate) workspace: Option<String>,
    /// The agent that the step is attributed to.
    pub(crate) agent: Option<String>,
    /// The agent whose rights apply; `None` means no limits.
    pub(crate) rights: Option<String>,
    pub(crate) key: String,
    pub(crate) message: String,
    /// The name of the request, so that a retry does not land twice.
    pub(crate) request: Option<String>,
    pub(crate) strategy: Option<Strategy>,
    pub(crate) renames: bool,
    pub(crate) atomic: bool,
    /// The review that the job decides.
    pub(crate) decides: Option<Decision>,
}

impl Job {
    /// Creates a job of a principal, which changes no workspace.
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

/// A decision on a review.
#[derive(Clone, Debug)]
pub(crate) struct Decision {
    pub(crate) review: Review,
    pub(crate) change: ReviewChange,
}

impl Decision {
    /// The record for the log, read back as `api::Decided`.
    pub(crate) fn for_log(&self) -> serde_json::Value {
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
pub(crate) struct Done {
    pub(crate) head: SnapshotId,
    pub(crate) sequence: Option<u64>,
    pub(crate) merge: Option<TreeMerge>,
    /// The review of each held path.
    pub(crate) reviews: HashMap<TreePath, String>,
}

/// A job, and the channel for its result.
#[derive(Debug)]
pub(crate) struct Waiting {
    pub(crate) job: Job,
    pub(crate) answer: oneshot::Sender<Result<Done>>,
}
