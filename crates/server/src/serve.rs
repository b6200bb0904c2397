//! The life of a server process: opens the data, recovers from the last stop,
//! listens, and shuts down gracefully.

mod data;
mod listening;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use async_trait::async_trait;
use elevo_agent_link::{AgentLinks, Authenticate, Settings};
use elevo_catalog::secret::SandboxToken;
use elevo_catalog::{Catalog, INSTALLATION};
use elevo_sandbox::{DockerSettings, Reconnecting, SandboxRuntime};
use elevo_store_cluster::ClusterStore;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::app::App;
use crate::app::leases::SESSION;
use crate::app::resources::Parts;
use crate::app::sandboxes::pool::Pool as WarmPool;
use crate::app::stopping::Phase;
use crate::config::Config;
use crate::failure::Failure;
use crate::jobs;
use crate::platform::audit::{Audit, Entry, Level};
use crate::platform::catalog_place::CatalogPlace;
use crate::platform::clock;
use crate::platform::engine_sight::EngineSight;
use crate::platform::installation::{Installation, NODE_PREFIX};
use crate::platform::room::Room;
use crate::platform::store_place::OpenStore;
use crate::serve::data::{open_audit, prepare};
use crate::serve::listening::{listen_for_agents, listen_for_clients};

/// The warning after an adoption.
const ADOPTED: &str = "the catalog, the store and the workspaces were adopted as one installation; no \
                       garbage is collected for a day";
/// Maximum time for open streams to send their last message once the grace
/// period is over.
const CUTTING: Duration = Duration::from_secs(3);
/// Minimum time for the last responses to reach their clients, even if the grace
/// period is over.
const LAST: Duration = Duration::from_secs(5);
/// Maximum time for the container engine to delete unused networks.
const LEAVING: Duration = Duration::from_secs(20);

/// Maximum time for each of the two last steps: writing the last records and
/// closing the catalog. A disk that does not respond must not keep the server
/// from stopping. A catalog that is not closed keeps its last changes in the
/// write-ahead log.
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
    catalog: Arc<dyn Catalog>,
    store: OpenStore,
    addresses: Addresses,
    tasks: JoinSet<anyhow::Result<()>>,
}

/// Authenticates workspace agents: compares their tokens with those of the warm
/// pool and with the hashes in the catalog.
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
        let Ok(sandbox) = sandbox.parse() else {
            return false;
        };
        let found = self.catalog.sandbox_of_any_tenant(&sandbox).await;
        let Ok(Some(found)) = found else {
            return false;
        };
        !found.removing && token.matches(&found.token_hash)
    }
}

impl Server {
    /// Starts a server: opens its data, compares the rows of sandboxes with the
    /// containers, and listens.
    pub async fn start(config: Config) -> anyhow::Result<Self> {
        let store = Self::open_store(&config).await?;
        Self::start_with(config, store, None).await
    }

    /// Starts a server like [`Self::start`], but with `runtime` instead of the
    /// Docker engine of the settings.
    pub async fn start_on(
        config: Config,
        runtime: Arc<dyn SandboxRuntime>,
    ) -> anyhow::Result<Self> {
        let store = Self::open_store(&config).await?;
        Self::start_with(config, store, Some(runtime)).await
    }

    /// Opens the store for [`Self::start_with`]. Fails with a
    /// [`Refusal`](crate::Refusal), and creates nothing, if the store does not
    /// belong to the catalog and the workspaces.
    pub async fn open_store(config: &Config) -> anyhow::Result<OpenStore> {
        // Opening the store writes a few files. On a full disk, only releasing
        // the reserve makes space for them.
        let room = Room::new(config);
        tokio::task::spawn_blocking(move || room.make_way()).await?;
        let installation = Installation::new(config);
        installation.check().await?;
        installation.open_store().await
    }

    /// Starts a server like [`Self::start`], but with a store that is already
    /// open. `runtime` replaces the Docker engine of the settings, if given.
    pub async fn start_with(
        mut config: Config,
        store: OpenStore,
        runtime: Option<Arc<dyn SandboxRuntime>>,
    ) -> anyhow::Result<Self> {
        crate::platform::metrics::begin();
        prepare(&config)?;
        let catalog = CatalogPlace::of(&config).open().await?;
        let installation = Arc::new(Installation::with_store(&config, &store));
        let node_name = installation.node_name()?;
        if installation.stamp(&*catalog).await? {
            tracing::warn!("{ADOPTED}");
        }
        let runtime = match runtime {
            Some(runtime) => runtime,
            None => Arc::new(connect_engine(&config, &*catalog, &node_name).await?),
        };
        let sight = EngineSight::look(&*runtime, &config).await;
        sight.adapt(&mut config);
        let pool = Arc::new(WarmPool::default());
        let audit = open_audit(&config).await?;
        let tokens = Tokens {
            catalog: catalog.clone(),
            pool: pool.clone(),
            audit: audit.clone(),
        };
        let links = AgentLinks::new(Arc::new(tokens), link_settings(&config));
        let node = catalog
            .begin_session(&node_name, SESSION, clock::now())
            .await?;
        // From here on, no restore can give the catalog to another installation.
        installation.verify(&*catalog).await?;
        let parts = Parts {
            node,
            catalog: catalog.clone(),
            runtime,
            sight,
            links,
            pool,
            store: store.store(),
            local_store: store.local(),
            installation,
            audit,
        };
        let app = Arc::new(App::new(config, parts));
        app.tenants.adopt_given_key().await?;
        app.secrets.open().await?;
        app.webhooks.adopt_configured().await?;
        let mut tasks = JoinSet::new();
        // The recovery can take longer than a session lasts.
        take_part(&app, &store, &mut tasks);
        // Agents of running sandboxes reconnect at once, and the recovery
        // checks whether they do. Clients must wait until it is finished.
        listen_for_agents(&app, &mut tasks).await?;
        recover(&app)
            .await
            .context("cannot recover from the last stop")?;
        let addresses = listen_for_clients(&app, &mut tasks).await?;
        crate::http::admin_socket::listen(&app, &mut tasks)?;
        let working = app.clone();
        tasks.spawn(async move { jobs::run(working).await });
        Ok(Self {
            app,
            catalog,
            store,
            addresses,
            tasks,
        })
    }

    /// Returns the addresses that the server listens on.
    pub fn addresses(&self) -> Addresses {
        self.addresses
    }

    /// Returns the services, for callers in the same process.
    pub fn app(&self) -> &Arc<App> {
        &self.app
    }

    /// Returns the name of a template, if there is one.
    pub async fn any_template(&self) -> Option<String> {
        self.app.templates.any().await.ok().flatten()
    }

    /// Waits until a listener or the jobs end while the server should be
    /// running, and returns the cause.
    pub async fn failed(&mut self) -> anyhow::Error {
        match self.tasks.join_next().await {
            Some(Ok(Err(error))) => error,
            Some(Err(error)) => error.into(),
            Some(Ok(Ok(()))) | None => {
                anyhow::anyhow!("a listener or the background jobs ended unexpectedly")
            }
        }
    }

    /// Stops the server: rejects new requests, waits at most `STOP_GRACE` for
    /// running requests and streams, and closes the catalog and the audit log.
    /// Sandboxes and their processes keep running. If there are no sandboxes,
    /// the networks of the server are deleted.
    pub async fn stop(mut self) {
        let began = clock::instant();
        let grace = self.app.config.limits.stop_grace;
        self.app.stopping.enter(Phase::Draining);
        if timeout(grace, self.app.stopping.idle()).await.is_err() {
            tracing::warn!("some requests did not end within STOP_GRACE and are cancelled");
            self.app.stopping.enter(Phase::Cutting);
            let _ = timeout(CUTTING, self.app.stopping.idle()).await;
        }
        self.app.stopping.enter(Phase::Ended);
        let ended = async { while self.tasks.join_next().await.is_some() {} };
        let left = grace.saturating_sub(began.elapsed()).max(LAST);
        if timeout(left, ended).await.is_err() {
            tracing::warn!("some responses did not reach their clients in time and are cancelled");
            self.tasks.shutdown().await;
        }
        match timeout(LEAVING, self.app.cleanup.leave_engine()).await {
            Ok(Ok(())) => {}
            Ok(Err(failure)) => tracing::warn!(
                cause = failure.summary(),
                "cannot delete the unused networks of the server"
            ),
            Err(_) => {
                tracing::warn!("the container engine does not respond; unused networks may remain")
            }
        }
        let catalog = timeout(CLOSING, leave_catalog(&self.app)).await;
        // The audit log is closed even if the catalog does not respond.
        let audit = timeout(CLOSING, close_audit(&self.app)).await;
        if catalog.is_err() || audit.is_err() {
            tracing::warn!(
                "the last records of the catalog and the audit log were not written in time"
            );
        }
        if let Some(store) = self.store.cluster() {
            // Otherwise the next collection waits until this server counts as lost.
            let _ = timeout(CLOSING, store.close()).await;
        }
        // Closing moves the write-ahead log into the database, so that a copy
        // of that one file is complete.
        let _ = timeout(CLOSING, self.catalog.close()).await;
        // The operator can compare this hash with the files of the audit log to
        // detect a change of the files.
        tracing::info!(head = %self.app.audit.head(), "head of the audit log");
    }
}

/// Keeps the session of the server, and ends the server when it is not one of those
/// that use the store any more.
fn take_part(app: &Arc<App>, store: &OpenStore, tasks: &mut JoinSet<anyhow::Result<()>>) {
    let renewing = app.clone();
    tasks.spawn(async move { keep_session(&renewing).await });
    if let Some(store) = store.cluster() {
        let ending = app.clone();
        tasks.spawn(async move { end_when_lost(&ending, &store).await });
    }
}

/// Renews the session of the server until its requests have ended.
async fn keep_session(app: &App) -> anyhow::Result<()> {
    tokio::select! {
        () = app.stopping.entered(Phase::Ended) => Ok(()),
        () = app.leases.keep_session() => anyhow::bail!(
            "another server has begun to use the catalog of this one; stop one of them, or give \
             each a database"
        ),
    }
}

/// Waits until the other servers have declared the store of this one lost, for
/// example because this server was paused. It must open the store again.
async fn end_when_lost(app: &App, store: &ClusterStore) -> anyhow::Result<()> {
    tokio::select! {
        () = app.stopping.entered(Phase::Ended) => Ok(()),
        () = store.lost() => anyhow::bail!(
            "this server did not report to the database of the store in time, so the other \
             servers continue without it; start it again"
        ),
    }
}

fn link_settings(config: &Config) -> Settings {
    Settings {
        terminals: config.limits.terminals,
        output_buffer: config.limits.output_buffer,
        // The server considers an agent lost after `agent_timeout`, which must be
        // at least three heartbeats.
        heartbeat: (config.limits.agent_timeout / 3).min(Settings::default().heartbeat),
        observe: Some(crate::platform::trace::agent_did),
        ..Settings::default()
    }
}

/// Connects to the container engine of the settings. The runtime labels each
/// container with the id of the installation or, if several servers share its
/// catalog, with that of the node: a server deletes containers with its label that
/// it does not know, and several servers can use one engine.
async fn connect_engine(
    config: &Config,
    catalog: &dyn Catalog,
    node: &str,
) -> anyhow::Result<Reconnecting> {
    let installation = catalog.setting(INSTALLATION).await?;
    let installation = installation.context("the catalog has no installation id")?;
    let of_node = node.strip_prefix(NODE_PREFIX).map(str::to_owned);
    let server = of_node.unwrap_or(installation);
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

/// Brings the data, the sandboxes and the open requests of the last server
/// process into a consistent state.
async fn recover(app: &App) -> Result<(), Failure> {
    app.erasure.close_erased().await?;
    if !app.installation.is_alone() {
        app.stores.open_all().await;
    }
    app.backups.resume_restored().await;
    app.requests.release_earlier().await;
    app.recovery.run().await?;
    if let Err(failure) = app.templates.add_first().await {
        let cause = failure.summary();
        tracing::warn!(cause, "cannot add the template of the release");
    }
    Ok(())
}

/// Increments the generation in the catalog and the store, by which the next start
/// detects an older copy of either, and ends the session of the server.
async fn leave_catalog(app: &App) {
    if let Err(error) = app.installation.grow(&*app.catalog).await {
        let cause = format!("{error:#}");
        tracing::warn!(
            cause,
            "cannot increment the generation of the catalog; an older copy of it may not be \
             detected"
        );
    }
    app.leases.end_session().await;
}

async fn close_audit(app: &App) {
    let ended = Entry {
        event: "server.ended",
        ..Entry::default()
    };
    app.audit.tell(ended).await;
    app.audit.close().await;
}
