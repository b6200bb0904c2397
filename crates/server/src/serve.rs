//! The server as a whole: from settings to listening, and to a graceful
//! shutdown.

mod data;
mod listening;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use async_trait::async_trait;
use elevo_agent_link::{AgentLinks, Authenticate, Settings};
use elevo_catalog::secret::SandboxToken;
use elevo_catalog::{Catalog, INSTALLATION, SqliteCatalog};
use elevo_sandbox::{DockerSettings, Reconnecting, SandboxRuntime};
use elevo_store_local::LocalStore;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::app::App;
use crate::app::resources::Parts;
use crate::app::sandboxes::pool::Pool as WarmPool;
use crate::app::stopping::Phase;
use crate::config::Config;
use crate::failure::Failure;
use crate::jobs;
use crate::platform::audit::{Audit, Entry, Level};
use crate::platform::clock;
use crate::platform::installation::Installation;
use crate::platform::room::Room;
use crate::serve::data::{open_audit, open_catalog, prepare};
use crate::serve::listening::{listen_for_agents, listen_for_clients};

/// Time for streams to announce their end.
const CUTTING: Duration = Duration::from_secs(3);
/// Time for the last responses to reach their clients.
const LAST: Duration = Duration::from_secs(5);
/// Time for the engine to delete unused networks.
const LEAVING: Duration = Duration::from_secs(20);

/// Time for the last records to be written, and for the catalog to be closed. A
/// disk that does not respond must not keep the server from stopping; the rest
/// is in the write-ahead log of the catalog.
const CLOSING: Duration = Duration::from_secs(5);

/// The addresses that a server listens on.
#[derive(Clone, Copy, Debug)]
pub struct Addresses {
    /// The address of the API.
    pub api: SocketAddr,
    /// The address of health, readiness and metrics.
    pub metrics: SocketAddr,
}

/// A running server.
#[derive(Debug)]
pub struct Server {
    app: Arc<App>,
    catalog: Arc<SqliteCatalog>,
    addresses: Addresses,
    tasks: JoinSet<anyhow::Result<()>>,
}

/// Checks tokens of agents against the hashes in the catalog.
struct Tokens {
    catalog: Arc<dyn Catalog>,
    pool: Arc<WarmPool>,
    audit: Arc<Audit>,
}

#[async_trait]
impl Authenticate for Tokens {
    async fn is_right(&self, sandbox: &str, token: &str) -> bool {
        let is_right = self.has_token(sandbox, token).await;
        if !is_right {
            let entry = Entry {
                event: "agent.refused",
                level: Level::Warn,
                about: vec![("sandbox_id", crate::platform::audit::cut(sandbox))],
                ..Entry::default()
            };
            self.audit.tell_refusal(entry).await;
        }
        is_right
    }
}

impl Tokens {
    async fn has_token(&self, sandbox: &str, token: &str) -> bool {
        let Ok(token) = token.parse::<SandboxToken>() else {
            return false;
        };
        if self.pool.has_token(sandbox, &token) {
            return true;
        }
        let found = self.catalog.sandbox_of_any_tenant(sandbox).await;
        let Ok(Some(found)) = found else {
            return false;
        };
        !found.removing && token.matches(&found.token_hash)
    }
}

impl Server {
    /// Starts a server: opens its data, reconciles rows and containers, and
    /// listens.
    pub async fn start(config: Config) -> anyhow::Result<Self> {
        let store = Self::open_store(&config).await?;
        Self::start_with(config, store, None).await
    }

    /// Like [`Self::start`], but with a runtime other than the Docker engine of
    /// the settings.
    pub async fn start_on(
        config: Config,
        runtime: Arc<dyn SandboxRuntime>,
    ) -> anyhow::Result<Self> {
        let store = Self::open_store(&config).await?;
        Self::start_with(config, store, Some(runtime)).await
    }

    /// Opens the store for [`Self::start_with`]. Fails with a
    /// [`Refusal`](crate::Refusal), and creates nothing, if it does not belong
    /// to the catalog and the workspaces.
    pub async fn open_store(config: &Config) -> anyhow::Result<Arc<LocalStore>> {
        // Opening writes a little, which may need the reserve.
        let room = Room::new(config);
        tokio::task::spawn_blocking(move || room.make_way()).await?;
        let installation = Installation::new(config);
        installation.check().await?;
        installation.open_store().await
    }

    /// Like [`Self::start`], but with a store that is already open, and with a
    /// runtime other than the Docker engine of the settings if one is given.
    pub async fn start_with(
        config: Config,
        store: Arc<LocalStore>,
        runtime: Option<Arc<dyn SandboxRuntime>>,
    ) -> anyhow::Result<Self> {
        crate::platform::metrics::begin();
        prepare(&config)?;
        let catalog = open_catalog(&config).await?;
        if Installation::new(&config).stamp(&*catalog).await? {
            tracing::warn!("the data directory was adopted; no garbage is collected for a day");
        }
        let runtime = match runtime {
            Some(runtime) => runtime,
            None => Arc::new(connect_engine(&config, &*catalog).await?),
        };
        let settings = Settings {
            terminals: config.limits.terminals,
            output_buffer: config.limits.output_buffer,
            // An agent is lost after three missing heartbeats.
            heartbeat: (config.limits.agent_timeout / 3).min(Settings::default().heartbeat),
            observe: Some(crate::platform::trace::agent_did),
            ..Settings::default()
        };
        let pool = Arc::new(WarmPool::default());
        let audit = open_audit(&config).await?;
        let tokens = Tokens {
            catalog: catalog.clone(),
            pool: pool.clone(),
            audit: audit.clone(),
        };
        let links = AgentLinks::new(Arc::new(tokens), settings);
        let parts = Parts {
            catalog: catalog.clone(),
            runtime,
            links,
            pool,
            store: store.clone(),
            local_store: Some(store),
            audit,
        };
        let app = Arc::new(App::new(config, parts));
        app.tenants.adopt_given_key().await?;
        app.secrets.open().await?;
        app.webhooks.adopt_configured().await?;
        let mut tasks = JoinSet::new();
        // Agents may reconnect during the recovery.
        listen_for_agents(&app, &mut tasks).await?;
        recover(&app)
            .await
            .context("cannot recover from the last stop")?;
        let addresses = listen_for_clients(&app, &mut tasks).await?;
        crate::http::admin_socket::listen(&app, &mut tasks)?;
        let working = app.clone();
        tasks.spawn(async move {
            jobs::run(working).await;
            Ok(())
        });
        Ok(Self {
            app,
            catalog,
            addresses,
            tasks,
        })
    }

    /// Returns the addresses that the server listens on.
    pub fn addresses(&self) -> Addresses {
        self.addresses
    }

    /// Returns the use cases, for callers in the same process.
    pub fn app(&self) -> &Arc<App> {
        &self.app
    }

    /// Waits until a part of the server fails, which should not happen.
    pub async fn failed(&mut self) -> anyhow::Error {
        match self.tasks.join_next().await {
            Some(Ok(Err(error))) => error,
            Some(Err(error)) => error.into(),
            Some(Ok(Ok(()))) | None => anyhow::anyhow!("a part of the server has ended"),
        }
    }

    /// Rejects new requests, lets running ones and streams end within
    /// `STOP_GRACE`, and returns. Sandboxes and their processes keep running;
    /// if there are none, networks are deleted as well.
    pub async fn stop(mut self) {
        let began = clock::instant();
        let grace = self.app.config.limits.stop_grace;
        self.app.stopping.enter(Phase::Draining);
        if timeout(grace, self.app.stopping.idle()).await.is_err() {
            tracing::warn!("some requests did not end in time and are cut off");
            self.app.stopping.enter(Phase::Cutting);
            let _ = timeout(CUTTING, self.app.stopping.idle()).await;
        }
        self.app.stopping.enter(Phase::Ended);
        let ended = async { while self.tasks.join_next().await.is_some() {} };
        let left = grace.saturating_sub(began.elapsed()).max(LAST);
        if timeout(left, ended).await.is_err() {
            tracing::warn!("some responses did not reach their clients in time");
            self.tasks.shutdown().await;
        }
        match timeout(LEAVING, self.app.cleanup.leave_engine()).await {
            Ok(Ok(())) => {}
            Ok(Err(failure)) => tracing::warn!(cause = failure.summary(), "a network remains"),
            Err(_) => tracing::warn!("the engine does not respond; a network may be left"),
        }
        if timeout(CLOSING, write_last_records(&self.app))
            .await
            .is_err()
        {
            tracing::warn!("the last records were not written in time");
        }
        // Leaves one file, which can be copied as it is.
        let _ = timeout(CLOSING, self.catalog.close()).await;
        // Logged to compare it with the files later.
        tracing::info!(head = %self.app.audit.head(), "audit log");
    }
}

/// Connects to the engine. Containers carry the id of their installation.
async fn connect_engine(config: &Config, catalog: &dyn Catalog) -> anyhow::Result<Reconnecting> {
    let server = catalog.setting(INSTALLATION).await?;
    let server = server.context("the catalog has no installation")?;
    let network = config.docker_network.clone();
    let settings = DockerSettings {
        host: config.docker_host.clone(),
        network: network.unwrap_or_else(|| format!("elevo-{}", &server[..8])),
        server,
        limits: config.host_limits,
        registries: config.registries.clone(),
    };
    let host = &config.docker_host;
    Reconnecting::new(settings).await.with_context(|| {
        format!("cannot use the container engine at {host}; set DOCKER_HOST to use another")
    })
}

/// Reconciles everything after a start.
async fn recover(app: &App) -> Result<(), Failure> {
    app.erasure.close_erased().await?;
    app.backups.resume_restored().await;
    app.requests.release_earlier().await;
    app.recovery.run().await
}

/// Marks the catalog as the newest, and closes the audit log.
async fn write_last_records(app: &App) {
    if let Err(error) = app.installation.grow(&*app.catalog).await {
        let cause = format!("{error:#}");
        tracing::warn!(cause, "an older copy of the catalog may not be recognised");
    }
    let ended = Entry {
        event: "server.ended",
        ..Entry::default()
    };
    app.audit.tell(ended).await;
    app.audit.close().await;
}
