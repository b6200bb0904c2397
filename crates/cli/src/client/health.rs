//! Checks what sandboxes need: a container engine, and a server that is ready;
//! and the databases of the catalog and the store, if the environment names them.

use std::path::PathBuf;
use std::time::Duration;

use elevo_api::Ready;
use elevo_sandbox::{DockerRuntime, DockerSettings, HostLimits, RuntimeInfo, SandboxRuntime};
use elevo_server::{CatalogPlace, CheckResult, PostgresCheck, StorePlace};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::client::http::Client;
use crate::local::data_directory::{DataDirectory, RunningServer};
use crate::output::Output;
use crate::output::check::check_row;
use crate::output::format::first_line;

/// Maximum time for the engine or the server to respond.
const PATIENCE: Duration = Duration::from_secs(10);

const DEFAULT_HOST: &str = "unix:///var/run/docker.sock";

/// The results of the checks.
pub(crate) struct Found {
    host: String,
    engine: Result<RuntimeInfo, String>,
    data: DataDirectory,
    server: Option<(RunningServer, Result<Ready, String>)>,
    catalog: Option<FoundDatabase>,
    store: Option<FoundDatabase>,
}

/// The database of the catalog or the store, without credentials, and its checks.
struct FoundDatabase {
    place: String,
    checks: Result<Vec<PostgresCheck>, String>,
}

impl FoundDatabase {
    fn works(&self) -> bool {
        let checks = self.checks.as_ref();
        checks.is_ok_and(|checks| checks.iter().all(|check| check.is_ok))
    }

    fn shape(&self) -> Value {
        let Self { place, checks } = self;
        match checks {
            Err(obstacle) => json!({ "database": place, "works": false, "obstacle": obstacle }),
            Ok(checks) => {
                let shape = |check: &PostgresCheck| {
                    json!({
                        "name": check.name, "works": check.is_ok, "message": check.message,
                    })
                };
                json!({
                    "database": place,
                    "works": checks.iter().all(|check| check.is_ok),
                    "obstacle": null,
                    "checks": checks.iter().map(shape).collect::<Vec<_>>(),
                })
            }
        }
    }

    fn print(&self, name: &str, output: &mut Output) -> anyhow::Result<()> {
        let Self { place, checks } = self;
        output.line("")?;
        output.line(format!("The {name} in {}", first_line(place)))?;
        let lines = match checks {
            Err(obstacle) => vec![check_row(output, "database", false, obstacle)],
            Ok(checks) => {
                let row = |check: &PostgresCheck| {
                    check_row(output, check.name, check.is_ok, &first_line(&check.message))
                };
                checks.iter().map(row).collect()
            }
        };
        for line in lines {
            output.line(line)?;
        }
        Ok(())
    }
}

pub(crate) fn look(data: Option<PathBuf>) -> anyhow::Result<Found> {
    let host = engine_host();
    let data = DataDirectory::new(data);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let found = runtime.block_on(async {
        let engine = engine(&host).await;
        let server = match data.running() {
            Some(running) => {
                let ready = ask(&running, "ready").await;
                Some((running, ready))
            }
            None => None,
        };
        Found {
            host: host.clone(),
            engine,
            data: data.clone(),
            server,
            catalog: catalog().await,
            store: store().await,
        }
    });
    Ok(found)
}

/// Examines the database of CATALOG_URL, if that is set.
async fn catalog() -> Option<FoundDatabase> {
    let url = std::env::var("CATALOG_URL").ok();
    let url = url.filter(|url| !url.is_empty())?;
    let place = match CatalogPlace::parse(&url) {
        Ok(place @ CatalogPlace::Database(_)) => place,
        Ok(CatalogPlace::File(_)) => {
            return Some(FoundDatabase {
                place: "CATALOG_URL".into(),
                checks: Err("not the URL of a database".into()),
            });
        }
        Err(error) => {
            return Some(FoundDatabase {
                place: "CATALOG_URL".into(),
                checks: Err(told(&error)),
            });
        }
    };
    Some(FoundDatabase {
        place: place.to_string(),
        checks: answer(place.examine()).await,
    })
}

/// Examines the database of STORE_URL and its bucket, if that is set.
async fn store() -> Option<FoundDatabase> {
    let url = std::env::var("STORE_URL").ok();
    let url = url.filter(|url| !url.is_empty())?;
    let place = match StorePlace::of_database(&url, None, std::env::vars()) {
        Ok(place) => place,
        Err(invalid) => {
            return Some(FoundDatabase {
                place: "STORE_URL".into(),
                checks: Err(invalid.0.join("; ")),
            });
        }
    };
    Some(FoundDatabase {
        place: place.to_string(),
        checks: answer(place.examine()).await,
    })
}

async fn answer(
    examining: impl Future<Output = CheckResult>,
) -> Result<Vec<PostgresCheck>, String> {
    match timeout(PATIENCE, examining).await {
        Ok(checks) => checks.map_err(|error| told(&error)),
        Err(_) => Err("the database does not respond".into()),
    }
}

/// Returns the address of the container engine that the environment names.
pub(crate) fn engine_host() -> String {
    let host = std::env::var("DOCKER_HOST").ok();
    let host = host.filter(|host| !host.is_empty());
    host.unwrap_or_else(|| DEFAULT_HOST.into())
}

/// Returns the engine's description. Uses a server name that no installation has,
/// so that no container of one is touched.
pub(crate) async fn engine(host: &str) -> Result<RuntimeInfo, String> {
    let settings = DockerSettings {
        host: host.into(),
        server: "elevo-doctor".into(),
        network: "elevo-doctor".into(),
        limits: HostLimits::default(),
        registries: None,
    };
    let asking = async {
        let runtime = DockerRuntime::connect(settings).await?;
        runtime.check().await
    };
    match timeout(PATIENCE, asking).await {
        Ok(info) => info.map_err(|error| told(&error)),
        Err(_) => Err(format!("there is no response from {host}")),
    }
}

/// Sends a request to the port of health and readiness.
pub(crate) async fn ask<T: DeserializeOwned>(
    running: &RunningServer,
    path: &str,
) -> Result<T, String> {
    let url = format!("http://{}", running.metrics);
    let client = Client::known(&url, None).map_err(|error| told(&error))?;
    let path = [path];
    let asking = client.any_json(&path);
    match timeout(PATIENCE, asking).await {
        Ok(answer) => answer.map_err(|error| told(&error)),
        Err(_) => Err("the server does not respond".into()),
    }
}

/// Returns an error's message with those of its causes.
fn told(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    first_line(&text).into_owned()
}

/// Names of checks that [`Found::works`] knows.
pub(crate) const CHECKS: [&str; 5] = ["catalog", "engine", "internet", "server", "store"];

impl Found {
    /// Whether a check passed. Returns `None` for the name of another check.
    pub(crate) fn works(&self, check: &str) -> Option<bool> {
        let engine = self.engine.as_ref();
        match check {
            "engine" => Some(engine.is_ok()),
            "internet" => Some(engine.is_ok_and(|info| info.internet.is_none())),
            "catalog" => Some(self.catalog.as_ref().is_some_and(FoundDatabase::works)),
            "store" => Some(self.store.as_ref().is_some_and(FoundDatabase::works)),
            "server" => Some(self.server.as_ref().is_some_and(|(_, ready)| {
                let ready = ready.as_ref();
                ready.is_ok_and(|ready| ready.ready)
            })),
            _ => None,
        }
    }

    pub(crate) fn engine_shape(&self) -> Value {
        match &self.engine {
            Err(obstacle) => json!({ "host": self.host, "usable": false, "obstacle": obstacle }),
            Ok(info) => json!({
                "host": self.host,
                "usable": true,
                "obstacle": null,
                "engine": info.engine,
                "api_version": info.api_version,
                "storage_driver": info.storage_driver,
                "runtimes": info.runtimes,
                "live_restore": info.live_restore,
                "cgroup_version": info.cgroup_version,
                "confinement": info.confinement(),
                "internet": info.internet.is_none(),
                "internet_obstacle": info.internet,
            }),
        }
    }

    pub(crate) fn server_shape(&self) -> Value {
        let data = self.data.path().to_string_lossy();
        match &self.server {
            None => json!({ "data": data, "running": false, "ready": false }),
            Some((running, ready)) => json!({
                "data": data,
                "running": true,
                "address": running.url(),
                "pid": running.pid,
                "ready": ready.as_ref().is_ok_and(|ready| ready.ready),
                "checks": ready.as_ref().ok().map(|ready| &ready.checks),
            }),
        }
    }

    /// Returns null if the catalog is not in a database.
    pub(crate) fn catalog_shape(&self) -> Value {
        self.catalog
            .as_ref()
            .map_or(Value::Null, FoundDatabase::shape)
    }

    /// Returns null if the store is not in a database.
    pub(crate) fn store_shape(&self) -> Value {
        self.store
            .as_ref()
            .map_or(Value::Null, FoundDatabase::shape)
    }

    pub(crate) fn print(&self, output: &mut Output) -> anyhow::Result<()> {
        output.line("")?;
        output.line(format!(
            "Sandboxes, run by the container engine at {}",
            first_line(&self.host)
        ))?;
        let lines = match &self.engine {
            Err(obstacle) => {
                let advice = format!("{obstacle}; start Docker, or set DOCKER_HOST");
                vec![check_row(output, "engine", false, &advice)]
            }
            Ok(info) => engine_lines(output, info),
        };
        for line in lines {
            output.line(line)?;
        }
        output.line("")?;
        let data = self.data.path().display();
        output.line(format!("The server of {data}"))?;
        for line in self.server_lines(output) {
            output.line(line)?;
        }
        for (name, found) in [("catalog", &self.catalog), ("store", &self.store)] {
            if let Some(found) = found {
                found.print(name, output)?;
            }
        }
        Ok(())
    }

    fn server_lines(&self, output: &Output) -> Vec<Vec<u8>> {
        let Some((running, ready)) = &self.server else {
            return vec![check_row(
                output,
                "address",
                false,
                "not running; `elevo up` starts it",
            )];
        };
        let at = format!("{}, process {}", running.url(), running.pid);
        let mut lines = vec![check_row(output, "address", true, &at)];
        match ready {
            Err(obstacle) => lines.push(check_row(output, "ready", false, obstacle)),
            Ok(ready) => lines.extend(ready.checks.iter().map(|check| {
                let message = first_line(&check.message);
                check_row(output, &check.name, check.ok, &message)
            })),
        }
        lines
    }
}

fn engine_lines(output: &Output, info: &RuntimeInfo) -> Vec<Vec<u8>> {
    let engine = format!(
        "{}, storage {}, runtimes {}, cgroups {}",
        info.engine,
        info.storage_driver,
        info.runtimes.join(" "),
        info.cgroup_version
    );
    let internet = match &info.internet {
        None => check_row(
            output,
            "internet",
            true,
            "sandboxes can reach public addresses",
        ),
        Some(obstacle) => check_row(output, "internet", false, &first_line(obstacle)),
    };
    let restarts = match info.live_restore {
        true => check_row(
            output,
            "restarts",
            true,
            "sandboxes keep running while the engine restarts",
        ),
        false => {
            let text =
                "sandboxes stop with the engine; set \"live-restore\": true in its daemon.json";
            check_row(output, "restarts", false, text)
        }
    };
    vec![
        check_row(output, "engine", true, &first_line(&engine)),
        confinement(output, info),
        internet,
        restarts,
    ]
}

/// Formats the line about the engine's confinement of containers.
fn confinement(output: &Output, info: &RuntimeInfo) -> Vec<u8> {
    let found = info.confinement();
    let lacks = |names: &[&str]| !names.iter().any(|name| found.contains(name));
    let mut text = match found.is_empty() {
        true => "none".to_owned(),
        false => found.join(" "),
    };
    if lacks(&["seccomp"]) {
        text += "; without seccomp no sandbox starts";
    }
    if lacks(&["apparmor", "selinux"]) {
        text += "; neither AppArmor nor SELinux";
    }
    if lacks(&["userns", "rootless"]) {
        text += "; no user namespaces";
    }
    check_row(output, "confined", !lacks(&["seccomp"]), &first_line(&text))
}
