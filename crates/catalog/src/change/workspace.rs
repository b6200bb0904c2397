use elevo_core::Timestamp;

use crate::bounds;
use crate::error::{Error, Kind, Result};
use crate::records::{BaseMove, Workspace, WorkspaceChange, WorkspaceState};

impl WorkspaceChange {
    /// Returns the workspace after this change. For implementations: the caller
    /// must hold a lock that prevents other changes of the workspace.
    pub(crate) fn apply(&self, workspace: Workspace, now: Timestamp) -> Result<Workspace> {
        let what = Kind::Workspace;
        let is = (workspace.base, workspace.merges);
        let is_expected = self.expected.is_none_or(|expected| expected == is)
            && self.from.is_none_or(|from| from == workspace.state)
            && self
                .generation
                .is_none_or(|expected| expected == workspace.generation)
            && self
                .expired_by
                .is_none_or(|now| workspace.expires.is_some_and(|expires| expires <= now));
        if !is_expected {
            return Err(Error::Changed { what });
        }
        let comes_back = self
            .state
            .is_some_and(|state| state != WorkspaceState::Removing);
        if workspace.state == WorkspaceState::Removing && comes_back {
            return Err(Error::BeingRemoved { what });
        }
        let change = self.clone();
        let changed = Workspace {
            name: change.name.unwrap_or(workspace.name),
            base: change.base.unwrap_or(workspace.base),
            synced: change.synced.unwrap_or(workspace.synced),
            sync: change.sync.unwrap_or(workspace.sync),
            read_only: change.read_only.unwrap_or(workspace.read_only),
            follows: change.follows.unwrap_or(workspace.follows),
            state: change.state.unwrap_or(workspace.state),
            node: change.node.unwrap_or(workspace.node),
            generation: workspace.generation + u64::from(change.node.is_some()),
            files: change.files.unwrap_or(workspace.files),
            expires: change
                .expires
                .map_or(workspace.expires, |expires| expires.map(bounds::truncated)),
            updated: bounds::truncated(now),
            ..workspace
        };
        bounds::workspace(&changed)?;
        Ok(changed)
    }
}

impl BaseMove {
    /// Returns the workspace after one more merge. The caller must hold the
    /// same lock as for a [`WorkspaceChange`].
    pub(crate) fn apply(&self, workspace: Workspace, now: Timestamp) -> Result<Workspace> {
        if workspace.base != self.expected {
            let what = Kind::Workspace;
            return Err(Error::Changed { what });
        }
        Ok(Workspace {
            base: self.base,
            synced: self.synced,
            merges: workspace.merges + 1,
            last_merge: Some(bounds::truncated(now)),
            updated: bounds::truncated(now),
            ..workspace
        })
    }
}
