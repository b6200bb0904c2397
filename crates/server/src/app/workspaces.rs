//! Workspaces: lists and deletes them, and snapshots their files. The submodules
//! create, fork, refresh, park and resume them.

pub(crate) mod create;
pub(crate) mod forks;
pub(crate) mod hide;
pub(crate) mod parking;
pub(crate) mod pausing;
pub(crate) mod refresh;
pub(crate) mod unsettled;

use std::path::PathBuf;
use std::sync::Arc;

use elevo_api as api;
use elevo_api::Scope;
use elevo_catalog::Catalog;
use elevo_catalog::{NodeId, Workspace, WorkspaceChange, WorkspaceQuery, WorkspaceState};
use elevo_core::{ErrorCode, WorkspaceId};
use elevo_engine::Progress;
use elevo_merge::Drivers;
use elevo_workspace::Owner;

use crate::app::access::here::check_node;
use crate::app::access::names::Names;
use crate::app::access::principal::Principal;
use crate::app::missing::no_workspace;
use crate::app::pages::{self, PageQuery};
use crate::app::projects::Projects;
use crate::app::projects::project_ref::ProjectRef;
use crate::app::resources::Resources;
use crate::app::sandboxes::freezer::Freezer;
use crate::app::sandboxes::locks::SandboxLocks;
use crate::app::snapshots::{Kept, Snapshots, own_info};
use crate::app::tenant_stores::TenantStores;
use crate::app::timekeeping::Timekeeper;
use crate::config::Config;
use crate::failure::{Failure, Result};
use crate::platform::room::Room;
use crate::platform::{clock, owners};

/// Manages workspaces: those of projects, and those that outlive their sandbox.
pub(crate) struct Workspaces {
    catalog: Arc<dyn Catalog>,
    node: NodeId,
    config: Arc<Config>,
    drivers: Arc<Drivers>,
    names: Arc<Names>,
    freezer: Arc<Freezer>,
    locks: Arc<SandboxLocks>,
    room: Arc<Room>,
    stores: Arc<TenantStores>,
    time: Arc<Timekeeper>,
    projects: Arc<Projects>,
    snapshots: Arc<Snapshots>,
}

impl Workspaces {
    pub(crate) fn new(
        resources: &Resources,
        projects: &Arc<Projects>,
        snapshots: &Arc<Snapshots>,
    ) -> Self {
        Self {
            catalog: resources.catalog.clone(),
            node: resources.node.id,
            config: resources.config.clone(),
            drivers: resources.drivers.clone(),
            names: resources.names.clone(),
            freezer: resources.freezer.clone(),
            locks: resources.locks.clone(),
            projects: projects.clone(),
            room: resources.room.clone(),
            snapshots: snapshots.clone(),
            stores: resources.stores.clone(),
            time: resources.time.clone(),
        }
    }

    /// Returns a workspace that the principal may see and that is not being
    /// deleted.
    pub(crate) async fn visible(&self, who: &Principal, id: &WorkspaceId) -> Result<Workspace> {
        let found = self.catalog.workspace(who.tenant, id).await?;
        let found = found.filter(|row| {
            let same_agent = who.agent.is_none() || who.agent == row.agent;
            same_agent && row.state != WorkspaceState::Removing
        });
        found.ok_or_else(|| no_workspace(id))
    }

    /// Fails if a workspace is not on this server.
    pub(crate) fn check_here(&self, row: &Workspace) -> Result<()> {
        check_node(self.node, "workspace", &row.id, row.node)
    }

    /// Returns a workspace that the principal may change.
    async fn visible_to_write(&self, who: &Principal, id: &WorkspaceId) -> Result<Workspace> {
        who.needs_any(&[Scope::ProjectsWrite, Scope::SandboxesWrite])?;
        let row = self.visible(who, id).await?;
        who.needs(match row.project {
            Some(_) => Scope::ProjectsWrite,
            None => Scope::SandboxesWrite,
        })?;
        Ok(row)
    }

    pub(crate) async fn get(&self, who: &Principal, id: &WorkspaceId) -> Result<api::Workspace> {
        who.needs_any(&[Scope::ProjectsRead, Scope::SandboxesRead])?;
        let row = self.visible(who, id).await?;
        self.out(&row).await
    }

    pub(crate) async fn list(
        &self,
        who: &Principal,
        project: Option<&ProjectRef>,
        state: Option<api::WorkspaceState>,
        query: PageQuery,
    ) -> Result<api::WorkspacePage> {
        who.needs_any(&[Scope::ProjectsRead, Scope::SandboxesRead])?;
        let project = match project {
            Some(name) => Some(self.projects.find(who, name).await?.id),
            None => None,
        };
        let page = self
            .catalog
            .workspaces(&WorkspaceQuery {
                tenant: Some(who.tenant),
                project,
                agent: who.agent.clone(),
                state: state.map(state_in),
                node: None,
                after: query.position()?,
                limit: query.limit,
            })
            .await?;
        let next = pages::next(&page.items, query.limit, Workspace::position);
        let mut items = Vec::new();
        for row in &page.items {
            if row.state != WorkspaceState::Removing {
                items.push(self.out(row).await?);
            }
        }
        Ok(api::WorkspacePage { items, next })
    }

    pub(crate) async fn delete(&self, who: &Principal, id: &WorkspaceId) -> Result<()> {
        let row = self.visible_to_write(who, id).await?;
        self.not_in_a_sandbox(&row).await?;
        self.forget_workspace(&row).await
    }

    /// Fails if a sandbox uses the workspace.
    pub(crate) async fn not_in_a_sandbox(&self, row: &Workspace) -> Result<()> {
        let sandbox = self.catalog.sandbox_of_workspace(row.tenant, &row.id);
        match sandbox.await? {
            Some(sandbox) if !sandbox.removing => {
                let message = "a sandbox uses the workspace";
                let failure = Failure::new(ErrorCode::WorkspaceInUse, message);
                Err(failure
                    .about("sandboxId", sandbox.id.as_str())
                    .remediation("Merge the workspace, then delete the sandbox."))
            }
            _ => Ok(()),
        }
    }

    /// Marks a workspace for deletion, and deletes its directory and its row.
    pub(crate) async fn forget_workspace(&self, row: &Workspace) -> Result<()> {
        // The change fails if another request has parked or resumed the
        // workspace since `row` was read.
        let change = WorkspaceChange {
            from: Some(row.state),
            generation: Some(row.generation),
            ..WorkspaceChange::default()
        };
        match self.mark_removing(row, change).await {
            Ok(()) => self.finish_forgetting(row).await,
            Err(elevo_catalog::Error::NotFound { .. }) => Ok(()),
            Err(elevo_catalog::Error::Changed { .. }) => {
                let message =
                    "another request parked or resumed the workspace at the same time; retry";
                Err(Failure::new(ErrorCode::WorkspaceBusy, message).retry_after(1))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Marks a workspace for deletion. Fails if its row does not match the
    /// conditions in `change`.
    pub(crate) async fn mark_removing(
        &self,
        row: &Workspace,
        change: WorkspaceChange,
    ) -> elevo_catalog::Result<()> {
        let change = WorkspaceChange {
            state: Some(WorkspaceState::Removing),
            ..change
        };
        let marked = self
            .catalog
            .change_workspace(row.tenant, &row.id, &change, clock::now());
        marked.await.map(drop)
    }

    /// Deletes the directory and the row of a workspace that is marked for
    /// deletion.
    pub(crate) async fn finish_forgetting(&self, row: &Workspace) -> Result<()> {
        let id = row.id.clone();
        self.stores.remove_workspace(row.tenant, id).await?;
        self.catalog.remove_workspace(row.tenant, &row.id).await?;
        Ok(())
    }

    /// Creates a snapshot of the files of a workspace. The caller holds its lock.
    pub(crate) async fn snapshot_held(&self, who: &Principal, row: &Workspace) -> Result<Kept> {
        let sandbox = self.catalog.sandbox_of_workspace(row.tenant, &row.id);
        let frozen = match sandbox.await? {
            Some(sandbox) => self.freezer.frozen(&sandbox),
            None => self.freezer.frozen_nothing(),
        };
        let id = row.id.clone();
        let info = own_info(who, format!("merge of {}", row.id));
        let taken = self.stores.with(row.tenant, move |workspaces| {
            match workspaces.snapshot(&id, info, &frozen, &Progress::new()) {
                // The snapshot was created when the workspace was parked.
                Err(elevo_workspace::Error::Parked(_)) => Ok(workspaces.get(&id)?.base),
                taken => Ok(taken?.id),
            }
        });
        self.snapshots.keep(row.tenant, taken.await?).await
    }

    /// Returns the directory of a workspace and the owner that its creator chose;
    /// `None` if the workspace has no directory. Gives that owner access to the
    /// directories above.
    async fn place_of(&self, row: &Workspace) -> Result<Option<(PathBuf, Option<Owner>)>> {
        let id = row.id.clone();
        let (uid, gid) = self.config.sandbox_user;
        let tops = [&self.config.data_dir, &self.config.workspace_root].map(Clone::clone);
        let place = self.stores.with(row.tenant, move |workspaces| {
            let path = match workspaces.path(&id) {
                // The workspace is being created or resumed, or its creation was
                // interrupted.
                Err(elevo_workspace::Error::NotFound(_) | elevo_workspace::Error::Parked(_)) => {
                    return Ok(None);
                }
                path => path?,
            };
            let owner = workspaces.get(&id)?.owner;
            let owner = owner.filter(|owner| *owner != Owner { uid, gid });
            if let Some(owner) = owner {
                for top in tops {
                    let top = top.canonicalize().unwrap_or(top);
                    owners::let_through(&path, &top, owner.uid).map_err(|error| not_let(&error))?;
                }
            }
            Ok(Some((path, owner)))
        });
        place.await
    }

    /// Converts a workspace to its form in the API.
    pub(crate) async fn out(&self, row: &Workspace) -> Result<api::Workspace> {
        let sandbox = self.catalog.sandbox_of_workspace(row.tenant, &row.id);
        let sandbox = sandbox.await?;
        let place = match row.state {
            WorkspaceState::Live => self.place_of(row).await?,
            _ => None,
        };
        let (path, owner) = place.unzip();
        let path = path.map(|path| path.to_string_lossy().into_owned());
        let sync = serde_json::from_value(row.sync.clone());
        Ok(api::Workspace {
            id: row.id.to_string(),
            project: row.project.as_ref().map(ToString::to_string),
            agent: row.agent.as_ref().map(ToString::to_string),
            name: row.name.clone(),
            state: match row.state {
                WorkspaceState::Parked => api::WorkspaceState::Parked,
                _ => api::WorkspaceState::Live,
            },
            path,
            owner: owner.flatten().map(|owner| owner.uid),
            sandbox: sandbox.map(|sandbox| sandbox.id.to_string()),
            synced: row.synced.to_string(),
            read_only: row.read_only,
            sync: sync.map_err(|error| Failure::internal(&error))?,
            merges: row.merges,
            expires_at: row.expires.map(clock::text),
            created_at: clock::text(row.created),
            updated_at: clock::text(row.updated),
        })
    }
}

const fn state_in(state: api::WorkspaceState) -> WorkspaceState {
    match state {
        api::WorkspaceState::Live => WorkspaceState::Live,
        api::WorkspaceState::Parked => WorkspaceState::Parked,
    }
}

fn not_let(error: &std::io::Error) -> Failure {
    let message =
        "the file system of WORKSPACE_ROOT has no access control lists, which `owner` needs";
    match error.raw_os_error() == Some(rustix::io::Errno::NOTSUP.raw_os_error()) {
        true => Failure::new(ErrorCode::ResourceRefused, message),
        false => Failure::internal(error),
    }
}
