//! The server as a whole: from settings to listening, and to a graceful
//! shutdown.

use std::fs::{self, File};
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use async_trait::async_trait;
use elevo_agent_link::{AgentLinks, Authenticate, Settings};
use elevo_catalog::secret::SandboxToken;
use elevo_catalog::{Catalog, INSTALLATION, SqliteCatalog, SqliteOptions};
use elevo_sandbox::{DockerSettings, Reconnecting, SandboxRuntime};
use elevo_store_local::LocalStore;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::app::App;
use crate::app::resources::Parts;
use crate::app::sandboxes::pool::Pool as WarmPool;
use crate::app::stopping::Phase;
use crate::config::Config;
use crate::http::{self, RateLimits, Shared};
use crate::jobs;
use crate::platform::audit::{Audit, Entry, Level};
use crate::platform::installation::Installation;
use crate::platform::listen::{Certificate, Door};
use crate::platform::privacy::{close, private_directory};
use crate::platform::room::Room;
use crate::platform::{clock, descriptors};

/// Time for streams to announce their end.
const CUTTING: Duration = Duration::from_secs(3);
/// Time for the last responses to reach their clients.
const LAST: Duration = Duration::from_secs(5);
/// Time for the engine to delete unused networks.
const LEAVING: Duration = Duration::from_secs(20);

/// Interval at which the files of the certificate are checked.
const CERTIFICATE: Duration = Duration::from_secs(5);

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
        app.recovery
            .run()
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
        match timeout(LEAVING, self.app.recovery.leave_engine()).await {
            Ok(Ok(())) => {}
            Ok(Err(failure)) => tracing::warn!(cause = failure.summary(), "a network remains"),
            Err(_) => tracing::warn!("the engine does not respond; a network may be left"),
        }
        if timeout(CLOSING, self.app.write_last_records())
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

impl App {
    /// Marks the catalog as the newest, and closes the audit log.
    async fn write_last_records(&self) {
        if let Err(error) = self.installation.grow(&*self.catalog).await {
            let cause = format!("{error:#}");
            tracing::warn!(cause, "an older copy of the catalog may not be recognised");
        }
        let ended = Entry {
            event: "server.ended",
            ..Entry::default()
        };
        self.audit.tell(ended).await;
        self.audit.close().await;
    }
}

async fn open_audit(config: &Config) -> anyhow::Result<Arc<Audit>> {
    let (directory, settings) = (config.data_dir.join("audit"), config.audit);
    let opening = tokio::task::spawn_blocking(move || Audit::open(&directory, settings));
    let audit = opening.await?.context("cannot open the audit log")?;
    tracing::info!(head = %audit.head(), "audit log");
    let started = Entry {
        event: "server.started",
        ..Entry::default()
    };
    audit.tell(started).await;
    Ok(Arc::new(audit))
}

/// Creates the directories, and installs the agent where containers see it.
fn prepare(config: &Config) -> anyhow::Result<()> {
    let data = &config.data_dir;
    for path in [
        data.clone(),
        config.workspace_root.clone(),
        data.join("run"),
    ] {
        let made = private_directory(&path);
        made.with_context(|| format!("cannot create {}", path.display()))?;
    }
    let store = data.join("store");
    close(&store).with_context(|| format!("cannot restrict access to {}", store.display()))?;
    // Containers see these two through mounts, with these modes.
    for path in [data.join("run/agents"), data.join("agent")] {
        let made = fs::create_dir_all(&path);
        made.with_context(|| format!("cannot create {}", path.display()))?;
    }
    fs::set_permissions(data.join("run/agents"), fs::Permissions::from_mode(0o755))?;
    fs::set_permissions(data.join("agent"), fs::Permissions::from_mode(0o755))?;
    // Left by a killed server.
    let _ = fs::remove_dir_all(data.join("scratch"));
    install_agent(config)
}

/// Installs the agent. Without it the server starts, but cannot create
/// sandboxes.
fn install_agent(config: &Config) -> anyhow::Result<()> {
    let from = match &config.agent_binary {
        Some(path) => path.clone(),
        None => {
            let own = std::env::current_exe().context("cannot find this program's own file")?;
            own.with_file_name("workspace-agent")
        }
    };
    if config.agent_binary.is_none() && !from.is_file() {
        let path = from.display();
        tracing::warn!(%path, "the agent is missing; sandboxes cannot start without it");
        return Ok(());
    }
    let into = config.data_dir.join("agent/workspace-agent");
    // The agent is large: a start on a full disk should not need space for it.
    if is_same(&from, &into) {
        return Ok(());
    }
    let temporary = config.data_dir.join("agent/.new");
    let copied = fs::copy(&from, &temporary).and_then(|_| {
        fs::set_permissions(&temporary, fs::Permissions::from_mode(0o755))?;
        fs::rename(&temporary, &into)
    });
    copied.with_context(|| {
        let from = from.display();
        format!("cannot use the agent {from}; build it with scripts/agent and set AGENT_BINARY")
    })
}

/// Whether two files have the same content.
fn is_same(one: &Path, other: &Path) -> bool {
    let (Ok(one), Ok(other)) = (File::open(one), File::open(other)) else {
        return false;
    };
    let length = |file: &File| file.metadata().map(|stat| stat.len()).ok();
    if length(&one) != length(&other) {
        return false;
    }
    let hash = |file: File| {
        let mut hasher = blake3::Hasher::new();
        hasher.update_reader(file).map(|hasher| hasher.finalize())
    };
    matches!((hash(one), hash(other)), (Ok(one), Ok(other)) if one == other)
}

async fn open_catalog(config: &Config) -> anyhow::Result<Arc<SqliteCatalog>> {
    let path = config.data_dir.join("catalog.db");
    let catalog = SqliteCatalog::open(&path, &SqliteOptions::default()).await;
    let catalog = catalog.with_context(|| format!("cannot open {}", path.display()))?;
    Ok(Arc::new(catalog))
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

async fn listen_for_agents(
    app: &Arc<App>,
    tasks: &mut JoinSet<anyhow::Result<()>>,
) -> anyhow::Result<()> {
    let socket = app.config.data_dir.join("run/agents/agent.sock");
    let (links, stopping) = (app.links.clone(), app.clone());
    tasks.spawn(async move {
        let stop = async move { stopping.stopping.entered(Phase::Ended).await };
        links
            .serve_unix(&socket, stop)
            .await
            .context("agents cannot connect")
    });
    if let Some(address) = app.config.grpc {
        let listener = bind(address).await?;
        let (links, stopping) = (app.links.clone(), app.clone());
        tasks.spawn(async move {
            let stop = async move { stopping.stopping.entered(Phase::Ended).await };
            links
                .serve_tcp(listener, stop)
                .await
                .context("agents cannot connect")
        });
    }
    Ok(())
}

async fn listen_for_clients(
    app: &Arc<App>,
    tasks: &mut JoinSet<anyhow::Result<()>>,
) -> anyhow::Result<Addresses> {
    let api = bind(app.config.api).await?;
    let metrics = bind(app.config.metrics).await?;
    let addresses = Addresses {
        api: api.local_addr()?,
        metrics: metrics.local_addr()?,
    };
    let shared = Shared {
        app: app.clone(),
        rates: Arc::new(RateLimits::default()),
    };
    let tls = match &app.config.tls {
        Some(tls) => Some(Arc::new(Certificate::read(tls)?)),
        None => None,
    };
    if let Some(tls) = tls.clone() {
        let stopping = app.clone();
        tasks.spawn(async move {
            tokio::select! {
                () = stopping.stopping.entered(Phase::Ended) => {}
                () = refresh(&tls) => {}
            }
            Ok(())
        });
    }
    let most = descriptors::for_connections(descriptors::raise()?, app.config.limits.connections);
    let trusted: Arc<[_]> = app.config.trusted_proxies.clone().into();
    let api = Door {
        trusted: trusted.clone(),
        listener: api,
        tls,
        most,
        router: http::router(shared.clone()),
    };
    let internal = Door {
        trusted,
        listener: metrics,
        tls: None,
        most: 64,
        router: http::internal_router(shared),
    };
    for door in [api, internal] {
        let (stop, stopping) = (CancellationToken::new(), app.clone());
        tasks.spawn(async move {
            let ended = async { stopping.stopping.entered(Phase::Ended).await };
            let cancelling = async {
                ended.await;
                stop.cancel();
            };
            tokio::join!(door.serve(stop.clone()), cancelling);
            Ok(())
        });
    }
    Ok(addresses)
}

/// Checks for a new certificate at intervals.
async fn refresh(certificate: &Arc<Certificate>) {
    let mut last = String::new();
    loop {
        tokio::time::sleep(CERTIFICATE).await;
        let looking = certificate.clone();
        match tokio::task::spawn_blocking(move || looking.refresh()).await {
            Ok(Ok(false)) | Err(_) => {}
            Ok(Ok(true)) => {
                tracing::info!("new connections use the new certificate");
                last.clear();
            }
            Ok(Err(error)) => {
                let cause = format!("{error:#}");
                // A file that stays missing is reported once.
                if cause != last {
                    tracing::warn!(cause, "the new certificate is not used");
                }
                last = cause;
            }
        }
    }
}

async fn bind(address: SocketAddr) -> anyhow::Result<TcpListener> {
    let bound = TcpListener::bind(address).await;
    bound.with_context(|| format!("cannot listen on {address}; is another server running?"))
}
