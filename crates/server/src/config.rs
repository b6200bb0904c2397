//! Settings from a TOML file and from the environment, which takes precedence.
//! They are read once at the start. All problems are reported, not only the
//! first.

pub(crate) mod descriptions;
pub(crate) mod reader;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use elevo_api::NetworkMode;
use elevo_store_cluster::{BucketOptions, CacheOptions};
use ipnet::IpNet;
use reqwest::Url;

use crate::config::reader::Reader;
use crate::platform::clock::Clocks;

/// All settings of the server.
#[derive(Clone, Debug)]
pub struct Config {
    /// Directory of all data.
    pub data_dir: PathBuf,
    /// Directory of the workspaces; `workspaces` in the data directory by
    /// default.
    pub workspace_root: PathBuf,
    /// File with the keys that encrypt secrets, outside of the data directory.
    pub secrets_key_file: PathBuf,
    /// The database of the catalog; by default, the catalog is a file in the
    /// data directory.
    pub catalog: Option<CatalogDatabase>,
    /// The database and the bucket of the store; by default, the store is in the
    /// data directory.
    pub store: Option<StoreDatabase>,
    /// Whether to start with a catalog, a store and workspaces that do not
    /// belong together. Only the option `--adopt` of the command line sets it.
    pub adopt: bool,
    /// Address of the API.
    pub api: SocketAddr,
    /// Address of health, readiness and metrics.
    pub metrics: SocketAddr,
    /// Address for agents that connect by TCP, if enabled.
    pub grpc: Option<SocketAddr>,
    /// Whether to allow addresses beyond loopback without TLS.
    pub allow_plain_http: bool,
    /// Certificate chain and key, as PEM files.
    pub tls: Option<Tls>,
    /// URL that clients use, if a proxy makes it differ from `api`.
    pub public_url: Option<Url>,
    /// The domain whose hosts are ports of sandboxes, and its port if clients
    /// need one.
    pub ports_domain: Option<String>,
    /// Proxies whose `X-Forwarded-…` headers are trusted.
    pub trusted_proxies: Vec<IpNet>,
    /// Origins of web pages that may use the API, besides those of the server.
    pub allowed_origins: Vec<String>,
    /// A key for the first tenant, with every scope.
    pub api_key: Option<Secret>,
    /// Address of the container engine.
    pub docker_host: String,
    /// Network of sandboxes with access to the internet: an existing network,
    /// or the name of the network that the server creates.
    pub docker_network: Option<String>,
    /// A file with credentials for registries.
    pub registries: Option<PathBuf>,
    /// Binary of the workspace agent. Default: the one inside the server's
    /// binary, or else next to it.
    pub agent_binary: Option<PathBuf>,
    /// The workspace agent that the server's binary contains. No setting.
    pub agent_inside: Option<&'static [u8]>,
    /// Directory with the documentation and the image of the first template.
    pub share_dir: Option<PathBuf>,
    /// User and group of all processes in sandboxes.
    pub sandbox_user: (u32, u32),
    /// Limits of each sandbox on the use of the machine's network and disks.
    pub host_limits: elevo_sandbox::HostLimits,
    /// Network of sandboxes whose request does not name a network.
    pub default_network: NetworkMode,
    /// Networks that sandboxes may use.
    pub networks: Vec<NetworkMode>,
    /// Container runtime, if it is not the engine's default.
    pub default_runtime: Option<String>,
    /// Other runtimes that sandboxes may use.
    pub runtimes: Vec<String>,
    /// Provider of workspaces. Default: the best provider that works on this
    /// machine.
    pub provider: Option<String>,
    /// Size of the file that holds a pool of uppers, if the server has to
    /// create one.
    pub pool_size: u64,
    /// Warm pools.
    pub warm: Vec<WarmPool>,
    /// Schedule of garbage collection, and retention of unneeded snapshots.
    pub garbage: Garbage,
    /// Time that workspaces without a row in the catalog are kept in
    /// quarantine.
    pub quarantine_keep: Duration,
    /// Delivery of events.
    pub webhooks: Webhooks,
    /// Time that events are kept.
    pub events_keep: Duration,
    /// Time that a parked workspace is kept.
    pub expired_keep: Duration,
    /// Disk usage, in percent, above which requests that need space are
    /// rejected.
    pub full_percent: u8,
    /// Content and retention of the audit log.
    pub audit: AuditConfig,
    /// Limits.
    pub limits: Limits,
    /// Export of traces, if enabled.
    pub traces: Option<TracesConfig>,
    /// Log filter, in the form of `RUST_LOG`.
    pub log: String,
    /// The clocks that determine expiry; the machine's clocks by default.
    pub clocks: Clocks,
}

/// A warm pool: equal sandboxes that are started before a request needs them.
/// Absent values have the same defaults as for a sandbox.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WarmPool {
    /// Template of the sandboxes.
    pub template: String,
    /// Number of sandboxes.
    pub size: u32,
    /// Network of the sandboxes.
    pub network: Option<NetworkMode>,
    /// Runtime of the sandboxes.
    pub runtime: Option<String>,
}

/// A PostgreSQL database for the catalog.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CatalogDatabase {
    /// URL of the database, with one host or several.
    pub url: Secret,
    /// URL without a pooler, if `url` is that of a pooler.
    pub direct_url: Option<Secret>,
    /// Maximum connections for requests and jobs.
    pub connections: u32,
}

/// A PostgreSQL database and an S3 bucket for the store.
#[derive(Clone, Debug)]
pub struct StoreDatabase {
    /// URL of the database, with one host or several.
    pub url: Secret,
    /// Maximum connections.
    pub connections: u32,
    /// The bucket.
    pub bucket: BucketOptions,
    /// The local cache.
    pub cache: CacheOptions,
    /// Time for which an unused file stays in the bucket.
    pub grace: Duration,
}

impl StoreDatabase {
    /// Reads the place of a store outside of a server: its bucket and credentials
    /// are in the settings `S3_…` of the file or the environment. There is no cache
    /// on disk, which a server may use.
    pub fn read(
        url: &str,
        file: Option<&str>,
        environment: impl IntoIterator<Item = (String, String)>,
    ) -> Result<Self, InvalidConfig> {
        let mut reader = Reader::read(file, environment);
        for (name, value) in [("STORE_URL", url), ("STORE_CACHE_SIZE", "0")] {
            reader.values.insert(name.into(), value.into());
        }
        let store = reader.store(Path::new("/"));
        match store.filter(|_| reader.problems.is_empty()) {
            Some(store) => Ok(store),
            None => Err(InvalidConfig(reader.problems)),
        }
    }

    /// Returns the options of the store. `adopts` is true if an older copy of the
    /// database is accepted.
    pub fn options(&self, adopts: bool) -> elevo_store_cluster::Options {
        elevo_store_cluster::Options {
            connections: self.connections,
            cache: self.cache.clone(),
            grace: self.grace,
            adopts,
            ..elevo_store_cluster::Options::new(self.url.0.clone(), self.bucket.clone())
        }
    }
}

/// Content and retention of the audit log.
#[derive(Clone, Copy, Debug)]
pub struct AuditConfig {
    /// The part of a command that is recorded.
    pub commands: AuditedCommands,
    /// Time that records are kept; forever if absent.
    pub keep: Option<Duration>,
}

/// Export of traces.
#[derive(Clone, Debug)]
pub struct TracesConfig {
    /// URL of the collector, for OTLP over HTTP.
    pub endpoint: String,
    /// Fraction of the traces that is exported, from 0 to 1. It applies to
    /// traces that this server starts.
    pub sample: f64,
}

/// The part of a command that the audit log records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuditedCommands {
    /// The whole command.
    Full,
    /// The first word of the command, and a hash of the whole command.
    Program,
    /// Only that a command was run.
    None,
}

/// Delivery of events.
#[derive(Clone, Debug)]
pub struct Webhooks {
    /// URL for all events of this server, if any.
    pub url: Option<String>,
    /// Secret that signs these deliveries.
    pub secret: Option<Secret>,
    /// Maximum time for a receiver to respond.
    pub timeout: Duration,
    /// Number of retries of a delivery.
    pub retries: u32,
    /// Whether receivers may have addresses that are not public.
    pub allow_private: bool,
}

/// Schedule of garbage collection.
#[derive(Clone, Debug)]
pub struct Garbage {
    /// Time between collections; no scheduled collections if absent.
    pub interval: Option<Duration>,
    /// Disk usage, in percent, that starts a collection at once.
    pub disk_percent: u8,
    /// Time that the server keeps snapshots that no project, workspace, review
    /// or tag needs.
    pub keep_unnamed: Duration,
}

/// Text that `Debug` does not show.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(pub String);

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// Files of a TLS certificate.
#[derive(Clone, Debug)]
pub struct Tls {
    /// Certificate chain.
    pub certificate: PathBuf,
    /// Private key.
    pub key: PathBuf,
}

/// Limits of the server, and defaults of sandboxes.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Default lifetime of a sandbox.
    pub default_timeout: Duration,
    /// Maximum lifetime of a sandbox, including extensions.
    pub max_lifetime: Duration,
    /// Maximum extension of a lifetime by one request.
    pub max_extension: Duration,
    /// Maximum sandboxes on this server.
    pub max_sandboxes: u32,
    /// Maximum sandboxes that are created at the same time.
    pub max_concurrent_creations: u32,
    /// Thousandths of a processor: default and maximum.
    pub cpu: (u32, u32),
    /// Bytes of memory: default and maximum.
    pub memory: (u64, u64),
    /// Bytes of a workspace: default and maximum.
    pub disk: (u64, u64),
    /// Processes: default and maximum.
    pub pids: (u32, u32),
    /// Maximum terminals of a sandbox.
    pub terminals: u32,
    /// Bytes of output that the agent keeps for each process.
    pub output_buffer: u32,
    /// Default time-out of a command.
    pub command_timeout: Duration,
    /// Time that a terminal without a client is kept.
    pub terminal_patience: Duration,
    /// Maximum time for a program behind a port to begin its response.
    pub port_timeout: Duration,
    /// Maximum requests to the ports of a sandbox at a time.
    pub port_requests: u32,
    /// Maximum time that a start waits for the agent.
    pub start_timeout: Duration,
    /// Maximum time that a running container may be without a connection of its
    /// agent.
    pub agent_timeout: Duration,
    /// Maximum time for requests and streams to end when the server stops.
    pub stop_grace: Duration,
    /// Maximum connections to the API at a time.
    pub connections: u32,
    /// Default limits of keys.
    pub key: elevo_catalog::KeyLimits,
    /// Default limits of tenants.
    pub tenant: elevo_catalog::TenantLimits,
    /// Maximum size of an archive that a client sends.
    pub max_archive: u64,
    /// Maximum size of a single file that a client uploads.
    pub max_file: u64,
}

impl Limits {
    /// Returns the maximum bytes of an archive. `max_archive` applies to the
    /// files; a tar also has headers and padding.
    pub(crate) fn most_archive_bytes(&self) -> u64 {
        self.max_archive.saturating_mul(2).saturating_add(64 << 20)
    }
}

/// All problems of the settings.
#[derive(Debug, thiserror::Error)]
#[error("the settings cannot be used:\n{}", .0.iter().map(|problem| format!("  - {problem}")).collect::<Vec<_>>().join("\n"))]
pub struct InvalidConfig(pub Vec<String>);

/// Returns the default key file, which is next to the data directory.
pub fn secrets_key_file(data_dir: &Path) -> PathBuf {
    let name = data_dir.file_name().unwrap_or("elevo".as_ref());
    let mut name = name.to_owned();
    name.push(".secrets-key");
    data_dir.with_file_name(name)
}

impl Config {
    /// Reads settings from a file, where names are in lower case, and from the
    /// environment, which takes precedence.
    pub fn read(
        file: Option<&str>,
        environment: impl IntoIterator<Item = (String, String)>,
    ) -> Result<Self, InvalidConfig> {
        let mut reader = Reader::read(file, environment);
        let config = reader.config();
        match reader.problems.is_empty() {
            true => Ok(config),
            false => Err(InvalidConfig(reader.problems)),
        }
    }

    /// Returns the default settings for a data directory.
    pub fn for_data(data_dir: &Path) -> Self {
        let data = data_dir.to_string_lossy().into_owned();
        let mut reader = Reader::default();
        reader.values.insert("DATA_DIR".into(), data);
        Self {
            data_dir: data_dir.into(),
            workspace_root: data_dir.join("workspaces"),
            secrets_key_file: secrets_key_file(data_dir),
            ..reader.config()
        }
    }
}

#[cfg(test)]
mod tests;
