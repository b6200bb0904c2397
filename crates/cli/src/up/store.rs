//! The store and the workspaces of the server, for calls of the command line.

use std::fs;
use std::sync::Arc;

use elevo_core::{ErrorCode, TenantId};
use elevo_server::Config;
use elevo_store_local::{LocalStore, Options};
use elevo_workspace::{Options as WorkspaceOptions, Owner, ProviderKind};

use crate::caller::{Held, User};
use crate::client::Client;
use crate::data::{Data, Running};
use crate::errors::Problem;

/// Opens the store, which is made if it is not there.
pub(super) async fn open(data: &Data) -> anyhow::Result<Arc<LocalStore>> {
    let path = data.store();
    let options = Options {
        holder: format!("the server (process {})", std::process::id()),
        ..Options::default()
    };
    let opening = tokio::task::spawn_blocking(move || match path.exists() {
        true => LocalStore::open(&path, &options),
        false => LocalStore::create(&path, &options),
    });
    Ok(Arc::new(opening.await??))
}

/// What calls find open here: the same that sandboxes use.
pub(super) fn held(
    config: &Config,
    data: &Data,
    store: Arc<LocalStore>,
    running: &Running,
) -> Result<Held, Problem> {
    let workspaces = config.workspace_root.join(TenantId::LOCAL.to_string());
    let failed = |source| Problem::Io {
        action: "make",
        path: workspaces.clone(),
        source,
    };
    fs::create_dir_all(&workspaces).map_err(failed)?;
    let path = data.store();
    let (url, owner) = (running.url(), data.clone());
    Ok(Held {
        path: path.canonicalize().unwrap_or(path),
        store,
        workspaces,
        options: options(config),
        used_by: Box::new(move |id| used_by(&url, &owner, id)),
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
    }
}

/// Who has a workspace: sandboxes and projects call theirs by ids of their own.
/// If that cannot be found out, somebody has.
fn used_by(url: &str, data: &Data, id: &str) -> User {
    let (kind, missing, user) = match id {
        id if id.starts_with("sbx-") => ("sandboxes", ErrorCode::SandboxNotFound, User::Sandbox),
        id if id.starts_with("ws-") => ("workspaces", ErrorCode::WorkspaceNotFound, User::Project),
        _ => return User::Nobody,
    };
    let asked = || -> anyhow::Result<User> {
        let client = Client::known(url, data.owner_key().as_deref())?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let path = ["api", "v1", kind, id];
        match runtime.block_on(client.get::<serde_json::Value>(&path)) {
            Err(error) if error.code() == Some(missing) => Ok(User::Nobody),
            answer => answer.map(|_| user).map_err(Into::into),
        }
    };
    asked().unwrap_or(user)
}
