//! Creates workspaces on projects: for agents outside sandboxes, and rows for
//! sandboxes.

use crate::app::access::names::check_name;
use crate::app::access::principal::Principal;
use crate::app::requests::once::Once;
use crate::app::sandboxes::spec;
use crate::app::snapshots::Kept;
use crate::app::workspaces::Workspaces;
use crate::failure::{Failure, Result, short};
use crate::platform::{clock, owners};
use elevo_api as api;
use elevo_api::Scope;
use elevo_catalog::{Workspace, WorkspaceFiles, WorkspaceState};
use elevo_core::{AgentId, ErrorCode, WorkspaceId};
use elevo_engine::Progress;
use elevo_workspace::Owner;
use std::path::PathBuf;
use std::sync::Arc;

/// The row of a workspace that is about to be created.
#[derive(Clone, Debug)]
pub(crate) struct NewWorkspace {
    pub(crate) row: Workspace,
    /// Keeps the base and the version of the project from garbage collection
    /// until the catalog has the row.
    _kept: [Kept; 2],
}

fn check_sync(sync: api::Sync) -> Result<api::Sync> {
    match sync.seconds {
        Some(0) => Err(Failure::invalid("`sync.seconds` must be at least 1")),
        Some(3601..) => Err(Failure::invalid("`sync.seconds` must be at most 3600")),
        _ => Ok(sync),
    }
}

/// Rejects a request that sets an owner for a workspace that cannot have one.
fn check_owned(row: &Workspace) -> Result<()> {
    if !rustix::process::geteuid().is_root() {
        let message = "`owner` needs a server that runs as root";
        return Err(Failure::new(ErrorCode::ResourceRefused, message));
    }
    match row.read_only {
        true => Err(Failure::invalid(
            "a read-only workspace is shared and cannot have an `owner`",
        )),
        false => Ok(()),
    }
}

impl Workspaces {
    /// Creates a workspace for an agent that does not run in a sandbox.
    pub(crate) async fn create(
        self: &Arc<Self>,
        who: &Principal,
        wish: api::CreateWorkspace,
        once: Once,
    ) -> Result<api::Workspace> {
        who.needs(Scope::ProjectsWrite)?;
        if let Some(name) = &wish.name {
            check_name(name)?;
        }
        let (app, who, tenant) = (self.clone(), who.clone(), who.tenant);
        // A separate task, so that the creation is completed even if the
        // client disconnects.
        let creating = async move { app.create_once(&who, wish, &once).await };
        let creating = self.stores.spawn(tenant, creating);
        creating.await.map_err(|error| Failure::internal(&error))?
    }

    async fn create_once(
        &self,
        who: &Principal,
        wish: api::CreateWorkspace,
        once: &Once,
    ) -> Result<api::Workspace> {
        let limit =
            spec::workspace_disk(&self.config, wish.disk.as_deref(), self.stores.can_limit())?;
        let id = once.id();
        if once.is_again()
            && let Some(row) = self.catalog.workspace(who.tenant, &id).await?
        {
            self.check_here(&row)?;
            if self.has_directory(&row).await? {
                return self.out(&row).await;
            }
            // The earlier attempt was interrupted after it had added the row.
            self.forget_workspace(&row).await?;
        }
        let owner = wish.owner.as_deref().map(owners::find).transpose()?;
        let new = self.new_row(who, &wish, id).await?;
        if owner.is_some() {
            check_owned(&new.row)?;
        }
        self.catalog.add_workspace(&new.row).await?;
        let row = new.row;
        let made = self.make_directory(&row, limit, owner).await;
        if let Err(failure) = made {
            self.forget_workspace(&row).await?;
            return Err(failure);
        }
        self.out(&row).await
    }

    /// Returns true if a workspace has its directory and is not being deleted.
    pub(super) async fn has_directory(&self, row: &Workspace) -> Result<bool> {
        let id = row.id.clone();
        let found = self
            .stores
            .with(row.tenant, move |workspaces| match workspaces.get(&id) {
                Err(elevo_workspace::Error::NotFound(_)) => Ok(false),
                found => Ok(found.map(|_| true)?),
            });
        Ok(row.state != WorkspaceState::Removing && found.await?)
    }

    /// Builds the row of a new workspace on a project. The base of the workspace is
    /// the part of a version that its agent may see. The default version is the
    /// head.
    pub(crate) async fn new_row(
        &self,
        who: &Principal,
        wish: &api::CreateWorkspace,
        id: WorkspaceId,
    ) -> Result<NewWorkspace> {
        let agent = self.agent_for(who, wish.agent.as_deref()).await?;
        let project = self
            .projects
            .find(who, &wish.project.as_str().into())
            .await?;
        let synced = self
            .projects
            .version(&project, wish.snapshot.as_deref())
            .await?;
        let view = self
            .projects
            .compiled_policy(&project)
            .await?
            .for_agent(agent.as_deref());
        let base = self.projects.visible_part(who, &synced, &view).await?;
        let now = clock::now();
        let read_only = wish.read_only || view.is_read_only();
        let sync = serde_json::to_value(check_sync(wish.sync)?);
        let row = Workspace {
            id,
            tenant: who.tenant,
            project: Some(project.id.clone()),
            agent,
            key: who.key.clone(),
            name: wish.name.clone(),
            base: base.id,
            synced: synced.id,
            merges: 0,
            sync: sync.map_err(|error| Failure::internal(&error))?,
            read_only,
            follows: read_only && wish.sync.mode != api::SyncMode::Manual,
            state: WorkspaceState::Live,
            node: self.node,
            generation: 1,
            files: WorkspaceFiles::default(),
            last_merge: None,
            expires: None,
            created: now,
            updated: now,
        };
        let _kept = [synced, base];
        Ok(NewWorkspace { row, _kept })
    }

    /// Returns the agent of a new workspace: the requested one, or that of the
    /// key.
    async fn agent_for(&self, who: &Principal, wanted: Option<&str>) -> Result<Option<AgentId>> {
        match (&who.agent, wanted) {
            (bound, None) => Ok(bound.clone()),
            (bound, Some(wanted)) => match self.names.agent(who, wanted).await {
                Err(_) if bound.is_some() => {
                    let message = "this key is bound to another agent";
                    Err(Failure::new(ErrorCode::Forbidden, message).about("agent", short(wanted)))
                }
                found => Ok(Some(found?.id)),
            },
        }
    }

    /// Creates the directory of a workspace with the files of its base.
    async fn make_directory(
        &self,
        row: &Workspace,
        limit: Option<u64>,
        owner: Option<Owner>,
    ) -> Result<PathBuf> {
        let id = row.id.clone();
        let (base, created, read_only) = (row.base, row.created, row.read_only);
        let made = self.stores.with(row.tenant, move |workspaces| {
            let progress = Progress::new();
            Ok(match (read_only, owner) {
                (true, _) => workspaces.create_read_only(&id, base, created, limit, &progress)?,
                (false, None) => workspaces.create(&id, base, created, limit, &progress)?,
                (false, Some(owner)) => {
                    workspaces.create_owned(&id, base, created, limit, owner, &progress)?
                }
            })
        });
        made.await
    }

    /// Adds the row of a sandbox's workspace. The workspace gets the name of the
    /// sandbox unless another workspace of the project has the name.
    pub(crate) async fn add_named(&self, row: &Workspace) -> elevo_catalog::Result<()> {
        match self.catalog.add_workspace(row).await {
            Err(elevo_catalog::Error::NameTaken { .. }) => {
                let nameless = Workspace {
                    name: None,
                    ..row.clone()
                };
                self.catalog.add_workspace(&nameless).await
            }
            added => added,
        }
    }
}
