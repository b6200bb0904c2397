use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use clap::Args;

use crate::client::error::ClientError;
use crate::client::http::Client;
use crate::client::trust::Trust;
use crate::local::data_directory::{DataDirectory, RunningServer, read_key};

/// Options that name the server and the key of a command.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Common options")]
pub(crate) struct Where {
    /// Address of the server; by default the server on this machine
    #[arg(
        long,
        global = true,
        value_name = "URL",
        env = "ELEVO_SERVER",
        hide_env_values = true
    )]
    server: Option<String>,

    /// PEM file of certificate authorities to trust in addition to the system's
    #[arg(
        long,
        global = true,
        value_name = "FILE",
        env = "ELEVO_CA",
        hide_env_values = true
    )]
    ca: Option<PathBuf>,

    /// File with the key; by default ELEVO_API_KEY, or the key of the local owner
    #[arg(long, global = true, value_name = "FILE")]
    key_file: Option<PathBuf>,

    /// Data directory of the server on this machine [env: ELEVO_DATA]
    #[arg(long, global = true, value_name = "DIR")]
    data: Option<PathBuf>,
}

/// Options that name the server of a command and the form of its output.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Common options")]
pub(crate) struct Reach {
    #[command(flatten)]
    pub(crate) at: Where,

    /// Print JSON, errors included
    #[arg(long, global = true)]
    pub(crate) json: bool,

    /// Show no progress and no notes
    #[arg(short, long, global = true)]
    pub(crate) quiet: bool,
}

impl Reach {
    /// Finds the server and the key.
    pub(crate) fn client(&self) -> anyhow::Result<Client> {
        self.at.client()
    }
}

impl Where {
    /// Finds the server and the key.
    fn client(&self) -> anyhow::Result<Client> {
        let data = DataDirectory::new(self.data.clone());
        let running = data.running();
        let own = running.as_ref().map(RunningServer::url);
        let (url, found) = match (&self.server, &own) {
            (Some(url), _) => (url.clone(), None),
            (None, Some(url)) => (url.clone(), Some(data.clone())),
            (None, None) => {
                let data = data.path().into();
                return Err(ClientError::NoServer { data }.into());
            }
        };
        // The owner's key must not be sent to any other server.
        let is_own = own.is_some_and(|own| own == url.trim_end_matches('/'));
        let key = self.key(is_own.then_some(&data))?;
        let key = key.ok_or_else(|| ClientError::NoKey { url: url.clone() })?;
        let trust = match (running.filter(|_| is_own), &self.ca) {
            (Some(running), _) => running.trust(),
            (None, Some(path)) => Trust::With(path.clone()),
            (None, None) => Trust::System,
        };
        Ok(Client::new(&url, Some(&key), found, &trust)?)
    }

    fn key(&self, own: Option<&DataDirectory>) -> anyhow::Result<Option<String>> {
        if let Some(path) = &self.key_file {
            return Ok(Some(read_key(path)?));
        }
        let given = std::env::var("ELEVO_API_KEY").ok();
        let given = given.filter(|key| !key.is_empty());
        Ok(given.or_else(|| own.and_then(DataDirectory::owner_key)))
    }
}

impl Client {
    /// Creates a client of the server at `url`.
    pub(crate) fn known(url: &str, key: Option<&str>) -> Result<Self, ClientError> {
        Self::new(url, key, None, &Trust::System)
    }

    /// Creates a client of a server that runs on this machine.
    pub(crate) fn local(running: &RunningServer, key: Option<&str>) -> Result<Self, ClientError> {
        Self::new(&running.url(), key, None, &running.trust())
    }

    /// Creates a client of the admin socket of the server that runs with the data
    /// directory `data`.
    pub(crate) fn admin(data: &DataDirectory) -> Result<Self, ClientError> {
        let socket = elevo_server::admin_socket(data.path());
        // A server that was killed leaves its socket behind.
        UnixStream::connect(&socket).map_err(|_| ClientError::NoServer {
            data: data.path().into(),
        })?;
        let client = Self::known("http://localhost", None)?;
        let http = reqwest::Client::builder().unix_socket(socket).build();
        let http = http.map_err(ClientError::Setup)?;
        Ok(Self { http, ..client })
    }
}
