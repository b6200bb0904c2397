//! Settings from a TOML file and from the environment, which takes precedence.
//! They are read once at the start. All problems are reported, not only the
//! first.

pub(crate) mod reader;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use elevo_api::NetworkMode;
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
    /// URL that clients use, if it differs because of a proxy.
    pub public_url: Option<Url>,
    /// Proxies whose `X-Forwarded-For` is trusted.
    pub trusted_proxies: Vec<IpNet>,
    /// A key for the first tenant, with every scope.
    pub api_key: Option<Secret>,
    /// Address of the container engine.
    pub docker_host: String,
    /// Network of sandboxes with access to the internet: an existing network,
    /// or the name of the network that the server creates.
    pub docker_network: Option<String>,
    /// A file with credentials for registries.
    pub registries: Option<PathBuf>,
    /// Binary of the workspace agent. Default: next to the server's binary.
    pub agent_binary: Option<PathBuf>,
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
#[derive(Clone)]
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
}

/// All problems of the settings.
#[derive(Debug, thiserror::Error)]
#[error("{} of the settings cannot be used:\n{}", .0.len(), .0.iter().map(|problem| format!("  - {problem}")).collect::<Vec<_>>().join("\n"))]
pub struct InvalidConfig(pub Vec<String>);

/// Names of the settings in the environment, with their help texts. The file
/// has the same names in lower case.
const SETTINGS: &[(&str, &str)] = &[
    ("DATA_DIR", "directory of all data [/var/lib/elevo]"),
    (
        "WORKSPACE_ROOT",
        "directory of the workspaces [DATA_DIR/workspaces]",
    ),
    (
        "SECRETS_KEY_FILE",
        "file with the key that encrypts variables and webhook secrets, outside of DATA_DIR; \
         created when first needed, and not in backups [DATA_DIR.secrets-key]",
    ),
    ("API_HOST", "address of the API [127.0.0.1]"),
    ("API_PORT", "port of the API, 0 for any [8080]"),
    (
        "METRICS_HOST",
        "address of health, readiness and metrics [127.0.0.1]",
    ),
    (
        "METRICS_PORT",
        "port of health, readiness and metrics, 0 for any [9090]",
    ),
    (
        "GRPC_HOST",
        "address for agents that connect by TCP [127.0.0.1]",
    ),
    (
        "GRPC_PORT",
        "port for agents that connect by TCP; by default, agents use a Unix socket",
    ),
    (
        "ALLOW_PLAIN_HTTP",
        "listen beyond loopback without TLS [false]",
    ),
    ("TLS_CERT", "certificate chain, a PEM file"),
    ("TLS_KEY", "private key of the certificate, a PEM file"),
    (
        "PUBLIC_URL",
        "URL that clients use, if it differs because of a proxy",
    ),
    (
        "TRUSTED_PROXIES",
        "addresses or networks of proxies, separated by commas; their X-Forwarded-For is trusted",
    ),
    (
        "API_KEY",
        "a key for the first tenant, with every scope; at least 32 characters",
    ),
    (
        "DOCKER_HOST",
        "address of the container engine [unix:///var/run/docker.sock]",
    ),
    (
        "DOCKER_NETWORK",
        "network of sandboxes with `internet`: an existing bridge without traffic between \
         containers, or the name of the network that the server creates [elevo-…]",
    ),
    (
        "REGISTRY_AUTH_FILE",
        "a file like Docker's config.json, with credentials for registries [none]",
    ),
    (
        "AGENT_BINARY",
        "binary of the workspace agent [next to the server's binary]",
    ),
    (
        "SANDBOX_USER",
        "UID:GID of all processes in sandboxes; no person should use it [64000:64000; without root, the server's own]",
    ),
    (
        "SANDBOX_CONNECTIONS",
        "maximum connections of a sandbox at a time, 0 for no limit [512]",
    ),
    (
        "SANDBOX_NEW_CONNECTIONS",
        "maximum new connections of a sandbox per second; after idle time, those of ten seconds at once; 0 for no limit [50]",
    ),
    (
        "SANDBOX_NETWORK_RATE",
        "maximum MiB per second that a sandbox sends, and the same for receiving; 0 for no limit [64]",
    ),
    (
        "SANDBOX_DISK_RATE",
        "maximum MiB per second that a sandbox reads from a disk, and the same for writing; 0 for no limit [200]",
    ),
    (
        "SANDBOX_DISK_OPERATIONS",
        "maximum reads of a sandbox from a disk per second, and the same for writes; 0 for no limit [5000]",
    ),
    (
        "DEFAULT_NETWORK",
        "default network of sandboxes: none or internet [internet]",
    ),
    (
        "NETWORKS",
        "networks that sandboxes may use, separated by commas [none,internet]",
    ),
    (
        "DEFAULT_RUNTIME",
        "container runtime, such as runsc [the default of the engine]",
    ),
    (
        "RUNTIMES",
        "other runtimes that sandboxes may use, separated by commas [none]",
    ),
    (
        "WORKSPACE_PROVIDER",
        "provider of workspaces: overlay, reflink or copy [the best that works]",
    ),
    (
        "POOL_SIZE",
        "size of the file of a pool of uppers, if WORKSPACE_ROOT is not on btrfs [100g]",
    ),
    (
        "WARM_POOL",
        "warm pools: TEMPLATE=COUNT [network=…] [runtime=…]; … [none]",
    ),
    (
        "GC_INTERVAL",
        "seconds between garbage collections, 0 for never [86400]",
    ),
    (
        "GC_DISK_PERCENT",
        "disk usage in percent that starts a garbage collection at once [85]",
    ),
    (
        "GC_KEEP_UNNAMED",
        "seconds that unneeded snapshots and versions are kept; at least 3600 [7776000]",
    ),
    (
        "DISK_FULL_PERCENT",
        "disk usage in percent above which requests that need space are rejected [95]",
    ),
    (
        "QUARANTINE_KEEP",
        "seconds that workspaces without a row in the catalog are kept [604800]",
    ),
    ("EVENTS_KEEP", "seconds that events are kept [604800]"),
    (
        "EXPIRED_KEEP",
        "seconds that a parked workspace is kept [604800]",
    ),
    (
        "AUDIT_COMMANDS",
        "part of a command that the audit log records: full, program or none [full]",
    ),
    (
        "AUDIT_KEEP",
        "seconds that the audit log is kept, 0 for forever [0]",
    ),
    (
        "WEBHOOK_URL",
        "URL that all events of this server are sent to",
    ),
    (
        "WEBHOOK_SECRET",
        "secret that signs these deliveries, by HMAC-SHA256",
    ),
    (
        "WEBHOOK_TIMEOUT",
        "seconds that a receiver has to respond [5]",
    ),
    ("WEBHOOK_RETRY", "number of retries of a delivery [3]"),
    (
        "WEBHOOK_ALLOW_PRIVATE",
        "send to loopback and private addresses as well [false]",
    ),
    (
        "DEFAULT_SANDBOX_TIMEOUT",
        "default lifetime of a sandbox in seconds [3600]",
    ),
    (
        "MAX_SANDBOX_LIFETIME",
        "maximum lifetime of a sandbox in seconds, including extensions [86400]",
    ),
    (
        "MAX_SANDBOX_EXTENSION",
        "maximum seconds that one request adds to a lifetime [3600]",
    ),
    ("MAX_SANDBOXES", "maximum sandboxes on this server [100]"),
    (
        "MAX_CONCURRENT_CREATIONS",
        "maximum sandboxes that are created at the same time [10]",
    ),
    ("DEFAULT_CPU", "default processors of a sandbox [2]"),
    ("MAX_CPU", "maximum processors of a sandbox [all]"),
    ("DEFAULT_MEMORY", "default memory of a sandbox [2g]"),
    ("MAX_MEMORY", "maximum memory of a sandbox [16g]"),
    ("DEFAULT_DISK", "default disk of a sandbox [10g]"),
    ("MAX_DISK", "maximum disk of a sandbox [100g]"),
    ("DEFAULT_PIDS", "default processes of a sandbox [512]"),
    ("MAX_PIDS", "maximum processes of a sandbox [4096]"),
    (
        "MAX_TERMINALS",
        "maximum terminals of a sandbox, up to 20 [5]",
    ),
    (
        "DEFAULT_COMMAND_TIMEOUT",
        "default time-out of a command in milliseconds [60000]",
    ),
    (
        "TERMINAL_PATIENCE",
        "seconds that a terminal without a client is kept [300]",
    ),
    (
        "START_TIMEOUT",
        "seconds that a start waits for the agent [60]",
    ),
    (
        "AGENT_TIMEOUT",
        "seconds after which a sandbox without a connection of its agent is in the state error [90]",
    ),
    (
        "STOP_GRACE",
        "seconds that requests and streams have to end when the server stops [30]",
    ),
    (
        "MAX_CONNECTIONS",
        "maximum connections to the API at a time [1024]",
    ),
    (
        "OUTPUT_BUFFER",
        "output that the agent keeps for each process, 64k to 64m [2m]",
    ),
    (
        "RATE_CREATES",
        "sandboxes that a key may create per minute, by default [10]",
    ),
    (
        "RATE_COMMANDS",
        "commands that a key may run per minute, by default [100]",
    ),
    (
        "RATE_REQUESTS",
        "other requests of a key per minute, by default [1000]",
    ),
    (
        "KEY_SANDBOXES",
        "sandboxes of a key at a time, by default [10]",
    ),
    (
        "TENANT_SANDBOXES",
        "sandboxes of a tenant at a time [the limit of the server]",
    ),
    (
        "TENANT_MEMORY",
        "memory of all sandboxes of a tenant [no limit]",
    ),
    (
        "TENANT_DISK",
        "disk of all sandboxes of a tenant [no limit]",
    ),
    (
        "TENANT_STORED",
        "size of all projects and snapshots of a tenant, compressed, with shared content counted once [no limit]",
    ),
    ("TENANT_WORKSPACES", "workspaces of a tenant [1000]"),
    ("TENANT_PROJECTS", "projects of a tenant [1000]"),
    (
        "RATE_TENANT",
        "requests of all keys of a tenant per minute [no limit]",
    ),
    (
        "MAX_ARCHIVE",
        "maximum size of an archive that a client sends [1g]",
    ),
    (
        "OTEL_EXPORTER_OTLP_ENDPOINT",
        "URL of a collector of traces, for OTLP over HTTP, such as http://127.0.0.1:4318 [none]",
    ),
    (
        "TRACE_SAMPLE",
        "fraction of the traces started by this server that is exported, 0 to 1 [1]",
    ),
    ("RUST_LOG", "log filter [info]"),
];

/// Returns the settings with their help texts.
pub fn settings() -> &'static [(&'static str, &'static str)] {
    SETTINGS
}

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
        let mut reader = Reader::default();
        if let Some(text) = file {
            reader.add_file(text);
        }
        for (name, value) in environment {
            if SETTINGS.iter().any(|(known, _)| *known == name) && !value.is_empty() {
                reader.values.insert(name, value);
            }
        }
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
