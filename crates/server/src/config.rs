//! Settings: a TOML file, then the environment over it. Read once at start;
//! every problem is named, not only the first.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use elevo_api::{NetworkMode, parse_cpu, parse_size};

/// All settings of the server.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where everything is kept.
    pub data_dir: PathBuf,
    /// Where workspaces are kept; below the data directory unless set.
    pub workspace_root: PathBuf,
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
    /// A key for the first tenant, given from outside.
    pub api_key: Option<Secret>,
    /// The container engine.
    pub docker_host: String,
    /// The network of sandboxes that reach the internet, if not one of ours.
    pub docker_network: Option<String>,
    /// The agent's binary; beside the server's if not set.
    pub agent_binary: Option<PathBuf>,
    /// User and group of everything in sandboxes.
    pub sandbox_user: (u32, u32),
    /// What sandboxes reach if they don't say.
    pub default_network: NetworkMode,
    /// How workspaces are made; the best way that works here if not set.
    pub provider: Option<String>,
    /// The size of the file of the pool of workspaces, if one has to be made.
    pub pool_size: u64,
    /// What becomes of snapshots that nobody needs.
    pub garbage: Garbage,
    /// Limits.
    pub limits: Limits,
    /// What is logged, in the form of `RUST_LOG`.
    pub log: String,
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
    /// How long a command runs if nothing is said.
    pub command_timeout: Duration,
    /// How long a terminal waits for somebody to come back.
    pub terminal_patience: Duration,
    /// How long a start waits for the agent.
    pub start_timeout: Duration,
    /// Connections at a time.
    pub connections: u32,
    /// What ordinary keys may do in a minute, and have at a time.
    pub key: elevo_catalog::KeyLimits,
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
        "API_KEY",
        "a key for the first tenant, with every scope; at least 32 characters",
    ),
    (
        "DOCKER_HOST",
        "the container engine [unix:///var/run/docker.sock]",
    ),
    (
        "DOCKER_NETWORK",
        "network of sandboxes with `internet` [one of our own]",
    ),
    (
        "AGENT_BINARY",
        "the agent for containers [beside the server's binary]",
    ),
    (
        "SANDBOX_USER",
        "UID:GID of everything in sandboxes [1000:1000]",
    ),
    (
        "DEFAULT_NETWORK",
        "what sandboxes reach: none or internet [internet]",
    ),
    (
        "WORKSPACE_PROVIDER",
        "overlay, reflink or copy [the best that works]",
    ),
    (
        "POOL_SIZE",
        "size of the pool's file where btrfs is not at hand [100g]",
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
    ("MAX_TERMINALS", "terminals of a sandbox [5]"),
    ("DEFAULT_COMMAND_TIMEOUT", "milliseconds [60000]"),
    (
        "TERMINAL_PATIENCE",
        "seconds a terminal waits for somebody to come back [300]",
    ),
    ("START_TIMEOUT", "seconds a start waits for the agent [60]"),
    ("MAX_CONNECTIONS", "to the API at a time [1024]"),
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
    ("MAX_ARCHIVE", "size of an archive that is sent in [1g]"),
    ("RUST_LOG", "what is logged [info]"),
];

/// The settings with their meaning, for help.
pub fn settings() -> &'static [(&'static str, &'static str)] {
    SETTINGS
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
            ..reader.config()
        }
    }
}

#[derive(Default)]
struct Reader {
    values: BTreeMap<String, String>,
    problems: Vec<String>,
}

impl Reader {
    fn add_file(&mut self, text: &str) {
        let table: toml::Table = match text.parse() {
            Ok(table) => table,
            Err(error) => return self.problems.push(format!("the file is no TOML: {error}")),
        };
        for (key, value) in table {
            let name = key.to_ascii_uppercase();
            if key != key.to_ascii_lowercase() || !SETTINGS.iter().any(|(known, _)| *known == name)
            {
                self.problems.push(format!("`{key}` is no setting"));
                continue;
            }
            let text = match value {
                toml::Value::String(text) => text,
                toml::Value::Integer(number) => number.to_string(),
                toml::Value::Float(number) => number.to_string(),
                toml::Value::Boolean(truth) => truth.to_string(),
                _ => {
                    self.problems
                        .push(format!("`{key}` must be a single value"));
                    continue;
                }
            };
            self.values.insert(name, text);
        }
    }

    /// A setting, or what it is if nothing is said or it cannot be read.
    fn get<T>(&mut self, name: &str, default: T, read: impl Fn(&str) -> Result<T, String>) -> T {
        let Some(text) = self.values.get(name) else {
            return default;
        };
        match read(text) {
            Ok(value) => value,
            Err(why) => {
                self.problems.push(format!("{name}: {why}"));
                default
            }
        }
    }

    fn number<T>(&mut self, name: &str, default: T, least: T) -> T
    where
        T: std::str::FromStr + PartialOrd + std::fmt::Display + Copy,
    {
        self.get(name, default, |text| match text.parse() {
            Ok(number) if number >= least => Ok(number),
            _ => Err(format!("`{text}` is no whole number from {least} up")),
        })
    }

    fn seconds(&mut self, name: &str, default: u32) -> Duration {
        Duration::from_secs(self.number(name, default, 1).into())
    }

    fn size(&mut self, name: &str, default: u64) -> u64 {
        self.get(name, default, |text| {
            parse_size(text).map_err(|error| error.to_string())
        })
    }

    fn text(&self, name: &str) -> Option<String> {
        self.values.get(name).cloned()
    }

    fn path(&self, name: &str) -> Option<PathBuf> {
        self.text(name).map(PathBuf::from)
    }

    fn address(&mut self, host: &str, port: &str, default: u16) -> SocketAddr {
        let ip = self.get(host, IpAddr::V4(Ipv4Addr::LOCALHOST), |text| {
            text.parse()
                .map_err(|_| format!("`{text}` is no IP address"))
        });
        SocketAddr::new(ip, self.number(port, default, 0))
    }

    fn tls(&mut self) -> Option<Tls> {
        match (self.path("TLS_CERT"), self.path("TLS_KEY")) {
            (Some(certificate), Some(key)) => {
                for (name, path) in [("TLS_CERT", &certificate), ("TLS_KEY", &key)] {
                    if !path.is_file() {
                        let problem = format!("{name}: {} is no file", path.display());
                        self.problems.push(problem);
                    }
                }
                Some(Tls { certificate, key })
            }
            (None, None) => None,
            _ => {
                let problem = "TLS_CERT and TLS_KEY are needed together";
                self.problems.push(problem.into());
                None
            }
        }
    }

    /// By default and at most; the one within the other.
    fn pair<T: PartialOrd + Copy>(&mut self, name: &str, default: T, most: T) -> (T, T) {
        if default > most {
            let problem = format!("DEFAULT_{name} is more than MAX_{name}");
            self.problems.push(problem);
        }
        (default, most)
    }

    fn limits(&mut self) -> Limits {
        let processors = std::thread::available_parallelism().map_or(1, usize::from) as u32;
        let cpu = |text: &str| parse_cpu(text).map_err(|error| error.to_string());
        let default_cpu = self.get("DEFAULT_CPU", processors.min(2) * 1000, cpu);
        let max_cpu = self.get("MAX_CPU", processors * 1000, cpu);
        let memory = (
            self.size("DEFAULT_MEMORY", 2 << 30),
            self.size("MAX_MEMORY", 16 << 30),
        );
        let disk = (
            self.size("DEFAULT_DISK", 10 << 30),
            self.size("MAX_DISK", 100 << 30),
        );
        let pids = (
            self.number("DEFAULT_PIDS", 512, 8),
            self.number("MAX_PIDS", 4096, 8),
        );
        let limits = Limits {
            default_timeout: self.seconds("DEFAULT_SANDBOX_TIMEOUT", 3600),
            max_lifetime: self.seconds("MAX_SANDBOX_LIFETIME", 86400),
            max_extension: self.seconds("MAX_SANDBOX_EXTENSION", 3600),
            max_sandboxes: self.number("MAX_SANDBOXES", 100, 1),
            max_concurrent_creations: self.number("MAX_CONCURRENT_CREATIONS", 10, 1),
            cpu: self.pair("CPU", default_cpu, max_cpu),
            memory: self.pair("MEMORY", memory.0, memory.1),
            disk: self.pair("DISK", disk.0, disk.1),
            pids: self.pair("PIDS", pids.0, pids.1),
            terminals: self.number("MAX_TERMINALS", 5, 1),
            command_timeout: Duration::from_millis(self.number(
                "DEFAULT_COMMAND_TIMEOUT",
                60_000,
                1,
            )),
            terminal_patience: self.seconds("TERMINAL_PATIENCE", 300),
            start_timeout: self.seconds("START_TIMEOUT", 60),
            connections: self.number("MAX_CONNECTIONS", 1024, 1),
            key: elevo_catalog::KeyLimits {
                creates_per_minute: Some(self.number("RATE_CREATES", 10, 1)),
                commands_per_minute: Some(self.number("RATE_COMMANDS", 100, 1)),
                requests_per_minute: Some(self.number("RATE_REQUESTS", 1000, 1)),
                sandboxes: Some(self.number("KEY_SANDBOXES", 10, 1)),
            },
            max_archive: self.size("MAX_ARCHIVE", 1 << 30),
        };
        if limits.default_timeout > limits.max_lifetime {
            let problem = "DEFAULT_SANDBOX_TIMEOUT is more than MAX_SANDBOX_LIFETIME";
            self.problems.push(problem.into());
        }
        limits
    }

    fn garbage(&mut self) -> Garbage {
        let interval = self.number("GC_INTERVAL", 24 * 3600, 0);
        let percent = |text: &str| match text.parse() {
            Ok(percent @ 1..=100) => Ok(percent),
            _ => Err(format!("`{text}` is no whole number from 1 to 100")),
        };
        // Less could be taken from under somebody who is about to name it.
        let least = 3600;
        let keep = self.number("GC_KEEP_UNNAMED", 90 * 24 * 3600, least);
        Garbage {
            interval: (interval > 0).then(|| Duration::from_secs(interval)),
            disk_percent: self.get("GC_DISK_PERCENT", 85, percent),
            keep_unnamed: Duration::from_secs(keep),
        }
    }

    fn config(&mut self) -> Config {
        let data_dir = self.path("DATA_DIR").unwrap_or("/var/lib/elevo".into());
        if !data_dir.is_absolute() {
            let problem = format!("DATA_DIR: {} is no absolute path", data_dir.display());
            self.problems.push(problem);
        }
        let workspace_root = self.path("WORKSPACE_ROOT");
        let truth = |text: &str| {
            text.parse::<bool>()
                .map_err(|_| format!("`{text}` is neither true nor false"))
        };
        let allow_plain_http = self.get("ALLOW_PLAIN_HTTP", false, truth);
        let api = self.address("API_HOST", "API_PORT", 8080);
        let tls = self.tls();
        if !api.ip().is_loopback() && tls.is_none() && !allow_plain_http {
            self.problems.push(format!(
                "API_HOST: {} is not loopback: set TLS_CERT and TLS_KEY, or ALLOW_PLAIN_HTTP=true",
                api.ip()
            ));
        }
        let grpc = self.values.contains_key("GRPC_PORT");
        let grpc = grpc.then(|| self.address("GRPC_HOST", "GRPC_PORT", 50051));
        let network = |text: &str| match text {
            "none" => Ok(NetworkMode::None),
            "internet" => Ok(NetworkMode::Internet),
            _ => Err(format!("`{text}` is neither none nor internet")),
        };
        let provider = |text: &str| match text {
            "overlay" | "reflink" | "copy" => Ok(Some(text.to_owned())),
            _ => Err(format!("`{text}` is not overlay, reflink or copy")),
        };
        let key = |text: &str| match text.len() {
            32.. => Ok(Some(Secret(text.into()))),
            length => Err(format!("{length} characters are too few; use at least 32")),
        };
        Config {
            workspace_root: workspace_root.unwrap_or_else(|| data_dir.join("workspaces")),
            data_dir,
            api,
            metrics: self.address("METRICS_HOST", "METRICS_PORT", 9090),
            grpc,
            allow_plain_http,
            tls,
            api_key: self.get("API_KEY", None, key),
            docker_host: self
                .text("DOCKER_HOST")
                .unwrap_or("unix:///var/run/docker.sock".into()),
            docker_network: self.text("DOCKER_NETWORK"),
            agent_binary: self.path("AGENT_BINARY"),
            sandbox_user: self.get("SANDBOX_USER", (1000, 1000), user),
            default_network: self.get("DEFAULT_NETWORK", NetworkMode::Internet, network),
            provider: self.get("WORKSPACE_PROVIDER", None, provider),
            pool_size: self.size("POOL_SIZE", 100 << 30),
            garbage: self.garbage(),
            limits: self.limits(),
            log: self.text("RUST_LOG").unwrap_or("info".into()),
        }
    }
}

fn user(text: &str) -> Result<(u32, u32), String> {
    let ids = text.split_once(':').unwrap_or((text, text));
    match (ids.0.parse(), ids.1.parse()) {
        (Ok(0), _) | (_, Ok(0)) => Err("sandboxes never run as root".into()),
        (Ok(user), Ok(group)) => Ok((user, group)),
        _ => Err(format!("`{text}` is not UID:GID")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(file: &str, environment: &[(&str, &str)]) -> Result<Config, InvalidConfig> {
        let pairs = environment.iter();
        Config::read(
            Some(file),
            pairs.map(|(name, value)| ((*name).into(), (*value).into())),
        )
    }

    #[test]
    fn the_environment_wins_over_the_file_and_both_over_defaults() {
        let config = read(
            "api_port = 1\nmax_sandboxes = 7\ndefault_memory = \"1g\"",
            &[("API_PORT", "2"), ("PATH", "/bin")],
        );
        let config = config.unwrap();
        assert_eq!(config.api, "127.0.0.1:2".parse().unwrap());
        assert_eq!(config.limits.max_sandboxes, 7);
        assert_eq!(config.limits.memory, (1 << 30, 16 << 30));
        assert_eq!(config.limits.key.creates_per_minute, Some(10));
    }

    #[test]
    fn every_problem_is_named_at_once() {
        let error = read(
            "api_prot = 1\nmax_sandboxes = 0",
            &[
                ("API_HOST", "0.0.0.0"),
                ("SANDBOX_USER", "0:0"),
                ("DEFAULT_MEMORY", "32g"),
                ("API_KEY", "short"),
                ("TLS_CERT", "/nowhere"),
            ],
        );
        let InvalidConfig(problems) = error.unwrap_err();
        for part in [
            "api_prot",
            "MAX_SANDBOXES",
            "API_HOST",
            "SANDBOX_USER",
            "MAX_MEMORY",
            "API_KEY",
            "TLS_KEY",
        ] {
            let found = problems.iter().any(|problem| problem.contains(part));
            assert!(found, "{part}: {problems:?}");
        }
        assert!(!format!("{problems:?}").contains("short\""));
    }

    #[test]
    fn beyond_loopback_needs_tls_or_a_word() {
        let open = [("API_HOST", "0.0.0.0"), ("ALLOW_PLAIN_HTTP", "true")];
        assert!(read("", &open[..1]).is_err());
        assert!(read("", &open).is_ok());
    }
}
