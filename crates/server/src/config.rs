//! Settings: a TOML file, then the environment over it. Read once at start;
//! every problem is named, not only the first.

mod reader;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use elevo_api::NetworkMode;
use ipnet::IpNet;
use reqwest::Url;

use crate::clock::Clocks;

use reader::Reader;

/// All settings of the server.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where everything is kept.
    pub data_dir: PathBuf,
    /// Where workspaces are kept; below the data directory unless set.
    pub workspace_root: PathBuf,
    /// The file with the keys of secrets, outside of the data directory.
    pub secrets_key_file: PathBuf,
    /// Whether a start takes over a catalog, store and workspaces that do not
    /// belong together. Only the command line sets it.
    pub adopt: bool,
    /// Where the API listens.
    pub api: SocketAddr,
    /// Where health, readiness and metrics are.
    pub metrics: SocketAddr,
    /// Where agents connect by TCP, if they shall.
    pub grpc: Option<SocketAddr>,
    /// Whether an address that is not loopback may be without TLS.
    pub allow_plain_http: bool,
    /// Certificate chain and key, as PEM files.
    pub tls: Option<Tls>,
    /// The address that clients use, if a proxy is in front.
    pub public_url: Option<Url>,
    /// Proxies whose `X-Forwarded-For` is believed.
    pub trusted_proxies: Vec<IpNet>,
    /// A key for the first tenant, given from outside.
    pub api_key: Option<Secret>,
    /// The container engine.
    pub docker_host: String,
    /// The name of the network of sandboxes that reach the internet: one that an
    /// operator has made, or else the name of ours.
    pub docker_network: Option<String>,
    /// A file with credentials for registries.
    pub registries: Option<PathBuf>,
    /// The agent's binary; beside the server's if not set.
    pub agent_binary: Option<PathBuf>,
    /// User and group of everything in sandboxes.
    pub sandbox_user: (u32, u32),
    /// Limits of each sandbox for the machine's network and disks.
    pub host_limits: elevo_sandbox::HostLimits,
    /// What sandboxes reach if they don't say.
    pub default_network: NetworkMode,
    /// The networks that sandboxes may have.
    pub networks: Vec<NetworkMode>,
    /// The runtime of containers, if not the engine's own.
    pub default_runtime: Option<String>,
    /// Other runtimes that sandboxes may name.
    pub runtimes: Vec<String>,
    /// How workspaces are made; the best way that works here if not set.
    pub provider: Option<String>,
    /// The size of the file of the pool of workspaces, if one has to be made.
    pub pool_size: u64,
    /// Sandboxes that are started before they are asked for.
    pub warm: Vec<WarmPool>,
    /// What becomes of snapshots that nobody needs.
    pub garbage: Garbage,
    /// How long workspaces are kept that the catalog does not know.
    pub quarantine_keep: Duration,
    /// How events are sent.
    pub webhooks: Webhooks,
    /// How long what happened is known.
    pub events_keep: Duration,
    /// How long a parked workspace is kept.
    pub expired_keep: Duration,
    /// How full a disk is, in percent, when nothing new is taken any more.
    pub full_percent: u8,
    /// What is written down of requests.
    pub audit: AuditConfig,
    /// Limits.
    pub limits: Limits,
    /// Where traces are told, if anywhere.
    pub traces: Option<TracesConfig>,
    /// What is logged, in the form of `RUST_LOG`.
    pub log: String,
    /// The clocks that decide what has expired: those of the machine.
    pub clocks: Clocks,
}

/// Some sandboxes that are alike, started before they are asked for. What is not
/// said here is as for a sandbox that does not say it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WarmPool {
    /// The template.
    pub template: String,
    /// How many.
    pub size: u32,
    /// What they reach.
    pub network: Option<NetworkMode>,
    /// What runs them.
    pub runtime: Option<String>,
}

/// What is written down of requests.
#[derive(Clone, Copy, Debug)]
pub struct AuditConfig {
    /// How much of commands.
    pub commands: AuditedCommands,
    /// For how long; for ever if not set.
    pub keep: Option<Duration>,
}

/// Where traces are told.
#[derive(Clone, Debug)]
pub struct TracesConfig {
    /// The collector, by OTLP over HTTP.
    pub endpoint: String,
    /// Which part of the traces that begin here, from 0 to 1.
    pub sample: f64,
}

/// How much of a command is written down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuditedCommands {
    /// All of it.
    Full,
    /// Its first word, and a hash of it.
    Program,
    /// That there was one.
    None,
}

/// How events are sent.
#[derive(Clone, Debug)]
pub struct Webhooks {
    /// Where all events of this server go, if anywhere.
    pub url: Option<String>,
    /// What they are signed with.
    pub secret: Option<Secret>,
    /// How long a receiver has to answer.
    pub timeout: Duration,
    /// How often an event is sent again.
    pub retries: u32,
    /// Whether receivers may have addresses that are not public.
    pub allow_private: bool,
}

/// When what nobody needs is removed from the store.
#[derive(Clone, Debug)]
pub struct Garbage {
    /// How often; never if not set.
    pub interval: Option<Duration>,
    /// From how full a disk on, in percent.
    pub disk_percent: u8,
    /// How long snapshots stay that no project, workspace, review or tag needs.
    pub keep_unnamed: Duration,
}

/// A text that is never shown.
#[derive(Clone)]
pub struct Secret(pub String);

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// Files of a certificate.
#[derive(Clone, Debug)]
pub struct Tls {
    /// The chain.
    pub certificate: PathBuf,
    /// The key.
    pub key: PathBuf,
}

/// How much of everything there may be.
#[derive(Clone, Debug)]
pub struct Limits {
    /// How long a sandbox lives if nothing is said.
    pub default_timeout: Duration,
    /// How long one lives at most, extensions included.
    pub max_lifetime: Duration,
    /// By how much it is extended at most at a time.
    pub max_extension: Duration,
    /// Sandboxes on this server.
    pub max_sandboxes: u32,
    /// Sandboxes that are made at the same time.
    pub max_concurrent_creations: u32,
    /// Thousandths of processors, by default and at most.
    pub cpu: (u32, u32),
    /// Bytes of memory, by default and at most.
    pub memory: (u64, u64),
    /// Bytes of a workspace, by default and at most.
    pub disk: (u64, u64),
    /// Processes, by default and at most.
    pub pids: (u32, u32),
    /// Terminals of a sandbox.
    pub terminals: u32,
    /// Bytes of output that an agent keeps of each process.
    pub output_buffer: u32,
    /// How long a command runs if nothing is said.
    pub command_timeout: Duration,
    /// How long a terminal waits for somebody to come back.
    pub terminal_patience: Duration,
    /// How long a start waits for the agent.
    pub start_timeout: Duration,
    /// How long an agent may be gone from a container that runs.
    pub agent_timeout: Duration,
    /// How long requests and streams have to end when the server stops.
    pub stop_grace: Duration,
    /// Connections at a time.
    pub connections: u32,
    /// What ordinary keys may do in a minute, and have at a time.
    pub key: elevo_catalog::KeyLimits,
    /// Limits of tenants that have no other ones.
    pub tenant: elevo_catalog::TenantLimits,
    /// The size of an archive that is sent to the server.
    pub max_archive: u64,
}

/// Everything that is wrong with the settings.
#[derive(Debug, thiserror::Error)]
#[error("{} of the settings cannot be used:\n{}", .0.len(), .0.iter().map(|problem| format!("  - {problem}")).collect::<Vec<_>>().join("\n"))]
pub struct InvalidConfig(pub Vec<String>);

/// A setting as it is known in the file and in the environment.
const SETTINGS: &[(&str, &str)] = &[
    ("DATA_DIR", "where everything is kept [/var/lib/elevo]"),
    (
        "WORKSPACE_ROOT",
        "where workspaces are kept [DATA_DIR/workspaces]",
    ),
    (
        "SECRETS_KEY_FILE",
        "the key of variables and webhook secrets, outside of DATA_DIR; made when it is first \
         needed, and in no backup [DATA_DIR.secrets-key]",
    ),
    ("API_HOST", "address of the API [127.0.0.1]"),
    ("API_PORT", "port of the API, 0 for any [8080]"),
    (
        "METRICS_HOST",
        "address of health, readiness and metrics [127.0.0.1]",
    ),
    ("METRICS_PORT", "port of the same, 0 for any [9090]"),
    (
        "GRPC_HOST",
        "address for agents that connect by TCP [127.0.0.1]",
    ),
    (
        "GRPC_PORT",
        "port of the same; without it agents use a Unix socket only",
    ),
    (
        "ALLOW_PLAIN_HTTP",
        "listen beyond loopback without TLS [false]",
    ),
    ("TLS_CERT", "certificate chain, a PEM file"),
    ("TLS_KEY", "its key, a PEM file"),
    (
        "PUBLIC_URL",
        "the address that clients use, if a proxy is in front",
    ),
    (
        "TRUSTED_PROXIES",
        "addresses or networks of proxies, with commas; their X-Forwarded-For is believed",
    ),
    (
        "API_KEY",
        "a key for the first tenant, with every scope; at least 32 characters",
    ),
    (
        "DOCKER_HOST",
        "the container engine [unix:///var/run/docker.sock]",
    ),
    (
        "DOCKER_NETWORK",
        "network of sandboxes with `internet`: an existing bridge without traffic between \
         containers, or the name of the one that the server makes [elevo-…]",
    ),
    (
        "REGISTRY_AUTH_FILE",
        "a file like Docker's config.json, with credentials for registries [none]",
    ),
    (
        "AGENT_BINARY",
        "the agent for containers [beside the server's binary]",
    ),
    (
        "SANDBOX_USER",
        "UID:GID of everything in sandboxes, no person's [64000:64000, or without root the server's own]",
    ),
    (
        "SANDBOX_CONNECTIONS",
        "connections of a sandbox at a time, 0 for no limit [512]",
    ),
    (
        "SANDBOX_NEW_CONNECTIONS",
        "new ones a second, after ten seconds' worth at once; 0 for no limit [50]",
    ),
    (
        "SANDBOX_NETWORK_RATE",
        "MiB a second that a sandbox sends, and as many that it gets; 0 for no limit [64]",
    ),
    (
        "SANDBOX_DISK_RATE",
        "MiB a second that a sandbox reads from a disk, and as many that it writes; 0 for no limit [200]",
    ),
    (
        "SANDBOX_DISK_OPERATIONS",
        "reads from a disk a second, and as many writes; 0 for no limit [5000]",
    ),
    (
        "DEFAULT_NETWORK",
        "what sandboxes reach: none or internet [internet]",
    ),
    (
        "NETWORKS",
        "networks that sandboxes may have, with commas [none,internet]",
    ),
    (
        "DEFAULT_RUNTIME",
        "the runtime of containers, as runsc [that of the engine]",
    ),
    (
        "RUNTIMES",
        "other runtimes that sandboxes may name, with commas [none]",
    ),
    (
        "WORKSPACE_PROVIDER",
        "overlay, reflink or copy [the best that works]",
    ),
    (
        "POOL_SIZE",
        "size of the pool's file where btrfs is not at hand [100g]",
    ),
    (
        "WARM_POOL",
        "sandboxes started ahead: TEMPLATE=COUNT [network=…] [runtime=…]; … [none]",
    ),
    (
        "GC_INTERVAL",
        "seconds between collections of garbage, 0 for never [86400]",
    ),
    (
        "GC_DISK_PERCENT",
        "how full a disk is when one begins at once [85]",
    ),
    (
        "GC_KEEP_UNNAMED",
        "seconds that everything stays, needed or not; at least 3600 [7776000]",
    ),
    (
        "DISK_FULL_PERCENT",
        "how full a disk is when only removals are let through [95]",
    ),
    (
        "QUARANTINE_KEEP",
        "seconds that workspaces are kept that the catalog does not know [604800]",
    ),
    ("EVENTS_KEEP", "seconds that events are kept [604800]"),
    (
        "EXPIRED_KEEP",
        "seconds that the work of an expired sandbox is kept [604800]",
    ),
    (
        "AUDIT_COMMANDS",
        "what the audit log has of commands: full, program or none [full]",
    ),
    (
        "AUDIT_KEEP",
        "seconds that the audit log is kept, 0 for ever [0]",
    ),
    ("WEBHOOK_URL", "where all events of this server are sent"),
    (
        "WEBHOOK_SECRET",
        "what they are signed with, by HMAC-SHA256",
    ),
    (
        "WEBHOOK_TIMEOUT",
        "seconds that a receiver has to answer [5]",
    ),
    ("WEBHOOK_RETRY", "how often an event is sent again [3]"),
    (
        "WEBHOOK_ALLOW_PRIVATE",
        "send to loopback and private addresses as well [false]",
    ),
    ("DEFAULT_SANDBOX_TIMEOUT", "seconds [3600]"),
    (
        "MAX_SANDBOX_LIFETIME",
        "seconds, extensions included [86400]",
    ),
    ("MAX_SANDBOX_EXTENSION", "seconds at a time [3600]"),
    ("MAX_SANDBOXES", "on this server [100]"),
    (
        "MAX_CONCURRENT_CREATIONS",
        "sandboxes made at the same time [10]",
    ),
    ("DEFAULT_CPU", "processors of a sandbox [2]"),
    ("MAX_CPU", "at most [all of the machine]"),
    ("DEFAULT_MEMORY", "memory of a sandbox [2g]"),
    ("MAX_MEMORY", "at most [16g]"),
    ("DEFAULT_DISK", "disk of a sandbox [10g]"),
    ("MAX_DISK", "at most [100g]"),
    ("DEFAULT_PIDS", "processes of a sandbox [512]"),
    ("MAX_PIDS", "at most [4096]"),
    ("MAX_TERMINALS", "terminals of a sandbox, 20 at most [5]"),
    ("DEFAULT_COMMAND_TIMEOUT", "milliseconds [60000]"),
    (
        "TERMINAL_PATIENCE",
        "seconds a terminal waits for somebody to come back [300]",
    ),
    ("START_TIMEOUT", "seconds a start waits for the agent [60]"),
    (
        "AGENT_TIMEOUT",
        "seconds after which a sandbox without its agent is in error [90]",
    ),
    (
        "STOP_GRACE",
        "seconds that requests and streams have to end when the server stops [30]",
    ),
    ("MAX_CONNECTIONS", "to the API at a time [1024]"),
    (
        "OUTPUT_BUFFER",
        "output that the agent keeps of each process, 64k to 64m [2m]",
    ),
    (
        "RATE_CREATES",
        "sandboxes an ordinary key makes in a minute [10]",
    ),
    (
        "RATE_COMMANDS",
        "commands an ordinary key runs in a minute [100]",
    ),
    (
        "RATE_REQUESTS",
        "other requests of an ordinary key in a minute [1000]",
    ),
    (
        "KEY_SANDBOXES",
        "sandboxes of an ordinary key at a time [10]",
    ),
    (
        "TENANT_SANDBOXES",
        "sandboxes of a tenant at a time [as many as the server has]",
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
        "files of all projects and snapshots of a tenant, each part once and compressed [no limit]",
    ),
    ("TENANT_WORKSPACES", "workspaces of a tenant [1000]"),
    ("TENANT_PROJECTS", "projects of a tenant [1000]"),
    (
        "RATE_TENANT",
        "requests of all keys of a tenant in a minute [no limit]",
    ),
    ("MAX_ARCHIVE", "size of an archive that is sent in [1g]"),
    (
        "OTEL_EXPORTER_OTLP_ENDPOINT",
        "a collector of traces, by OTLP over HTTP: http://127.0.0.1:4318 [none]",
    ),
    (
        "TRACE_SAMPLE",
        "which part of the traces that begin here is told, 0 to 1 [1]",
    ),
    ("RUST_LOG", "what is logged [info]"),
];

/// The settings with their meaning, for help.
pub fn settings() -> &'static [(&'static str, &'static str)] {
    SETTINGS
}

/// The key file of a server whose settings do not name one: beside its data
/// directory.
pub fn secrets_key_file(data_dir: &Path) -> PathBuf {
    let name = data_dir.file_name().unwrap_or("elevo".as_ref());
    let mut name = name.to_owned();
    name.push(".secrets-key");
    data_dir.with_file_name(name)
}

impl Config {
    /// Reads settings: those of a file, where the keys are the names in lower
    /// case, and over them those of the environment.
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

    /// Settings for a data directory, everything else as it is by default.
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
