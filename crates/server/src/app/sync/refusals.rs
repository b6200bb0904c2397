//! Changes that an automatic merge refuses.
//!
//! An automatic merge has no client that reads its response, so an event reports
//! the refused changes. The files stay in the workspace. Another merge would have
//! the same result until the files, the head or the policy change.

use elevo_api as api;
use elevo_catalog::{EventKind, NewEvent, Workspace};
use elevo_objects::{SnapshotId, Tree};
use serde_json::{Value, json};

use crate::app::sync::Syncing;
use crate::failure::Result;
use crate::platform::clock;

/// Maximum bytes of the refused paths in an event, as JSON.
const LISTED_BYTES: usize = 8 << 10;

/// The values that determine the result of a merge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Inputs {
    pub(crate) files: Tree,
    base: SnapshotId,
    head: SnapshotId,
    policy_version: u64,
}

/// The last automatic merge of a workspace.
#[derive(Debug, Default)]
pub(crate) struct Attempts {
    /// The inputs of a merge that would follow the last one directly; `None` if
    /// they are unknown.
    last: Option<Inputs>,
    /// The paths that the last merge refused.
    refused: Vec<String>,
}

impl Attempts {
    /// Returns true if a merge of these inputs would have the same result as the
    /// last one.
    pub(crate) fn is_known(&self, inputs: &Inputs) -> bool {
        self.last.as_ref() == Some(inputs)
    }
}

impl Syncing {
    pub(crate) async fn inputs(&self, row: &Workspace, files: Tree) -> Result<Inputs> {
        let project = self.projects.of_workspace(row).await?;
        Ok(Inputs {
            files,
            base: row.base,
            head: project.head,
            policy_version: project.policy_version,
        })
    }

    /// Records the result of an automatic merge in `attempts`. Records an event
    /// if the merge refused other paths than the last one.
    pub(crate) async fn note_attempt(
        &self,
        row: &Workspace,
        attempts: &mut Attempts,
        result: &api::MergeResult,
    ) -> Result<()> {
        attempts.last = self.left_by(row, result).await?;
        let paths = result.refused.iter().map(|refused| refused.path.clone());
        let paths: Vec<_> = paths.collect();
        if !paths.is_empty() && paths != attempts.refused {
            self.catalog.add_event(&refused_event(row, result)).await?;
        }
        attempts.refused = paths;
        Ok(())
    }

    /// Returns the inputs after a merge: the files that it read, and the current
    /// base, head and policy.
    async fn left_by(&self, row: &Workspace, result: &api::MergeResult) -> Result<Option<Inputs>> {
        let Ok(taken) = result.snapshot.parse() else {
            return Ok(None);
        };
        let taken = self.stores.repository(row.tenant).snapshot(taken).await?;
        match self.catalog.workspace(row.tenant, &row.id).await? {
            Some(row) => self.inputs(&row, taken.tree).await.map(Some),
            None => Ok(None),
        }
    }
}

fn refused_event(row: &Workspace, result: &api::MergeResult) -> NewEvent {
    let project = row.project.as_deref().unwrap_or_default();
    NewEvent {
        tenant: row.tenant,
        agent: row.agent.clone(),
        kind: EventKind::WorkspaceRefused,
        at: clock::now(),
        data: json!({
            "project": project,
            "workspace": row.id,
            "refusedCount": result.refused_count,
            "refused": listed(&result.refused),
        }),
        subject: project.to_owned(),
    }
}

/// Returns the first refused paths that fit into [`LISTED_BYTES`].
fn listed(refused: &[api::FileRefused]) -> Vec<Value> {
    let mut room = LISTED_BYTES;
    let values = refused.iter().map(|one| json!(one));
    let fitting = values.take_while(|value| {
        let size = value.to_string().len();
        let fits = size <= room;
        room = room.saturating_sub(size);
        fits
    });
    fitting.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_lists_as_much_as_it_has_room_for() {
        let refused = |path: String| api::FileRefused {
            path,
            reason: "no".into(),
        };
        let few: Vec<_> = (0..3).map(|n| refused(format!("{n}"))).collect();
        assert_eq!(listed(&few).len(), 3);
        let many: Vec<_> = (0..1000).map(|n| refused(format!("{n:0100}"))).collect();
        let fitting = listed(&many);
        assert!((10..1000).contains(&fitting.len()), "{}", fitting.len());
        let size: usize = fitting.iter().map(|value| value.to_string().len()).sum();
        assert!(size <= LISTED_BYTES, "{size}");
    }
}
