//! Parses and checks the values of settings.

mod storage;
mod values;

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use elevo_api::{NetworkMode, parse_cpu, parse_limit};
use elevo_sandbox::HostLimits;

use crate::config::descriptions::SETTINGS;
use crate::config::reader::values::{
    api_key, check_user, names, network, networks, origins, output_buffer, percent, port_requests,
    ports_domain, provider, public_url, some_number, some_size, terminals, truth, user,
    user_by_default, warm_pools,
};
use crate::config::{
    AuditConfig, AuditedCommands, Config, Garbage, Limits, Secret, Tls, TracesConfig, Webhooks,
};

#[derive(Default)]
pub(super) struct Reader {
    pub(super) values: BTreeMap<String, String>,
    pub(super) problems: Vec<String>,
}

impl Reader {
    /// Reads settings from a file, and from the environment, which takes
    /// precedence.
    pub(super) fn read(
        file: Option<&str>,
        environment: impl IntoIterator<Item = (String, String)>,
    ) -> Self {
        let mut reader = Self::default();
        if let Some(text) = file {
            reader.add_file(text);
        }
        for (name, value) in environment {
            if SETTINGS.iter().any(|(known, _)| *known == name) && !value.is_empty() {
                reader.values.insert(name, value);
            }
        }
        reader
    }

    fn add_file(&mut self, text: &str) {
        let table: toml::Table = match text.parse() {
            Ok(table) => table,
            Err(error) => {
                return self
                    .problems
                    .push(format!("the settings file is not valid TOML: {error}"));
            }
        };
        for (key, value) in table {
            let name = key.to_ascii_uppercase();
            if key != key.to_ascii_lowercase() || !SETTINGS.iter().any(|(known, _)| *known == name)
            {
                self.problems.push(format!("`{key}` is not a setting"));
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

    /// Returns the text of a setting, if it is set.
    fn text(&self, name: &str) -> Option<String> {
        let is_known = SETTINGS.iter().any(|(known, _)| *known == name);
        debug_assert!(is_known, "{name} cannot be set");
        self.values.get(name).cloned()
    }

    /// Returns a setting, or the default if it is absent or invalid.
    fn get<T>(&mut self, name: &str, default: T, read: impl Fn(&str) -> Result<T, String>) -> T {
        let Some(text) = self.text(name) else {
            return default;
        };
        match read(&text) {
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
            _ => Err(format!(
                "`{text}` is not a whole number of at least {least}"
            )),
        })
    }

    fn seconds(&mut self, name: &str, default: u32) -> Duration {
        Duration::from_secs(self.number(name, default, 1).into())
    }

    fn size(&mut self, name: &str, default: u64) -> u64 {
        self.get(name, default, |text| {
            parse_limit(text).map_err(|error| error.to_string())
        })
    }

    fn path(&self, name: &str) -> Option<PathBuf> {
        self.text(name).map(PathBuf::from)
    }

    fn address(&mut self, host: &str, port: &str, default: u16) -> SocketAddr {
        let ip = self.get(host, IpAddr::V4(Ipv4Addr::LOCALHOST), |text| {
            text.parse()
                .map_err(|_| format!("`{text}` is not an IP address"))
        });
        SocketAddr::new(ip, self.number(port, default, 0))
    }

    fn host_limits(&mut self) -> HostLimits {
        let known = HostLimits::default();
        HostLimits {
            connections: self.number("SANDBOX_CONNECTIONS", known.connections, 0),
            connections_per_second: self.number(
                "SANDBOX_NEW_CONNECTIONS",
                known.connections_per_second,
                0,
            ),
            network_mib: self.number("SANDBOX_NETWORK_RATE", known.network_mib, 0),
            disk_mib: self.number("SANDBOX_DISK_RATE", known.disk_mib, 0),
            disk_operations: self.number("SANDBOX_DISK_OPERATIONS", known.disk_operations, 0),
        }
    }

    fn docker_host(&self) -> String {
        let named = self.text("DOCKER_HOST");
        named.unwrap_or("unix:///var/run/docker.sock".into())
    }

    fn tls(&mut self) -> Option<Tls> {
        match (self.path("TLS_CERT"), self.path("TLS_KEY")) {
            (Some(certificate), Some(key)) => {
                for (name, path) in [("TLS_CERT", &certificate), ("TLS_KEY", &key)] {
                    if !path.is_file() {
                        let problem = format!("{name}: {} is not a file", path.display());
                        self.problems.push(problem);
                    }
                }
                Some(Tls { certificate, key })
            }
            (None, None) => None,
            _ => {
                let problem = "TLS_CERT and TLS_KEY must be set together";
                self.problems.push(problem.into());
                None
            }
        }
    }

    /// Returns the default and the maximum. Adds a problem if the default is
    /// above the maximum.
    fn pair<T: PartialOrd + Copy>(&mut self, name: &str, default: T, most: T) -> (T, T) {
        if default > most {
            let problem = format!("DEFAULT_{name} is more than MAX_{name}");
            self.problems.push(problem);
        }
        (default, most)
    }

    fn traces(&mut self) -> Option<TracesConfig> {
        let part = |text: &str| match text.parse::<f64>() {
            Ok(part) if (0.0..=1.0).contains(&part) => Ok(part),
            _ => Err(format!("`{text}` is not a number from 0 to 1")),
        };
        let url = |text: &str| match text.starts_with("http://") || text.starts_with("https://") {
            true => Ok(Some(text.to_owned())),
            false => Err(format!("`{text}` does not begin with http:// or https://")),
        };
        let sample = self.get("TRACE_SAMPLE", 1.0, part);
        let endpoint = self.get("OTEL_EXPORTER_OTLP_ENDPOINT", None, url)?;
        Some(TracesConfig { endpoint, sample })
    }

    fn audit(&mut self) -> AuditConfig {
        let commands = |text: &str| match text {
            "full" => Ok(AuditedCommands::Full),
            "program" => Ok(AuditedCommands::Program),
            "none" => Ok(AuditedCommands::None),
            _ => Err(format!("`{text}` is not full, program or none")),
        };
        let keep: u32 = self.number("AUDIT_KEEP", 0, 0);
        AuditConfig {
            commands: self.get("AUDIT_COMMANDS", AuditedCommands::Full, commands),
            keep: (keep > 0).then(|| Duration::from_secs(keep.into())),
        }
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
            terminals: self.get("MAX_TERMINALS", 5, terminals),
            output_buffer: self.get("OUTPUT_BUFFER", 2 << 20, output_buffer),
            command_timeout: Duration::from_millis(self.number(
                "DEFAULT_COMMAND_TIMEOUT",
                60_000,
                1,
            )),
            terminal_patience: self.seconds("TERMINAL_PATIENCE", 300),
            port_timeout: self.seconds("PORT_TIMEOUT", 120),
            port_requests: self.get("PORT_REQUESTS", 128, port_requests),
            start_timeout: self.seconds("START_TIMEOUT", 60),
            agent_timeout: self.seconds("AGENT_TIMEOUT", 90),
            stop_grace: self.seconds("STOP_GRACE", 30),
            connections: self.number("MAX_CONNECTIONS", 1024, 1),
            key: elevo_catalog::KeyLimits {
                creates_per_minute: Some(self.number("RATE_CREATES", 60, 1)),
                commands_per_minute: Some(self.number("RATE_COMMANDS", 100, 1)),
                requests_per_minute: Some(self.number("RATE_REQUESTS", 1000, 1)),
                sandboxes: Some(self.number("KEY_SANDBOXES", 100, 1)),
                ..elevo_catalog::KeyLimits::default()
            },
            tenant: elevo_catalog::TenantLimits {
                sandboxes: self.get("TENANT_SANDBOXES", None, some_number),
                memory: self.get("TENANT_MEMORY", None, some_size),
                disk: self.get("TENANT_DISK", None, some_size),
                stored: self.get("TENANT_STORED", None, some_size),
                workspaces: Some(self.number("TENANT_WORKSPACES", 1000, 1)),
                projects: Some(self.number("TENANT_PROJECTS", 1000, 1)),
                requests_per_minute: self.get("RATE_TENANT", None, some_number),
                ..elevo_catalog::TenantLimits::default()
            },
            max_archive: self.size("MAX_ARCHIVE", 1 << 30),
            max_file: self.size("MAX_FILE", 5 << 30),
        };
        if limits.default_timeout > limits.max_lifetime {
            let problem = "DEFAULT_SANDBOX_TIMEOUT is more than MAX_SANDBOX_LIFETIME";
            self.problems.push(problem.into());
        }
        limits
    }

    fn webhooks(&mut self) -> Webhooks {
        let allow_private = self.get("WEBHOOK_ALLOW_PRIVATE", false, truth);
        let url = |text: &str| {
            let checked = crate::platform::outgoing::check_url(text, allow_private);
            checked.map(|url| Some(url.into()))
        };
        // An empty secret leaves the deliveries unsigned.
        let secret = |text: &str| match text {
            "" => Ok(None),
            _ => match crate::platform::signing::check_secret(text) {
                Ok(()) => Ok(Some(Secret(text.into()))),
                Err(why) => Err(why.to_owned()),
            },
        };
        Webhooks {
            url: self.get("WEBHOOK_URL", None, url),
            secret: self.get("WEBHOOK_SECRET", None, secret),
            timeout: self.seconds("WEBHOOK_TIMEOUT", 5),
            retries: self.number("WEBHOOK_RETRY", 3, 0),
            allow_private,
        }
    }

    fn garbage(&mut self) -> Garbage {
        let interval = self.number("GC_INTERVAL", 24 * 3600, 0);
        // With a shorter time, a collection could delete a new snapshot before
        // a client refers to it.
        let least = 3600;
        let keep = self.number("GC_KEEP_UNNAMED", 90 * 24 * 3600, least);
        Garbage {
            interval: (interval > 0).then(|| Duration::from_secs(interval)),
            disk_percent: self.get("GC_DISK_PERCENT", 85, percent),
            keep_unnamed: Duration::from_secs(keep),
        }
    }

    /// Returns the user and group of all processes in sandboxes.
    fn sandbox_user(&mut self) -> (u32, u32) {
        let own = rustix::process::geteuid();
        let own = (own.as_raw(), rustix::process::getegid().as_raw());
        let chosen = self.get("SANDBOX_USER", user_by_default(own), user);
        if let Err(problem) = check_user(own, chosen) {
            self.problems.push(problem);
        }
        chosen
    }

    /// Adds a problem if an address without TLS is not loopback: others on the
    /// network could read keys and tokens.
    fn refuse_plain(&mut self, name: &str, address: Option<SocketAddr>, instead: &str) {
        let Some(ip) = address.map(|address| address.ip()) else {
            return;
        };
        if !ip.is_loopback() {
            self.problems.push(format!(
                "{name}: {ip} is not a loopback address and has no TLS; {instead}set \
                 ALLOW_PLAIN_HTTP=true"
            ));
        }
    }

    fn data_dir(&mut self) -> PathBuf {
        let data_dir = self.path("DATA_DIR").unwrap_or("/var/lib/elevo".into());
        if !data_dir.is_absolute() {
            let problem = format!("DATA_DIR: {} is not an absolute path", data_dir.display());
            self.problems.push(problem);
        }
        data_dir
    }

    pub(super) fn config(&mut self) -> Config {
        let data_dir = self.data_dir();
        let workspace_root = self.path("WORKSPACE_ROOT");
        let workspace_root = workspace_root.unwrap_or_else(|| data_dir.join("workspaces"));
        let secrets_key_file = self.secrets_key_file(&data_dir, &workspace_root);
        let allow_plain_http = self.get("ALLOW_PLAIN_HTTP", false, truth);
        let api = self.address("API_HOST", "API_PORT", 8080);
        let tls = self.tls();
        let grpc = self.text("GRPC_PORT").is_some();
        let grpc = grpc.then(|| self.address("GRPC_HOST", "GRPC_PORT", 50051));
        let metrics = self.address("METRICS_HOST", "METRICS_PORT", 9090);
        if !allow_plain_http {
            let plain_api = tls.is_none().then_some(api);
            self.refuse_plain("API_HOST", plain_api, "set TLS_CERT and TLS_KEY, or ");
            self.refuse_plain("GRPC_HOST", grpc, "");
            self.refuse_plain("METRICS_HOST", Some(metrics), "");
        }
        let (catalog, store) = self.databases(&data_dir);
        Config {
            adopt: false,
            catalog,
            store,
            workspace_root,
            secrets_key_file,
            data_dir,
            api,
            metrics,
            grpc,
            allow_plain_http,
            tls,
            public_url: self.get("PUBLIC_URL", None, public_url),
            ports_domain: self.get("PORTS_DOMAIN", None, ports_domain),
            trusted_proxies: self.get("TRUSTED_PROXIES", Vec::new(), networks),
            allowed_origins: self.get("ALLOWED_ORIGINS", Vec::new(), origins),
            api_key: self.get("API_KEY", None, api_key),
            docker_host: self.docker_host(),
            docker_network: self.text("DOCKER_NETWORK"),
            registries: self.path("REGISTRY_AUTH_FILE"),
            agent_binary: self.path("AGENT_BINARY"),
            agent_inside: None,
            share_dir: self.path("SHARE_DIR"),
            sandbox_user: self.sandbox_user(),
            host_limits: self.host_limits(),
            default_network: self.get("DEFAULT_NETWORK", NetworkMode::Internet, network),
            networks: self.get(
                "NETWORKS",
                vec![NetworkMode::None, NetworkMode::Internet],
                |text| names(text).map(network).collect(),
            ),
            default_runtime: self.text("DEFAULT_RUNTIME"),
            runtimes: self.get("RUNTIMES", Vec::new(), |text| {
                Ok(names(text).map(str::to_owned).collect())
            }),
            provider: self.get("WORKSPACE_PROVIDER", None, provider),
            pool_size: self.size("POOL_SIZE", 100 << 30),
            warm: self.get("WARM_POOL", Vec::new(), warm_pools),
            garbage: self.garbage(),
            webhooks: self.webhooks(),
            quarantine_keep: self.seconds("QUARANTINE_KEEP", 7 * 24 * 3600),
            events_keep: self.seconds("EVENTS_KEEP", 7 * 24 * 3600),
            expired_keep: self.seconds("EXPIRED_KEEP", 7 * 24 * 3600),
            full_percent: self.get("DISK_FULL_PERCENT", 95, percent),
            audit: self.audit(),
            limits: self.limits(),
            traces: self.traces(),
            log: self.text("RUST_LOG").unwrap_or("info".into()),
            clocks: crate::platform::clock::Clocks::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_root_sandboxes_run_as_the_user_of_the_server() {
        assert_eq!(user_by_default((0, 0)), (64000, 64000));
        assert_eq!(user_by_default((1001, 100)), (1001, 100));
        assert!(check_user((0, 0), (64000, 64000)).is_ok());
        assert!(check_user((1001, 100), (1001, 100)).is_ok());
        assert!(check_user((1001, 100), (64000, 64000)).is_err());
    }
}
