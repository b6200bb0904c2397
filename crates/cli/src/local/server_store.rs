//! The store and the workspaces of the server, for commands that it runs; see
//! `server_socket`.

use std::fs;
use std::sync::Arc;

use elevo_api as api;
use elevo_core::{ErrorCode, TenantId};
use elevo_server::Config;
use elevo_store_local::LocalStore;
use elevo_workspace::{Options as WorkspaceOptions, Owner, ProviderKind};

use crate::client::Client;
use crate::errors::FileProblem;
use crate::local::caller::{HeldStore, WorkspaceUser};
use crate::local::data_directory::{DataDirectory, RunningServer};

/// Returns the store and the workspaces of the server, which its sandboxes use
/// too.
pub(crate) fn held(
    config: &Config,
    data: &DataDirectory,
    store: Arc<LocalStore>,
    running: &RunningServer,
) -> Result<HeldStore, FileProblem> {
    let workspaces = config.workspace_root.join(TenantId::LOCAL.to_string());
    let failed = |source| FileProblem::Io {
        action: "create",
        path: workspaces.clone(),
        source,
    };
    fs::create_dir_all(&workspaces).map_err(failed)?;
    let path = data.store();
    let (running, owner) = (running.clone(), data.clone());
    Ok(HeldStore {
        path: path.canonicalize().unwrap_or(path),
        store,
        workspaces,
        options: options(config),
        used_by: Box::new(move |id| used_by(&running, &owner, id)),
    })
}

fn options(config: &Config) -> WorkspaceOptions {
    let provider: Option<ProviderKind> =
        config.provider.as_ref().and_then(|name| name.parse().ok());
    let is_root = rustix::process::geteuid().is_root();
    let is_overlay = provider.is_none_or(|kind| kind == ProviderKind::Overlay);
    let (uid, gid) = config.sandbox_user;
    WorkspaceOptions {
        threads: std::thread::available_parallelism().map_or(1, usize::from),
        provider,
        spare_layers: 10 << 30,
        pool: (is_root && is_overlay).then_some(config.pool_size),
        owner: is_root.then_some(Owner { uid, gid }),
        lazy: None,
        hidden_mounts: false,
        node: None,
    }
}

/// Returns what uses a workspace. Only ids with the prefix of sandboxes or
/// projects can be in use. If the request fails, the workspace counts as used.
fn used_by(running: &RunningServer, data: &DataDirectory, id: &str) -> WorkspaceUser {
    let user = match id {
        id if id.starts_with("sbx-") => WorkspaceUser::Sandbox,
        id if id.starts_with("ws-") => WorkspaceUser::Project,
        _ => return WorkspaceUser::Nobody,
    };
    let asked = || -> anyhow::Result<WorkspaceUser> {
        let client = Client::local(running, data.owner_key().as_deref())?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let path = ["api", "v1", "workspaces", id];
        match runtime.block_on(client.get::<api::Workspace>(&path)) {
            Err(error) if error.code() == Some(ErrorCode::WorkspaceNotFound) => {}
            found => return Ok(user_of(&found?)),
        }
        let path = ["api", "v1", "sandboxes", id];
        match runtime.block_on(client.get::<api::Sandbox>(&path)) {
            Err(error) if error.code() == Some(ErrorCode::SandboxNotFound) => {
                Ok(WorkspaceUser::Nobody)
            }
            found => found.map(|_| WorkspaceUser::Sandbox).map_err(Into::into),
        }
    };
    asked().unwrap_or(user)
}

fn user_of(workspace: &api::Workspace) -> WorkspaceUser {
    match (&workspace.sandbox, workspace.state) {
        (Some(_), _) => WorkspaceUser::Sandbox,
        (None, api::WorkspaceState::Parked) => WorkspaceUser::Parked,
        (None, api::WorkspaceState::Live) => WorkspaceUser::Project,
    }
}
