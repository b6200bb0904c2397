//! The components below the services: catalog, store, runtime, locks and so on.
//! All services share them.

use std::sync::Arc;

use elevo_agent_link::AgentLinks;
use elevo_catalog::{Catalog, Node};
use elevo_engine::Store;
use elevo_merge::Drivers;
use elevo_sandbox::SandboxRuntime;
use elevo_store_local::LocalStore;

use crate::app::access::names::Names;
use crate::app::maintenance::collecting::Collecting;
use crate::app::projects::heads::Heads;
use crate::app::sandboxes::freezer::Freezer;
use crate::app::sandboxes::locks::SandboxLocks;
use crate::app::sandboxes::pool::Pool;
use crate::app::stopping::Stopping;
use crate::app::tenant_stores::TenantStores;
use crate::app::timekeeping::Timekeeper;
use crate::config::Config;
use crate::platform::audit::Audit;
use crate::platform::engine_sight::EngineSight;
use crate::platform::installation::Installation;
use crate::platform::room::Room;

/// The components that the caller of `App::new` provides. A test can replace
/// them.
#[allow(missing_debug_implementations, reason = "stores have none")]
pub struct Parts {
    /// The database with everything except the content of files.
    pub catalog: Arc<dyn Catalog>,
    /// The node that this server runs on, and its session.
    pub node: Node,
    /// The container engine.
    pub runtime: Arc<dyn SandboxRuntime>,
    /// The part of the server's directories that the engine sees.
    pub(crate) sight: EngineSight,
    /// The connections to workspace agents.
    pub links: AgentLinks,
    /// The sandboxes of the warm pools.
    pub(crate) pool: Arc<Pool>,
    /// The content-addressed store of all tenants.
    pub store: Arc<dyn Store>,
    /// The same store, if it is on this machine and supports backups.
    pub local_store: Option<Arc<LocalStore>>,
    /// The check that the catalog, the store and the workspaces belong together.
    pub(crate) installation: Arc<Installation>,
    /// The audit log.
    pub(crate) audit: Arc<Audit>,
}

/// The components that services share. The constructor of each service clones
/// those that the service needs.
pub(crate) struct Resources {
    pub(crate) config: Arc<Config>,
    pub(crate) catalog: Arc<dyn Catalog>,
    pub(crate) node: Node,
    pub(crate) names: Arc<Names>,
    pub(crate) runtime: Arc<dyn SandboxRuntime>,
    pub(crate) sight: Arc<EngineSight>,
    pub(crate) links: AgentLinks,
    pub(crate) audit: Arc<Audit>,
    pub(crate) stores: Arc<TenantStores>,
    pub(crate) local_store: Option<Arc<LocalStore>>,
    pub(crate) room: Arc<Room>,
    pub(crate) installation: Arc<Installation>,
    pub(crate) drivers: Arc<Drivers>,
    pub(crate) collecting: Arc<Collecting>,
    pub(crate) heads: Arc<Heads>,
    pub(crate) time: Arc<Timekeeper>,
    pub(crate) stopping: Arc<Stopping>,
    pub(crate) locks: Arc<SandboxLocks>,
    pub(crate) freezer: Arc<Freezer>,
    pub(crate) pool: Arc<Pool>,
}

impl Resources {
    pub(crate) fn new(config: Config, parts: Parts) -> Self {
        let config = Arc::new(config);
        Self {
            stores: Arc::new(TenantStores::new(
                parts.store,
                &config,
                &parts.sight,
                &parts.node.name,
            )),
            local_store: parts.local_store,
            room: Arc::new(Room::new(&config)),
            installation: parts.installation,
            drivers: Arc::new(Drivers::standard()),
            collecting: Arc::default(),
            heads: Arc::default(),
            time: Arc::new(Timekeeper::new(
                config.clocks.clone(),
                parts.catalog.clone(),
            )),
            stopping: Arc::default(),
            locks: Arc::default(),
            freezer: Arc::new(Freezer::new(parts.runtime.clone())),
            pool: parts.pool,
            names: Arc::new(Names::new(parts.catalog.clone())),
            catalog: parts.catalog,
            node: parts.node,
            runtime: parts.runtime,
            sight: Arc::new(parts.sight),
            links: parts.links,
            audit: parts.audit,
            config,
        }
    }
}
