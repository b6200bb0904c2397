//! The runtime on a Docker engine.

mod create_request;
#[cfg(target_os = "linux")]
mod disks;
mod engine;
mod failure;
mod firewall;
mod images;
mod internet;
mod logs;
#[cfg(target_os = "linux")]
mod names;
mod registries;
mod rules;
mod runtime;
mod sight;
mod stats;
#[cfg(target_os = "linux")]
mod terminals;

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use bollard::models::ContainerInspectResponse;
use bollard::query_parameters::WaitContainerOptionsBuilder;
use bollard::{API_DEFAULT_VERSION, Docker};
use futures::StreamExt;
use parking_lot::RwLock;

use self::engine::Engine;
use self::failure::Subject;
use self::internet::Internet;
use self::runtime::{ignore_missing_container, state_of};
use crate::error::{Error, Result};
use crate::host_limits::HostLimits;
use crate::runtime::{ContainerId, SandboxRuntime};
use crate::spec::ContainerSpec;

/// Label with the installation that created a container or a network.
const LABEL_SERVER: &str = "elevo.server";
/// Label with the sandbox that a container was created for.
const LABEL_SANDBOX: &str = "elevo.sandbox";
/// Maximum seconds until the engine starts to respond.
const ANSWER_SECONDS: u64 = 60;
/// Maximum time until a killed container has ended, or a deleted container is
/// gone.
const ENDING: Duration = Duration::from_secs(60);
/// Maximum time to read the logs of a container, which have at most 2 MB.
const READING: Duration = Duration::from_secs(60);
/// Pause between two checks of a container that is being deleted.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// The address of the engine, and the settings of this installation on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DockerSettings {
    /// The socket of the engine, such as `unix:///var/run/docker.sock`.
    pub host: String,
    /// The id of this installation. Two installations on one engine do not see
    /// each other's containers.
    pub server: String,
    /// The name of the bridge network of sandboxes with [`Network::Internet`](crate::Network::Internet);
    /// one for each installation.
    pub network: String,
    /// Limits of each sandbox on the machine's network and disks.
    pub limits: HostLimits,
    /// A file like Docker's `config.json`, with credentials for registries.
    pub registries: Option<PathBuf>,
}

/// Sandboxes in containers of a Docker engine on this machine.
///
/// Holds no state except the engine's last report about itself, so any number
/// of instances may exist at the same time.
#[derive(Debug)]
pub struct DockerRuntime {
    docker: Docker,
    settings: DockerSettings,
    engine: RwLock<Engine>,
    internet: Internet,
}

impl DockerRuntime {
    /// Connects to the engine, negotiates the version of its API, and restores
    /// the firewall rules of the network if the network exists.
    pub async fn connect(settings: DockerSettings) -> Result<Self> {
        settings.validate()?;
        let unreachable = |error| failure::translate(&settings.host, Subject::Engine, error);
        let docker = Docker::connect_with_unix(&settings.host, ANSWER_SECONDS, API_DEFAULT_VERSION)
            .map_err(unreachable)?
            .negotiate_version()
            .await
            .map_err(unreachable)?;
        let engine = Engine::read(&docker, &settings.host).await?;
        let runtime = Self {
            internet: Internet::new(docker.clone(), settings.clone()),
            docker,
            settings,
            engine: RwLock::new(engine),
        };
        let info = runtime.engine().info;
        let confinement = info.confinement().join(" ");
        tracing::info!(engine = info.engine, confinement, "container engine");
        if runtime.settings.limits.disk_mib > 0 && info.cgroup_version < 2 {
            tracing::warn!(
                "with cgroup v1 the kernel limits only reads and direct writes of a sandbox, \
                 not delayed writes; boot with cgroup v2"
            );
        }
        if let Err(error) = runtime.internet.repair().await {
            tracing::warn!(%error, "the network `internet` is not available to sandboxes");
        }
        Ok(runtime)
    }

    /// Sets the name resolvers of sandboxes with [`Network::Internet`](crate::Network::Internet), instead
    /// of the resolvers of this machine.
    #[must_use]
    pub fn with_resolvers(mut self, resolvers: Vec<IpAddr>) -> Self {
        self.internet.set_resolvers(resolvers);
        self
    }

    fn error(&self, subject: Subject<'_>, error: bollard::errors::Error) -> Error {
        failure::translate(&self.settings.host, subject, error)
    }

    async fn inspect(&self, id: &ContainerId) -> Result<ContainerInspectResponse> {
        let found = self.docker.inspect_container(id.as_str(), None).await;
        found.map_err(|error| self.error(Subject::Container(id), error))
    }

    fn engine(&self) -> Engine {
        self.engine.read().clone()
    }

    /// Waits until no process runs in the container.
    async fn ended(&self, id: &ContainerId) -> Result<()> {
        let options = WaitContainerOptionsBuilder::default()
            .condition("not-running")
            .build();
        let mut end = Box::pin(self.docker.wait_container(id.as_str(), Some(options)));
        match tokio::time::timeout(ENDING, end.next()).await {
            Err(_) => Err(Error::failed(format!(
                "container `{id}` was killed but has not ended in time; check the container engine"
            ))),
            // The engine reports a nonzero exit code as an error.
            Ok(
                None | Some(Ok(_) | Err(bollard::errors::Error::DockerContainerWaitError { .. })),
            ) => Ok(()),
            Ok(Some(Err(error))) => {
                ignore_missing_container(self.error(Subject::Container(id), error))
            }
        }
    }

    /// Waits until a concurrent call has removed the container.
    async fn gone(&self, id: &ContainerId) -> Result<()> {
        let looking = async {
            while self.status(id).await?.is_some() {
                tokio::time::sleep(LOOK_AGAIN).await;
            }
            Ok(())
        };
        let late = || {
            Error::failed(format!(
                "container `{id}` is being removed but is not gone in time; check the container engine"
            ))
        };
        tokio::time::timeout(ENDING, looking)
            .await
            .map_err(|_| late())?
    }

    /// Limits the number of terminals of a container that has just started. If
    /// the server lacks the privilege for this, the container runs without the
    /// limit, because the host is not at risk.
    #[cfg(target_os = "linux")]
    async fn bound_terminals(&self, id: &ContainerId) -> Result<()> {
        let pid = async || Ok(self.status(id).await?.and_then(|status| status.pid));
        let Some(first) = pid().await? else {
            return Ok(());
        };
        let found = match terminals::Terminals::of(first) {
            Ok(None) => return Ok(()),
            Ok(Some(found)) => found,
            Err(error) => {
                tracing::warn!(%id, %error, "cannot limit the number of terminals of a sandbox");
                return Ok(());
            }
        };
        // If the pid still belongs to the container, it also did when the
        // terminals were opened.
        if pid().await? == Some(first)
            && let Err(error) = found.bound()
        {
            tracing::warn!(%id, %error, "cannot limit the number of terminals of a sandbox");
        }
        Ok(())
    }

    #[cfg(not(target_os = "linux"))]
    async fn bound_terminals(&self, _: &ContainerId) -> Result<()> {
        Ok(())
    }

    /// Prevents a container that has just started from resolving the names of
    /// other containers. The first process is the agent, which resolves no name
    /// before this call. If the call fails, the container still runs, because a
    /// name alone gives no access.
    #[cfg(target_os = "linux")]
    async fn hide_names(&self, id: &ContainerId) -> Result<()> {
        let resolvers = self.internet.resolvers().await;
        if !names::has_reachable_resolver(&resolvers) {
            tracing::warn!(
                %id,
                "no usable resolver except Docker's: a sandbox can resolve the names of other sandboxes"
            );
            return Ok(());
        }
        let found = self.inspect(id).await?;
        let Some(pid) = state_of(&found).pid else {
            return Ok(());
        };
        let failed = |error: std::io::Error| Error::failed(error.to_string());
        let hidden = async {
            let namespace = names::Namespace::of(pid).map_err(failed)?;
            // If the pid still belongs to the container, it also did when the
            // namespace was opened.
            if self.status(id).await?.and_then(|status| status.pid) != Some(pid) {
                return Ok(());
            }
            if let Some(path) = &found.resolv_conf_path {
                names::write_resolvers(path.as_ref(), &resolvers).map_err(failed)?;
            }
            namespace.block_docker_resolver().await
        };
        if let Err(error) = hidden.await {
            tracing::warn!(%id, %error, "a sandbox can resolve the names of other sandboxes");
        }
        Ok(())
    }

    #[cfg(not(target_os = "linux"))]
    async fn hide_names(&self, _: &ContainerId) -> Result<()> {
        Ok(())
    }

    /// Returns the disks that a sandbox uses, if disks have limits.
    #[cfg(target_os = "linux")]
    async fn disks(&self, spec: &ContainerSpec) -> Vec<String> {
        let limits = &self.settings.limits;
        if (limits.disk_mib, limits.disk_operations) == (0, 0) {
            return Vec::new();
        }
        let mounts = spec.mounts.iter().map(|mount| mount.host.clone());
        let paths: Vec<_> = mounts.chain(self.engine().root).collect();
        let find = move || disks::of_paths(paths.iter().map(std::path::PathBuf::as_path));
        tokio::task::spawn_blocking(find).await.unwrap_or_default()
    }

    #[cfg(not(target_os = "linux"))]
    async fn disks(&self, _: &ContainerSpec) -> Vec<String> {
        Vec::new()
    }

    /// Checks the warnings about a new container. If the engine dropped a limit
    /// of the container, deletes the container and fails.
    async fn refuse_warnings(&self, id: &ContainerId, warnings: &[String]) -> Result<()> {
        let Some(warning) = warnings.iter().find(|warning| engine::drops_limit(warning)) else {
            for warning in warnings {
                tracing::warn!(%id, warning, "the engine created a sandbox with a warning");
            }
            return Ok(());
        };
        self.remove(id).await?;
        Err(Error::refused("limits", warning.clone()))
    }
}

impl DockerSettings {
    fn validate(&self) -> Result<()> {
        let word = |text: &str| {
            let fits = |c: char| c.is_ascii_alphanumeric() || "_.-".contains(c);
            (1..=64).contains(&text.len()) && text.chars().all(fits)
        };
        if !self.host.starts_with("unix:///") {
            let why = format!("`{}`: only unix:///PATH is supported", self.host);
            return Err(Error::refused("host", why));
        }
        if !word(&self.server) {
            let why = format!(
                "`{}` is not 1 to 64 letters, digits, `_`, `.` or `-`",
                self.server
            );
            return Err(Error::refused("server", why));
        }
        // Docker uses these names for shared networks and for the host's
        // network.
        let taken = ["bridge", "host", "none", "default"].contains(&self.network.as_str());
        if taken || !word(&self.network) || !self.network.starts_with(char::is_alphanumeric) {
            let why = format!("`{}` is reserved or not a valid network name", self.network);
            return Err(Error::refused("network", why));
        }
        Ok(())
    }
}
