//! Changes of sandboxes, workspaces and reviews, and the checks whether they are
//! legal.

mod review;
mod workspace;

use std::collections::BTreeMap;

use elevo_core::{SandboxState, Timestamp, WorkspaceId};
use serde_json::Value;

use crate::bounds;
use crate::error::{Error, Kind, Result};
use crate::nodes::NodeId;
use crate::records::{EventKind, Sandbox, SandboxFailure};

/// A change of a sandbox, which is made only if the state of the sandbox allows
/// it. Fields that are `None` stay as they are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SandboxChange {
    /// The states that the sandbox may be in; `None` for any.
    pub from: Option<Vec<SandboxState>>,
    /// The generation that the sandbox must have; `None` for any.
    pub generation: Option<u64>,
    /// The new state; the present one must be able to become it.
    pub to: Option<SandboxState>,
    /// New reason for the state.
    pub reason: Option<Option<String>>,
    /// The kind of failure, with the new state `error`. Every other change of
    /// state clears it.
    pub failure: Option<SandboxFailure>,
    /// New display name.
    pub name: Option<Option<String>>,
    /// New id of the container.
    pub container: Option<Option<String>>,
    /// New id of the workspace.
    pub workspace: Option<WorkspaceId>,
    /// Time from which it may be removed.
    pub expires: Option<Timestamp>,
    /// Hash of the token of its workspace agent.
    pub token_hash: Option<[u8; 32]>,
    /// Whether it is being removed; `true` cannot be undone.
    pub removing: Option<bool>,
    /// Whether its workspace is kept when it is removed.
    pub keep_workspace: Option<bool>,
    /// Whether it was started before.
    pub started_before: Option<bool>,
    /// New node, which also increases the generation by one.
    pub node: Option<NodeId>,
    /// New specification.
    pub spec: Option<Value>,
    /// New metadata, which replaces all present pairs.
    pub metadata: Option<BTreeMap<String, String>>,
    /// Events to record in the same transaction.
    pub tells: Vec<EventKind>,
}

impl SandboxChange {
    /// Returns the sandbox after this change. For implementations: the caller
    /// must hold a lock that prevents other changes of the sandbox.
    pub(crate) fn apply(&self, sandbox: Sandbox, now: Timestamp) -> Result<Sandbox> {
        self.check(&sandbox)?;
        let change = self.clone();
        let fitting = |reason: String| bounds::reason(&reason).into_owned();
        let reason = change.reason.map(|reason| reason.map(fitting));
        let changed = Sandbox {
            state: change.to.unwrap_or(sandbox.state),
            reason: reason.unwrap_or(sandbox.reason),
            failure: match change.to {
                Some(SandboxState::Error) => change.failure,
                Some(_) => None,
                None => sandbox.failure,
            },
            name: change.name.unwrap_or(sandbox.name),
            container: change.container.unwrap_or(sandbox.container),
            workspace: change.workspace.unwrap_or(sandbox.workspace),
            expires: change.expires.map_or(sandbox.expires, bounds::truncated),
            token_hash: change.token_hash.unwrap_or(sandbox.token_hash),
            removing: change.removing.unwrap_or(sandbox.removing),
            keep_workspace: change.keep_workspace.unwrap_or(sandbox.keep_workspace),
            started_before: change.started_before.unwrap_or(sandbox.started_before),
            node: change.node.unwrap_or(sandbox.node),
            generation: sandbox.generation + u64::from(change.node.is_some()),
            spec: change.spec.unwrap_or(sandbox.spec),
            metadata: change.metadata.unwrap_or(sandbox.metadata),
            updated: bounds::truncated(now),
            ..sandbox
        };
        bounds::sandbox(&changed)?;
        Ok(changed)
    }

    fn check(&self, sandbox: &Sandbox) -> Result<()> {
        let expected = self.generation.unwrap_or(sandbox.generation);
        if expected != sandbox.generation {
            let what = Kind::Sandbox;
            return Err(Error::Changed { what });
        }
        let is = sandbox.state;
        let is_expected = self.from.as_ref().is_none_or(|from| from.contains(&is));
        let is_legal = self.to.is_none_or(|to| is.can_become(to));
        if !is_expected || !is_legal {
            return Err(Error::WrongState { is });
        }
        let starts = matches!(
            self.to,
            Some(SandboxState::Starting | SandboxState::Running)
        );
        if sandbox.removing && (starts || self.removing == Some(false)) {
            return Err(Error::Removing);
        }
        Ok(())
    }
}
