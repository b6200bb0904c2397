//! Changes of sandboxes, workspaces and reviews, and which of them are legal.

mod review;
mod workspace;

use elevo_core::{SandboxState, Timestamp};
use serde_json::Value;

use crate::bounds;
use crate::error::{Error, Result};
use crate::records::{EventKind, Sandbox};

/// What to change in a sandbox, if it is in a state that allows it. What is
/// `None` stays as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SandboxChange {
    /// The states it may be in for this to happen; `None` is any.
    pub from: Option<Vec<SandboxState>>,
    /// The state to go to; must be one that the present one can become.
    pub to: Option<SandboxState>,
    /// Why it is in its state.
    pub reason: Option<Option<String>>,
    /// What people call it.
    pub name: Option<Option<String>>,
    /// Its container.
    pub container: Option<Option<String>>,
    /// Its workspace.
    pub workspace: Option<String>,
    /// From when on it may be removed.
    pub expires: Option<Timestamp>,
    /// Hash of its agent's token.
    pub token_hash: Option<[u8; 32]>,
    /// Whether it is being removed. There is no way back from `true`.
    pub removing: Option<bool>,
    /// Whether its workspace stays when it is removed.
    pub keep_workspace: Option<bool>,
    /// What was asked for.
    pub spec: Option<Value>,
    /// What is told of it.
    pub tells: Vec<EventKind>,
}

impl SandboxChange {
    /// The sandbox after this change, for implementations: whoever calls it
    /// holds the sandbox so that nobody else changes it meanwhile.
    pub(crate) fn apply(&self, sandbox: Sandbox, now: Timestamp) -> Result<Sandbox> {
        self.check(&sandbox)?;
        let change = self.clone();
        let fitting = |reason: String| bounds::reason(&reason).into_owned();
        let reason = change.reason.map(|reason| reason.map(fitting));
        let changed = Sandbox {
            state: change.to.unwrap_or(sandbox.state),
            reason: reason.unwrap_or(sandbox.reason),
            name: change.name.unwrap_or(sandbox.name),
            container: change.container.unwrap_or(sandbox.container),
            workspace: change.workspace.unwrap_or(sandbox.workspace),
            expires: change.expires.map_or(sandbox.expires, bounds::kept),
            token_hash: change.token_hash.unwrap_or(sandbox.token_hash),
            removing: change.removing.unwrap_or(sandbox.removing),
            keep_workspace: change.keep_workspace.unwrap_or(sandbox.keep_workspace),
            spec: change.spec.unwrap_or(sandbox.spec),
            updated: bounds::kept(now),
            ..sandbox
        };
        bounds::sandbox(&changed)?;
        Ok(changed)
    }

    fn check(&self, sandbox: &Sandbox) -> Result<()> {
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
