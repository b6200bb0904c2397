//! Merges the work of a workspace into `head`.

use std::collections::{BTreeMap, BTreeSet};

use elevo_api as api;
use elevo_engine::{CommitInfo, Expected, Repository, StateTree};
use elevo_merge::{Conflict, Drivers, LaterFirst, Limits, Rules, Sides, TreeMerge, merge_trees};
use elevo_objects::{Snapshot, SnapshotId};
use elevo_policy::Policy;

use crate::local::revision::HEAD;
use crate::output::format;

/// The side whose version is taken where both sides have changed a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Take {
    /// The version of head
    Head,
    /// The version of the workspace
    Workspace,
}

/// Merges the changes from `start` to `work` into `head`. Leaves out ignored
/// files, unless head has them. Stores nothing.
pub(crate) async fn merge_work(
    repository: &Repository,
    start: &Snapshot,
    head: &Snapshot,
    work: &Snapshot,
    how: &api::Merge,
) -> anyhow::Result<TreeMerge> {
    let policy = Policy::default().compile()?;
    let rules = Rules {
        view: &policy.for_agent(None),
        policy: &policy,
        decided: false,
        careful: true,
        instead: how.strategy,
        precedence: &LaterFirst,
        unsettled: &BTreeSet::new(),
    };
    let sides = Sides {
        base: start,
        ours: &StateTree::at(repository, head),
        theirs: work,
    };
    let limits = Limits {
        renames: how.renames,
        ..Limits::default()
    };
    Ok(merge_trees(&sides, &rules, &Drivers::standard(), &limits).await?)
}

/// Resolves all conflicts of a merge with the version of one side. Returns the
/// conflicts.
pub(crate) async fn resolve(merge: &mut TreeMerge, take: Take) -> anyhow::Result<Vec<Conflict>> {
    let conflicts = std::mem::take(&mut merge.conflicts);
    for conflict in conflicts.iter().filter(|_| take == Take::Workspace) {
        match &conflict.theirs {
            Some(entry) => merge.tree.put(&conflict.path, entry.clone()).await?,
            None => match merge.tree.remove(&conflict.path).await {
                Err(elevo_engine::Error::NotFound(_)) => {}
                removed => removed?,
            },
        }
    }
    Ok(conflicts)
}

/// The new head that a merge creates.
pub(crate) fn head_info(
    head: SnapshotId,
    workspace: &str,
    author: &str,
    message: String,
) -> CommitInfo {
    let message = match message.is_empty() {
        true => format!("merge of {workspace}"),
        false => message,
    };
    CommitInfo {
        // Not the snapshot of the workspace: it contains ignored files.
        parents: vec![head],
        author: author.to_owned(),
        message,
        created: format::now(),
        labels: BTreeMap::from([("workspace".to_owned(), workspace.to_owned())]),
        reference: Some((HEAD.to_owned(), Expected::At(head))),
    }
}
