//! Readiness, statistics and disk use of the server.

use std::sync::Arc;
use std::time::{Duration, Instant};

use elevo_agent_link::AgentLinks;
use elevo_api as api;
use elevo_api::Scope;
use elevo_catalog::Catalog;
use elevo_core::SandboxState;
use elevo_engine::StoreError;
use elevo_sandbox::SandboxRuntime;
use elevo_store_local::LocalStore;
use tokio::sync::Mutex;

use crate::app::access::principal::Principal;
use crate::app::resources::Resources;
use crate::app::sandboxes::warm_pools::WarmPools;
use crate::app::stopping::Stopping;
use crate::app::tenant_stores::{TenantStores, blocking};
use crate::config::Config;
use crate::failure::{Result, chain};
use crate::platform::clock;
use crate::platform::engine_sight::EngineSight;
use crate::platform::room::Room;

/// Maximum age of the results of the probes.
const PROBE: Duration = Duration::from_secs(2);

/// Features that every server of this version has.
const FEATURES: &[&str] = &[
    "sandboxes",
    "metadata",
    "terminals",
    "snapshots",
    "files",
    "projects",
    "workspaces",
    "reviews",
    "events",
    "webhooks",
    "idempotencyKeys",
    "rateLimitHeaders",
];

/// The results of the probes of the catalog, the store and the container engine:
/// each is true if the component works, with a message.
#[derive(Clone, Debug)]
pub(crate) struct Probed {
    at: Instant,
    catalog: (bool, String),
    store: (bool, String),
    engine: (bool, String),
}

/// Reports the readiness, the statistics and the disk use of the server.
pub(crate) struct System {
    local_store: Option<Arc<LocalStore>>,
    catalog: Arc<dyn Catalog>,
    config: Arc<Config>,
    links: AgentLinks,
    room: Arc<Room>,
    runtime: Arc<dyn SandboxRuntime>,
    sight: Arc<EngineSight>,
    stopping: Arc<Stopping>,
    stores: Arc<TenantStores>,
    pools: Arc<WarmPools>,
    /// The last results of the probes.
    probed: Mutex<Option<Probed>>,
    started: Instant,
}

impl System {
    pub(crate) fn new(resources: &Resources, pools: &Arc<WarmPools>) -> Self {
        Self {
            local_store: resources.local_store.clone(),
            catalog: resources.catalog.clone(),
            config: resources.config.clone(),
            links: resources.links.clone(),
            pools: pools.clone(),
            room: resources.room.clone(),
            runtime: resources.runtime.clone(),
            sight: resources.sight.clone(),
            stopping: resources.stopping.clone(),
            stores: resources.stores.clone(),
            probed: Mutex::default(),
            started: crate::platform::clock::instant(),
        }
    }

    /// Returns the version, the features and the limits of the server. The
    /// arguments are the maximum sizes of request bodies.
    pub(crate) fn info(&self, body_bytes: u64, patch_bytes: u64) -> api::Info {
        let config = &self.config;
        let limits = &config.limits;
        let mut features = FEATURES.to_vec();
        if self.stores.can_limit() {
            features.push("diskLimits");
        }
        if !config.warm.is_empty() {
            features.push("warmPools");
        }
        let mut runtimes = config.runtimes.clone();
        if let Some(default) = &config.default_runtime
            && !runtimes.contains(default)
        {
            runtimes.insert(0, default.clone());
        }
        api::Info {
            version: env!("CARGO_PKG_VERSION").into(),
            features: features.into_iter().map(str::to_owned).collect(),
            limits: api::ServerLimits {
                body_bytes,
                patch_bytes,
                archive_bytes: limits.max_archive,
                file_bytes: limits.max_file,
                batch: 50,
                sandboxes: limits.max_sandboxes,
                lifetime_seconds: limits.max_lifetime.as_secs(),
                resources: api::Resources {
                    cpu: Some(format!("{}", f64::from(limits.cpu.1) / 1000.0)),
                    memory: Some(api::format_size(limits.memory.1)),
                    disk: Some(api::format_size(limits.disk.1)),
                    pids: Some(limits.pids.1),
                },
            },
            networks: config.networks.clone(),
            default_network: config.default_network,
            runtimes,
            default_runtime: config.default_runtime.clone(),
        }
    }

    /// Returns the readiness of the server, with the result of each probe. The
    /// catalog, the store and the container engine are probed at most once in
    /// [`PROBE`], however many callers there are.
    pub(crate) async fn ready(&self) -> api::Ready {
        let Probed {
            catalog,
            store,
            engine,
            ..
        } = self.probe().await;
        let stopping = match self.stopping.is_stopping() {
            true => (false, "is stopping".into()),
            false => (true, "accepts requests".into()),
        };
        let disk = match self.room.check() {
            Ok(()) => (true, "has free space".into()),
            Err(failure) => (false, failure.message),
        };
        let mounts = (
            *self.sight == EngineSight::Everything,
            self.sight.describe(),
        );
        let checks = [
            ("catalog", catalog),
            ("store", store),
            ("engine", engine),
            ("mounts", mounts),
            ("disk", disk),
            ("server", stopping),
        ];
        let checks = checks.map(|(name, (ok, message))| api::ReadyCheck {
            name: name.into(),
            ok,
            message,
        });
        // These do not make the server unready. Projects, merges, reviews and
        // workspaces need no container engine. On a full disk, clients must
        // still reach the server to delete data.
        let spared = ["engine", "mounts", "disk"];
        let needed = checks.iter();
        let needed = needed.filter(|check| !spared.contains(&check.name.as_str()));
        api::Ready {
            ready: needed.clone().all(|check| check.ok),
            checks: checks.into(),
        }
    }

    async fn probe(&self) -> Probed {
        let mut probed = self.probed.lock().await;
        if let Some(known) = probed.as_ref().filter(|known| known.at.elapsed() < PROBE) {
            return known.clone();
        }
        let catalog = match self.catalog.check().await {
            Ok(()) => (true, "responds".into()),
            Err(error) => (false, chain(&error)),
        };
        let engine = match self.runtime.check().await {
            Ok(info) => (true, info.engine),
            Err(error) => (false, chain(&error)),
        };
        let new = Probed {
            at: clock::instant(),
            catalog,
            store: self.probe_store().await,
            engine,
        };
        probed.insert(new).clone()
    }

    /// Probes whether the store accepts writes.
    pub(crate) async fn probe_store(&self) -> (bool, String) {
        let Some(store) = self.local_store.clone() else {
            return match self.stores.check().await {
                Ok(()) => (true, "responds".into()),
                Err(failure) => (false, failure.summary()),
            };
        };
        let checked = blocking(move || Ok(store.check_writes())).await;
        match checked {
            Ok(Ok(())) => (true, "accepts writes".into()),
            // The store counts as working: it accepts writes as soon as the
            // disk has free space, without a restart.
            Ok(Err(StoreError::Full)) => (true, "waits for free space on its disk".into()),
            Ok(Err(error)) => {
                let cause = chain(&error);
                tracing::error!(cause, "the store accepts no writes; restart the server");
                (
                    false,
                    format!("accepts no writes ({cause}); restart the server"),
                )
            }
            Err(failure) => (false, failure.message),
        }
    }

    pub(crate) async fn stats(&self, who: &Principal) -> Result<api::SystemStats> {
        who.needs(Scope::System)?;
        Ok(api::SystemStats {
            sandboxes: self.counts().await?,
            resources: self.resources(),
            uptime: self.started.elapsed().as_secs(),
            agents: self.links.count() as u64,
            pools: self.pools.stats(),
        })
    }

    pub(crate) async fn counts(&self) -> Result<api::SandboxCounts> {
        let counts = self.catalog.count_by_state(None).await?;
        let of = |state| counts.get(&state).copied().unwrap_or_default();
        Ok(api::SandboxCounts {
            total: counts.values().sum(),
            starting: of(SandboxState::Starting),
            running: of(SandboxState::Running),
            stopping: of(SandboxState::Stopping),
            stopped: of(SandboxState::Stopped),
            error: of(SandboxState::Error),
        })
    }

    fn resources(&self) -> api::SystemResources {
        let processors = std::thread::available_parallelism().map_or(1, usize::from) as f64;
        let info = rustix::system::sysinfo();
        let load = info.loads[0] as f64 / 65536.0;
        let memory = (info.totalram.max(1) - info.freeram) as f64 / info.totalram.max(1) as f64;
        let (total, free) = self.disk();
        api::SystemResources {
            cpu_usage: (load / processors * 100.0).min(100.0),
            memory_usage: memory * 100.0,
            disk_usage: (total - free) as f64 * 100.0 / total.max(1) as f64,
        }
    }

    /// Returns the size of the catalog's write-ahead log in bytes. The log grows
    /// while a reader or a backup needs an old state of the catalog.
    pub(crate) fn catalog_log_bytes(&self) -> u64 {
        let log = self.config.data_dir.join("catalog.db-wal");
        std::fs::metadata(log).map_or(0, |stat| stat.len())
    }

    /// Returns the used fraction of the data directory's disk; `None` if its
    /// size is unknown.
    pub(crate) fn disk_used(&self) -> Option<f64> {
        let (total, free) = self.disk();
        (total > 0).then(|| (total - free) as f64 / total as f64)
    }

    /// Returns the total and the free bytes of the data directory's disk.
    pub(crate) fn disk(&self) -> (u64, u64) {
        self.room.bytes()
    }
}
