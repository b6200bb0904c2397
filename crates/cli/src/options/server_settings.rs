//! Settings of a server that have an option, for `up`, `server run`, `server
//! start` and `server config check`.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;
use elevo_server::Config;

use crate::agent_inside::agent_inside;
use crate::errors::{FileProblem, ServerProblem};
use crate::local::data_directory::{self, DataDirectory};
use crate::options::network::Network;

#[derive(Clone, Debug, Args)]
pub(crate) struct ServerSettings {
    /// Port of the API on 127.0.0.1; 0 for any [default: 8080]
    #[arg(long, value_name = "N")]
    port: Option<u16>,

    /// Port of health, readiness and metrics; 0 for any [default: 9090]
    #[arg(long, value_name = "N")]
    metrics_port: Option<u16>,

    /// The container engine [default: unix:///var/run/docker.sock]
    #[arg(long, value_name = "URL")]
    docker_host: Option<String>,

    /// TOML file with settings
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// Default network access of sandboxes [default: internet]
    #[arg(long)]
    network: Option<Network>,

    /// Start with a catalog, store and workspaces that do not belong together
    #[arg(long)]
    adopt: bool,
}

impl ServerSettings {
    /// Reads the settings: options override the environment, which overrides
    /// the file. `data` is the data directory that the option names.
    pub(crate) fn read(&self, data: Option<&Path>) -> anyhow::Result<Config> {
        let file = match &self.config {
            Some(path) => Some(fs::read_to_string(path).map_err(|source| FileProblem::Io {
                action: "read",
                path: path.clone(),
                source,
            })?),
            None => None,
        };
        let data = data_option(data, file.as_deref())?;
        let options = [
            (
                "DATA_DIR",
                data.map(|path| path.to_string_lossy().into_owned()),
            ),
            ("API_PORT", self.port.map(|port| port.to_string())),
            (
                "METRICS_PORT",
                self.metrics_port.map(|port| port.to_string()),
            ),
            ("DOCKER_HOST", self.docker_host.clone()),
            (
                "DEFAULT_NETWORK",
                self.network.map(|network| network.name().to_owned()),
            ),
        ];
        let options = options
            .into_iter()
            .filter_map(|(name, value)| Some((name.to_owned(), value?)));
        let environment = std::env::vars_os().filter_map(|(name, value)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        });
        let config = Config::read(file.as_deref(), environment.chain(options));
        let mut config = config.map_err(|invalid| ServerProblem::Settings(invalid.0))?;
        config.adopt = self.adopt;
        config.agent_inside = agent_inside();
        Ok(config)
    }

    /// Returns the options as arguments of another command.
    pub(crate) fn words(&self) -> Vec<OsString> {
        let mut words: Vec<OsString> = Vec::new();
        let mut option = |name: &str, value: Option<OsString>| {
            if let Some(value) = value {
                words.extend([name.into(), value]);
            }
        };
        option("--port", self.port.map(|port| port.to_string().into()));
        let metrics = self.metrics_port.map(|port| port.to_string().into());
        option("--metrics-port", metrics);
        option("--docker-host", self.docker_host.clone().map(Into::into));
        option("--config", self.config.clone().map(Into::into));
        option("--network", self.network.map(|it| it.name().into()));
        if self.adopt {
            words.push("--adopt".into());
        }
        words
    }
}

/// Returns the data directory that `--data` or `ELEVO_DATA` names, or the
/// default. Returns `None` if only the settings name one.
fn data_option(data: Option<&Path>, file: Option<&str>) -> Result<Option<PathBuf>, FileProblem> {
    let named = data.map(Path::to_owned);
    if let Some(path) = named.or_else(data_directory::of_environment) {
        return absolute(&path).map(Some);
    }
    let is_in_file = |text: &str| {
        let table = text.parse::<toml::Table>();
        table.is_ok_and(|table| table.contains_key("data_dir"))
    };
    let is_named = file.is_some_and(is_in_file) || std::env::var_os("DATA_DIR").is_some();
    Ok((!is_named).then(|| DataDirectory::new(None).path().into()))
}

fn absolute(path: &Path) -> Result<PathBuf, FileProblem> {
    let found = std::path::absolute(path).map_err(|source| FileProblem::Io {
        action: "find",
        path: path.into(),
        source,
    })?;
    match found.to_str() {
        Some(_) => Ok(found),
        None => Err(FileProblem::PathNotText(found)),
    }
}
