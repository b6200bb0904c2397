//! The repository and the workspaces of each tenant, and blocking work on them.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;

use elevo_core::{ErrorCode, TenantId};
use elevo_engine::{DEFAULT_CACHE_BYTES, NodeCache, Repository, Store};
use elevo_workspace::{Options, Owner, ProviderKind, WorkspaceId, Workspaces};
use parking_lot::{Mutex, MutexGuard};
use tokio::task::JoinHandle;
use tracing::Instrument;

use crate::config::Config;
use crate::failure::{Failure, Result, log_failure};
use crate::platform::engine_sight::EngineSight;
use crate::platform::installation::tenant_from;
use crate::platform::share::Shares;

/// Opens the repository and the workspaces of a tenant on their first use, and
/// runs blocking work within the share of the tenant.
pub(crate) struct TenantStores {
    store: Arc<dyn Store>,
    root: PathBuf,
    options: Options,
    open: Mutex<Open>,
    repositories: Mutex<HashMap<TenantId, Repository>>,
    cache: NodeCache,
    pub(crate) shares: Shares,
    /// A lock for each tenant, held while its workspaces are opened or erased.
    opening: Mutex<HashMap<TenantId, Arc<tokio::sync::Mutex<()>>>>,
}

/// The open workspaces, and the tenants whose workspaces must not be opened.
#[derive(Debug, Default)]
struct Open {
    workspaces: HashMap<TenantId, Arc<Workspaces>>,
    /// Tenants that are being erased or were erased by this process.
    closed: HashSet<TenantId>,
}

impl TenantStores {
    /// `node` is the name of the node of this server.
    pub(crate) fn new(
        store: Arc<dyn Store>,
        config: &Config,
        sight: &EngineSight,
        node: &str,
    ) -> Self {
        let provider: Option<ProviderKind> =
            config.provider.as_ref().and_then(|name| name.parse().ok());
        let (uid, gid) = config.sandbox_user;
        let is_root = rustix::process::geteuid().is_root();
        let is_overlay = provider.is_none_or(|kind| kind == ProviderKind::Overlay);
        let options = Options {
            threads: std::thread::available_parallelism().map_or(1, usize::from),
            provider,
            spare_layers: 10 << 30,
            pool: (is_root && is_overlay).then_some(config.pool_size),
            owner: is_root.then_some(Owner { uid, gid }),
            lazy: None,
            hidden_mounts: matches!(sight, EngineSight::Files(_)),
            node: config.store.is_some().then(|| node.to_owned()),
        };
        Self {
            store,
            root: config.workspace_root.clone(),
            options,
            open: Mutex::default(),
            repositories: Mutex::default(),
            cache: NodeCache::new(DEFAULT_CACHE_BYTES),
            shares: Shares::default(),
            opening: Mutex::default(),
        }
    }

    /// Returns the repository of a tenant. The repositories of all tenants share
    /// one cache of nodes.
    pub(crate) fn repository(&self, tenant: TenantId) -> Repository {
        let mut known = self.repositories.lock();
        let new = || Repository::with_cache(self.store.clone(), tenant, &self.cache);
        known.entry(tenant).or_insert_with(new).clone()
    }

    /// Returns the approximate number of bytes that a tenant has stored.
    pub(crate) async fn stored_bytes(&self, tenant: TenantId) -> Result<u64> {
        let stored = self.store.stored_bytes(tenant).await;
        stored.map_err(|error| elevo_engine::Error::from(error).into())
    }

    /// Fails if the store does not respond.
    pub(crate) async fn check(&self) -> Result<()> {
        let asked = self.store.reference(TenantId::LOCAL, "check").await;
        asked.map_err(elevo_engine::Error::from)?;
        Ok(())
    }

    /// Returns the directory of a tenant's workspaces.
    pub(crate) fn directory(&self, tenant: TenantId) -> PathBuf {
        self.root.join(tenant.to_string())
    }

    /// Returns true if this server can limit the disk space of a workspace.
    pub(crate) fn can_limit(&self) -> bool {
        self.options.pool.is_some()
    }

    /// Opens the workspaces of all tenants, so that other servers keep the snapshots
    /// that these need. Tenants whose workspaces cannot be opened are logged.
    pub(crate) async fn open_all(&self) {
        for tenant in self.known() {
            let opened = self.with(tenant, |_| Ok(())).await;
            let what = "cannot open the workspaces of a tenant";
            log_failure(opened, "tenant", &tenant.to_string(), what);
        }
    }

    /// Returns the tenants that have a directory of workspaces on this machine
    /// and are not being erased.
    pub(crate) fn known(&self) -> Vec<TenantId> {
        let entries = std::fs::read_dir(&self.root)
            .into_iter()
            .flatten()
            .flatten();
        entries
            .filter_map(|entry| tenant_from(entry.file_name().to_str()?))
            .filter(|tenant| !self.is_closed(*tenant))
            .collect()
    }

    /// Makes all further work on the workspaces of a tenant fail, because the
    /// tenant is being erased.
    pub(crate) fn close(&self, tenant: TenantId) {
        self.lock().closed.insert(tenant);
    }

    /// Returns true if a tenant is being erased or was erased.
    pub(crate) fn is_closed(&self, tenant: TenantId) -> bool {
        self.lock().closed.contains(&tenant)
    }

    /// Deletes the directory of a closed tenant, with its workspaces and its pool
    /// of uppers. Returns `false` if a task still works on the workspaces.
    pub(crate) async fn erase(&self, tenant: TenantId) -> Result<bool> {
        let turn = self.turn_to_open(tenant);
        let _turn = turn.lock().await;
        {
            let mut open = self.lock();
            let found = open.workspaces.get(&tenant);
            if found.is_some_and(|found| Arc::strong_count(found) > 1) {
                return Ok(false);
            }
            open.workspaces.remove(&tenant);
        }
        let root = self.directory(tenant);
        blocking(move || Ok(elevo_workspace::erase(&root)?)).await?;
        Ok(true)
    }

    /// Releases the memory for an erased tenant. The tenant stays closed:
    /// otherwise a job that listed the tenant earlier could create its
    /// directory again.
    pub(crate) fn forget(&self, tenant: TenantId) {
        self.repositories.lock().remove(&tenant);
        self.opening.lock().remove(&tenant);
        self.shares.forget(tenant);
    }

    /// Runs a blocking closure on the workspaces of a tenant, and opens them if
    /// necessary.
    pub(crate) async fn with<T: Send + 'static>(
        &self,
        tenant: TenantId,
        work: impl FnOnce(&Workspaces) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let workspaces = match self.already(tenant)? {
            Some(open) => open,
            None => self.open(tenant).await?,
        };
        self.blocking(tenant, move || work(&workspaces)).await
    }

    /// Runs a blocking closure within the share of a tenant. The closure is
    /// completed even if the caller is cancelled.
    pub(crate) async fn blocking<T: Send + 'static>(
        &self,
        tenant: TenantId,
        work: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> Result<T> {
        self.shares.blocking(tenant, work).await
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        self.open.lock()
    }

    /// Returns the workspaces of a tenant if they are open. Fails if the tenant
    /// is being erased.
    fn already(&self, tenant: TenantId) -> Result<Option<Arc<Workspaces>>> {
        let open = self.lock();
        match open.closed.contains(&tenant) {
            true => Err(being_erased()),
            false => Ok(open.workspaces.get(&tenant).cloned()),
        }
    }

    fn turn_to_open(&self, tenant: TenantId) -> Arc<tokio::sync::Mutex<()>> {
        let mut opening = self.opening.lock();
        opening.entry(tenant).or_default().clone()
    }

    /// Opens the workspaces of a tenant, once for all concurrent callers.
    async fn open(&self, tenant: TenantId) -> Result<Arc<Workspaces>> {
        let turn = self.turn_to_open(tenant).lock_owned().await;
        if let Some(open) = self.already(tenant)? {
            return Ok(open);
        }
        let (repository, options) = (self.repository(tenant), self.options.clone());
        let root = self.directory(tenant);
        // The closure owns the lock, because the closure continues if the caller
        // is cancelled.
        let opening = self.blocking(tenant, move || {
            let opened = open_at(&root, repository, &options)?;
            Ok((Arc::new(opened), turn))
        });
        let (opened, _turn) = opening.await?;
        self.lock().workspaces.insert(tenant, opened.clone());
        Ok(opened)
    }
}

/// Returns the failure of work for a tenant that is being erased.
pub(crate) fn being_erased() -> Failure {
    Failure::new(ErrorCode::TenantSuspended, "this tenant is being erased")
}

fn open_at(
    root: &std::path::Path,
    repository: Repository,
    options: &Options,
) -> Result<Workspaces> {
    let made = std::fs::create_dir_all(root);
    made.map_err(|error| Failure::internal(&error))?;
    Ok(Workspaces::open(root, repository, options)?)
}

impl TenantStores {
    /// Runs a part of a request in a separate task, within the share of the
    /// tenant. The task is completed even if the client disconnects.
    pub(crate) fn spawn<T: Send + 'static>(
        self: &Arc<Self>,
        tenant: TenantId,
        work: impl Future<Output = T> + Send + 'static,
    ) -> JoinHandle<T> {
        let stores = self.clone();
        let work = async move { stores.shares.apart(tenant, work).await };
        tokio::spawn(work.in_current_span())
    }

    /// Returns the workspaces of all tenants. If the workspaces of a tenant
    /// cannot be listed, logs the failure and continues with the others.
    pub(crate) async fn all_workspaces(&self) -> Vec<(TenantId, WorkspaceId)> {
        let mut all = Vec::new();
        for tenant in self.known() {
            let listed = self.with(tenant, |workspaces| Ok(workspaces.list()?));
            let listed = listed.await;
            let what = "cannot list the workspaces of a tenant";
            let listed = log_failure(listed, "tenant", &tenant.to_string(), what);
            let records = listed.into_iter().flatten();
            all.extend(records.map(|record| (tenant, record.id)));
        }
        all
    }

    /// Deletes a workspace. A missing workspace is not an error.
    pub(crate) async fn remove_workspace(&self, tenant: TenantId, id: WorkspaceId) -> Result<()> {
        let removed = self.with(tenant, move |workspaces| match workspaces.remove(&id) {
            Err(elevo_workspace::Error::NotFound(_)) => Ok(()),
            removed => Ok(removed?),
        });
        removed.await
    }
}

/// Runs a blocking closure for the server itself, outside the shares of tenants.
/// The closure is completed even if the caller is cancelled.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|error| Err(Failure::internal(&error)))
}
