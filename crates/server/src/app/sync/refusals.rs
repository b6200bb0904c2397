//! Changes that an automatic merge refuses.
//!
//! No caller reads the response to such a merge, so an event reports the
//! changes that did not land. The files stay in the workspace; merging them
//! again makes no sense until the files, the project or its policy change.

use elevo_api as api;
use elevo_catalog::{EventKind, NewEvent, Workspace};
use elevo_objects::{SnapshotId, Tree};
use serde_json::{Value, json};

use crate::app::sync::Syncing;
use crate::failure::Result;
use crate::platform::clock;

/// Maximum size of the refused paths in an event, as JSON.
const LISTED_BYTES: usize = 8 << 10;

/// Everything that the result of a merge depends on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Inputs {
    pub(crate) files: Tree,
    base: SnapshotId,
    head: SnapshotId,
    policy_version: u64,
}

/// The automatic merges of a workspace so far.
#[derive(Debug, Default)]
pub(crate) struct Attempts {
    /// The inputs after the last merge, if they are known.
    last: Option<Inputs>,
    /// The paths in the last event.
    refused: Vec<String>,
}

impl Attempts {
    /// Whether a merge of these inputs would repeat the last result.
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

    /// Records the result of an automatic merge, and adds an event if it
    /// refused other paths than the last one.
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

    /// Returns the inputs after a merge: the files that it read, with the
    /// current base and head.
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
    let project = row.project.clone().unwrap_or_default();
    NewEvent {
        tenant: row.tenant,
        agent: row.agent.clone(),
        kind: EventKind::WorkspaceRefused,
        at: clock::now(),
        data: json!({
            "projectId": project,
            "workspaceId": row.id,
            "refusedCount": result.refused_count,
            "refused": listed(&result.refused),
        }),
        subject: project,
    }
}

/// The first refused paths that an event has room for.
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
