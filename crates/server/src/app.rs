//! The use cases of the server as services, one for each area: projects,
//! sandboxes, access, maintenance and so on. Nothing here depends on HTTP: the
//! handlers in `http` and the jobs in `jobs` call the services.

pub(crate) mod access;
pub(crate) mod events;
pub(crate) mod files;
pub(crate) mod leases;
pub(crate) mod maintenance;
pub(crate) mod missing;
pub(crate) mod pages;
pub(crate) mod ports;
pub(crate) mod processes;
pub(crate) mod projects;
pub(crate) mod requests;
pub(crate) mod resources;
pub(crate) mod sandboxes;
pub(crate) mod snapshots;
pub(crate) mod stopping;
pub(crate) mod sync;
pub(crate) mod tenant_stores;
pub(crate) mod timekeeping;
pub(crate) mod workspaces;

use std::sync::Arc;

use elevo_agent_link::AgentLinks;
use elevo_catalog::Catalog;
use elevo_core::TenantId;

use crate::app::access::here::Here;
use crate::app::access::keys::Keys;
use crate::app::access::names::Names;
use crate::app::access::principals::Principals;
use crate::app::access::secrets::Secrets;
use crate::app::access::tenants::Tenants;
use crate::app::access::tickets::Tickets;
use crate::app::events::Events;
use crate::app::events::webhooks::Webhooks;
use crate::app::files::Files;
use crate::app::files::watching::Watches;
use crate::app::leases::Leases;
use crate::app::maintenance::backups::Backups;
use crate::app::maintenance::cleanup::Cleanup;
use crate::app::maintenance::disk_space::DiskSpace;
use crate::app::maintenance::erasure::Erasure;
use crate::app::maintenance::expiry::Expiry;
use crate::app::maintenance::garbage::Garbage;
use crate::app::maintenance::quarantine::Quarantine;
use crate::app::maintenance::recovery::Recovery;
use crate::app::maintenance::system::System;
use crate::app::ports::Ports;
use crate::app::processes::Processes;
use crate::app::processes::terminals::Terminals;
use crate::app::projects::Projects;
use crate::app::projects::changes::Changes;
use crate::app::projects::landing::Landings;
use crate::app::projects::landing::prepare::Preparer;
use crate::app::projects::merges::Merges;
use crate::app::projects::reviews::Reviews;
use crate::app::requests::Requests;
use crate::app::resources::{Parts, Resources};
use crate::app::sandboxes::Sandboxes;
use crate::app::sandboxes::containers::Containers;
use crate::app::sandboxes::lost::LostSandboxes;
use crate::app::sandboxes::starts::Starts;
use crate::app::sandboxes::templates::Templates;
use crate::app::sandboxes::warm_pools::WarmPools;
use crate::app::snapshots::Snapshots;
use crate::app::stopping::Stopping;
use crate::app::sync::Syncing;
use crate::app::tenant_stores::TenantStores;
use crate::app::timekeeping::Timekeeper;
use crate::app::workspaces::Workspaces;
use crate::config::Config;
use crate::failure::Result;
use crate::platform::audit::Audit;
use crate::platform::installation::Installation;
use crate::platform::room::Room;

/// All services of a running server, for handlers and jobs. A service holds
/// the other services that it calls, never `App`, so that its dependencies are
/// visible in its fields and cannot form a circle.
pub struct App {
    pub(crate) config: Arc<Config>,
    pub(crate) catalog: Arc<dyn Catalog>,
    pub(crate) links: AgentLinks,
    pub(crate) audit: Arc<Audit>,
    pub(crate) stores: Arc<TenantStores>,
    pub(crate) room: Arc<Room>,
    pub(crate) installation: Arc<Installation>,
    pub(crate) heads: Arc<projects::heads::Heads>,
    pub(crate) stopping: Arc<Stopping>,
    pub(crate) time: Arc<Timekeeper>,
    pub(crate) backups: Arc<Backups>,
    pub(crate) changes: Arc<Changes>,
    pub(crate) cleanup: Arc<Cleanup>,
    pub(crate) disk_space: Arc<DiskSpace>,
    pub(crate) erasure: Arc<Erasure>,
    pub(crate) events: Arc<Events>,
    pub(crate) expiry: Arc<Expiry>,
    pub(crate) files: Arc<Files>,
    pub(crate) garbage: Arc<Garbage>,
    pub(crate) here: Here,
    pub(crate) keys: Arc<Keys>,
    pub(crate) leases: Leases,
    pub(crate) lost: Arc<LostSandboxes>,
    pub(crate) merges: Arc<Merges>,
    pub(crate) names: Arc<Names>,
    pub(crate) pools: Arc<WarmPools>,
    pub(crate) ports: Arc<Ports>,
    pub(crate) principals: Arc<Principals>,
    pub(crate) processes: Arc<Processes>,
    pub(crate) projects: Arc<Projects>,
    pub(crate) quarantine: Arc<Quarantine>,
    pub(crate) recovery: Arc<Recovery>,
    pub(crate) requests: Arc<Requests>,
    pub(crate) reviews: Arc<Reviews>,
    pub(crate) sandboxes: Arc<Sandboxes>,
    pub(crate) secrets: Arc<Secrets>,
    pub(crate) snapshots: Arc<Snapshots>,
    pub(crate) starts: Arc<Starts>,
    pub(crate) sync: Arc<Syncing>,
    pub(crate) system: Arc<System>,
    pub(crate) templates: Arc<Templates>,
    pub(crate) tenants: Arc<Tenants>,
    pub(crate) terminals: Arc<Terminals>,
    pub(crate) tickets: Tickets,
    pub(crate) watches: Watches,
    pub(crate) webhooks: Arc<Webhooks>,
    pub(crate) workspaces: Arc<Workspaces>,
}

impl std::fmt::Debug for App {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = f.debug_struct("App");
        shown
            .field("data", &self.config.data_dir)
            .finish_non_exhaustive()
    }
}

impl App {
    /// Creates all services on top of the catalog, the store, the runtime and
    /// the other components in `parts`. Does no input or output.
    pub fn new(config: Config, parts: Parts) -> Self {
        let resources = Resources::new(config, parts);
        let secrets = Arc::new(Secrets::new(&resources));
        let snapshots = Arc::new(Snapshots::new(&resources));
        let keys = Arc::new(Keys::new(&resources));
        let tenants = Arc::new(Tenants::new(&resources, &keys));
        let webhooks = Arc::new(Webhooks::new(&resources, &secrets));
        let projects = ProjectServices::new(&resources, &snapshots, &tenants);
        let sandboxes =
            SandboxServices::new(&resources, &secrets, &snapshots, &projects.workspaces);
        let maintenance = Maintenance::new(&resources, &projects, &sandboxes);
        Self {
            backups: Arc::new(Backups::new(&resources)),
            changes: projects.changes,
            cleanup: maintenance.cleanup,
            disk_space: maintenance.disk_space,
            erasure: Arc::new(Erasure::new(
                &resources,
                &sandboxes.starts,
                &tenants,
                &webhooks,
            )),
            events: Arc::new(Events::new(&resources, &projects.projects)),
            expiry: maintenance.expiry,
            watches: Watches::new(&resources, &sandboxes.files),
            files: sandboxes.files,
            garbage: maintenance.garbage,
            here: Here::new(&resources),
            leases: Leases::new(&resources),
            lost: sandboxes.lost,
            merges: projects.merges,
            names: resources.names.clone(),
            pools: sandboxes.pools,
            ports: Arc::new(Ports::new(&resources, &sandboxes.sandboxes, &secrets)),
            principals: Arc::new(Principals::new(&resources, &keys, &tenants)),
            processes: sandboxes.processes,
            projects: projects.projects,
            quarantine: maintenance.quarantine,
            recovery: maintenance.recovery,
            requests: Arc::new(Requests::new(&resources)),
            reviews: projects.reviews,
            sandboxes: sandboxes.sandboxes,
            starts: sandboxes.starts,
            sync: projects.sync,
            system: maintenance.system,
            templates: sandboxes.templates,
            terminals: sandboxes.terminals,
            tickets: Tickets::default(),
            workspaces: projects.workspaces,
            keys,
            secrets,
            snapshots,
            tenants,
            webhooks,
            config: resources.config,
            catalog: resources.catalog,
            links: resources.links,
            audit: resources.audit,
            stores: resources.stores,
            room: resources.room,
            installation: resources.installation,
            heads: resources.heads,
            stopping: resources.stopping,
            time: resources.time,
        }
    }

    /// Returns the id of the oldest tenant. Creates a tenant if there is none.
    pub async fn first_tenant(&self) -> Result<TenantId> {
        self.tenants.first().await
    }

    /// Creates a key with every scope for a tenant. Returns the secret of the
    /// key.
    pub async fn create_owner_key(&self, tenant: TenantId, name: &str) -> Result<String> {
        self.keys.create_owner_key(tenant, name).await
    }
}

/// Groups the services for projects and their workspaces while `App` is
/// created.
struct ProjectServices {
    changes: Arc<Changes>,
    merges: Arc<Merges>,
    projects: Arc<Projects>,
    reviews: Arc<Reviews>,
    sync: Arc<Syncing>,
    workspaces: Arc<Workspaces>,
}

impl ProjectServices {
    fn new(resources: &Resources, snapshots: &Arc<Snapshots>, tenants: &Arc<Tenants>) -> Self {
        let projects = Arc::new(Projects::new(resources, snapshots));
        let workspaces = Arc::new(Workspaces::new(resources, &projects, snapshots));
        let preparer = Arc::new(Preparer::new(resources, &projects, snapshots));
        let landings = Arc::new(Landings::new(resources, &projects, &preparer));
        let merges = Arc::new(Merges::new(resources, &landings, &projects, &workspaces));
        Self {
            changes: Arc::new(Changes::new(resources, &landings, &projects, snapshots)),
            reviews: Arc::new(Reviews::new(
                resources, &landings, &preparer, &projects, snapshots,
            )),
            sync: Arc::new(Syncing::new(
                resources,
                &merges,
                &projects,
                tenants,
                &workspaces,
            )),
            merges,
            projects,
            workspaces,
        }
    }
}

/// Groups the services for sandboxes, and for the processes and files in them,
/// while `App` is created.
struct SandboxServices {
    containers: Arc<Containers>,
    files: Arc<Files>,
    lost: Arc<LostSandboxes>,
    pools: Arc<WarmPools>,
    processes: Arc<Processes>,
    sandboxes: Arc<Sandboxes>,
    starts: Arc<Starts>,
    templates: Arc<Templates>,
    terminals: Arc<Terminals>,
}

impl SandboxServices {
    fn new(
        resources: &Resources,
        secrets: &Arc<Secrets>,
        snapshots: &Arc<Snapshots>,
        workspaces: &Arc<Workspaces>,
    ) -> Self {
        let containers = Arc::new(Containers::new(resources));
        let pools = Arc::new(WarmPools::new(resources, &containers));
        let starts = Arc::new(Starts::new(resources, &containers, workspaces));
        let sandboxes = Sandboxes::new(resources, &pools, secrets, snapshots, &starts, workspaces);
        let sandboxes = Arc::new(sandboxes);
        let processes = Arc::new(Processes::new(resources, &sandboxes, secrets));
        Self {
            files: Arc::new(Files::new(resources, &sandboxes, snapshots, workspaces)),
            lost: Arc::new(LostSandboxes::new(resources, &starts)),
            templates: Arc::new(Templates::new(resources, &pools)),
            terminals: Arc::new(Terminals::new(resources, &processes, &sandboxes, secrets)),
            containers,
            pools,
            processes,
            sandboxes,
            starts,
        }
    }
}

/// Groups the services that clean up, recover and check the server while `App`
/// is created. Most callers of these services are background jobs.
struct Maintenance {
    cleanup: Arc<Cleanup>,
    disk_space: Arc<DiskSpace>,
    expiry: Arc<Expiry>,
    garbage: Arc<Garbage>,
    quarantine: Arc<Quarantine>,
    recovery: Arc<Recovery>,
    system: Arc<System>,
}

impl Maintenance {
    fn new(resources: &Resources, projects: &ProjectServices, sandboxes: &SandboxServices) -> Self {
        let (workspaces, projects) = (&projects.workspaces, &projects.projects);
        let SandboxServices {
            containers,
            pools,
            starts,
            ..
        } = sandboxes;
        let quarantine = Arc::new(Quarantine::new(resources, workspaces));
        let cleanup = Cleanup::new(resources, pools, projects, &quarantine, starts, workspaces);
        let cleanup = Arc::new(cleanup);
        let expiry = Arc::new(Expiry::new(resources, starts, workspaces));
        let system = Arc::new(System::new(resources, pools));
        Self {
            disk_space: Arc::new(DiskSpace::new(resources, pools, starts, workspaces)),
            garbage: Arc::new(Garbage::new(
                resources, &cleanup, &expiry, projects, &system,
            )),
            recovery: Arc::new(Recovery::new(resources, &cleanup, containers, starts)),
            cleanup,
            expiry,
            quarantine,
            system,
        }
    }
}
