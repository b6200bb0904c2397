//! The workspace whose files a request reads or changes: by its own id, or by the
//! id of the sandbox that uses it.

use elevo_api::Scope;
use elevo_catalog::{Sandbox, Workspace, WorkspaceState};
use elevo_core::{ErrorCode, SandboxId, TenantId, WorkspaceId};
use tokio::sync::OwnedMutexGuard;

use crate::app::access::principal::Principal;
use crate::app::files::Files;
use crate::app::sandboxes::freezer::Frozen;
use crate::app::workspaces::parking::{HeldWorkspace, no_directory};
use crate::failure::{Failure, Result};

/// The id by which a request names a workspace.
#[derive(Clone, Debug)]
pub(crate) enum WorkspaceRef {
    /// The workspace of this sandbox.
    Sandbox(SandboxId),
    /// This workspace, with or without a sandbox.
    Workspace(WorkspaceId),
}

impl From<&SandboxId> for WorkspaceRef {
    fn from(id: &SandboxId) -> Self {
        Self::Sandbox(id.clone())
    }
}

impl From<&WorkspaceId> for WorkspaceRef {
    fn from(id: &WorkspaceId) -> Self {
        Self::Workspace(id.clone())
    }
}

/// The rights that a request needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    /// To read the workspace.
    Read,
    /// To change the workspace.
    Write,
    /// Only to transfer files, for which the caller has checked the scope.
    Transfer,
}

impl Need {
    const fn of_sandbox(self) -> Option<Scope> {
        match self {
            Self::Read => Some(Scope::SandboxesRead),
            Self::Write => Some(Scope::SandboxesWrite),
            Self::Transfer => None,
        }
    }

    const fn of_project(self) -> Option<Scope> {
        match self {
            Self::Read => Some(Scope::ProjectsRead),
            Self::Write => Some(Scope::ProjectsWrite),
            Self::Transfer => None,
        }
    }
}

/// A workspace with a directory, whose files a request reads or changes.
#[derive(Debug)]
pub(crate) struct Target {
    pub(crate) tenant: TenantId,
    pub(crate) id: WorkspaceId,
    /// The row of the workspace. A workspace of a sandbox without a project has
    /// none until it is parked.
    pub(crate) row: Option<Workspace>,
    /// The sandbox that uses the workspace.
    pub(crate) sandbox: Option<Sandbox>,
}

/// The locks of a target, held until this value is dropped.
pub(crate) struct HeldTarget {
    _sandbox: Option<OwnedMutexGuard<()>>,
    _workspace: Option<HeldWorkspace>,
}

impl Files {
    /// Finds the workspace of a request, and checks the rights of the principal.
    pub(crate) async fn target(
        &self,
        who: &Principal,
        of: &WorkspaceRef,
        need: Need,
    ) -> Result<Target> {
        match of {
            WorkspaceRef::Sandbox(id) => {
                need.of_sandbox().map_or(Ok(()), |scope| who.needs(scope))?;
                let sandbox = self.sandboxes.visible(who, id).await?;
                let id = sandbox.workspace.clone();
                Ok(Target {
                    tenant: sandbox.tenant,
                    row: self.catalog.workspace(sandbox.tenant, &id).await?,
                    sandbox: Some(sandbox),
                    id,
                })
            }
            WorkspaceRef::Workspace(id) => {
                let row = self.row(who, id, need).await?;
                if row.state == WorkspaceState::Parked {
                    return Err(no_directory(&row));
                }
                let sandbox = self.catalog.sandbox_of_workspace(row.tenant, &row.id);
                let sandbox = sandbox.await?;
                if sandbox.as_ref().is_some_and(|sandbox| sandbox.removing) {
                    let message = "the sandbox that uses the workspace is being deleted";
                    return Err(Failure::new(ErrorCode::WorkspaceBusy, message).retry_after(1));
                }
                Ok(Target {
                    tenant: row.tenant,
                    id: row.id.clone(),
                    row: Some(row),
                    sandbox,
                })
            }
        }
    }

    /// Returns the row of a workspace for a request with these needs.
    async fn row(&self, who: &Principal, id: &WorkspaceId, need: Need) -> Result<Workspace> {
        let scopes = need.of_project().into_iter().chain(need.of_sandbox());
        let scopes: Vec<_> = scopes.collect();
        if !scopes.is_empty() {
            who.needs_any(&scopes)?;
        }
        let row = self.workspaces.visible(who, id).await?;
        let scope = match row.project {
            Some(_) => need.of_project(),
            None => need.of_sandbox(),
        };
        scope.map_or(Ok(()), |scope| who.needs(scope))?;
        Ok(row)
    }

    /// Like [`Self::target`], but locks the workspace and its sandbox.
    pub(super) async fn held(
        &self,
        who: &Principal,
        of: &WorkspaceRef,
        need: Need,
    ) -> Result<(Target, HeldTarget)> {
        let held = match of {
            WorkspaceRef::Sandbox(id) => HeldTarget {
                _sandbox: Some(self.locks.hold(id).await),
                _workspace: None,
            },
            WorkspaceRef::Workspace(id) => {
                let row = self.row(who, id, need).await?;
                HeldTarget {
                    _sandbox: None,
                    _workspace: Some(self.workspaces.hold_workspace(&row).await?),
                }
            }
        };
        // The target is found after the lock is acquired, because another request
        // may have changed it before.
        Ok((self.target(who, of, need).await?, held))
    }

    /// Freezes the processes of the sandbox that uses a target.
    pub(super) fn frozen(&self, target: &Target) -> Frozen {
        match &target.sandbox {
            Some(sandbox) => self.freezer.frozen(sandbox),
            None => self.freezer.frozen_nothing(),
        }
    }
}
