use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use clap::Args;

use crate::client::contexts::{self, Contexts};
use crate::client::error::ClientError;
use crate::client::http::Client;
use crate::client::trust::Trust;
use crate::errors::ContextProblem;
use crate::local::data_directory::{self, DataDirectory, RunningServer, read_key};

/// Options that select the server and the key for a command. Their environment
/// variables are read here and not by clap: clap would list an option in the
/// usage line of every error if its variable is set, and would treat the
/// variable as if the option had been given.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Common options")]
pub(crate) struct Where {
    /// Address of the server [env: ELEVO_SERVER]
    #[arg(long, global = true, value_name = "URL", conflicts_with = "context")]
    server: Option<String>,

    /// A server of `elevo login`; `local` is the server on this machine [env:
    /// ELEVO_CONTEXT]
    #[arg(long, global = true, value_name = "NAME")]
    context: Option<String>,

    /// PEM file of certificate authorities to trust in addition to the system's
    /// [env: ELEVO_CA]
    #[arg(long, global = true, value_name = "FILE")]
    ca: Option<PathBuf>,

    /// File with the key; by default ELEVO_API_KEY, the key of the context, or the
    /// key of the local owner
    #[arg(long, global = true, value_name = "FILE")]
    key_file: Option<PathBuf>,

    /// Data directory of the server on this machine [env: ELEVO_DATA]
    #[arg(long, global = true, value_name = "DIR")]
    data: Option<PathBuf>,
}

impl Where {
    /// Returns the options with only the address of a server.
    pub(crate) fn of_server(server: Option<String>) -> Self {
        Self {
            server,
            context: None,
            ca: None,
            key_file: None,
            data: None,
        }
    }

    /// Whether an option names a server.
    pub(crate) fn is_given(&self) -> bool {
        self.server.is_some() || self.context.is_some() || self.data.is_some()
    }
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
        Ok(self.at.find()?.client()?)
    }
}

/// The origin of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum KeySource {
    File(PathBuf),
    /// The variable `ELEVO_API_KEY`.
    Variable,
    Context,
    /// The file of the owner's key.
    Owner(PathBuf),
}

/// The server and the key of a command.
pub(crate) struct FoundServer {
    pub(crate) url: String,
    /// The context that named the server.
    pub(crate) context: Option<String>,
    pub(crate) key_source: KeySource,
    key: String,
    trust: Trust,
    /// The data directory that named the server.
    data: Option<DataDirectory>,
}

impl FoundServer {
    pub(crate) fn client(self) -> Result<Client, ClientError> {
        Client::new(&self.url, Some(&self.key), self.data, &self.trust)
    }
}

/// The choice of a server, before its address is known.
enum Choice {
    Address(String),
    Context {
        name: String,
        /// Whether an option named it, which has precedence over the variables.
        by_option: bool,
    },
    Local,
}

impl Where {
    /// Finds the server and the key.
    pub(crate) fn find(&self) -> anyhow::Result<FoundServer> {
        let choice = self.choose()?;
        let data = DataDirectory::new(self.data.clone());
        match choice {
            Choice::Local => self.at_address(None, &data),
            Choice::Address(url) => self.at_address(Some(url), &data),
            Choice::Context { name, .. } if name == contexts::LOCAL => self.at_address(None, &data),
            Choice::Context { name, by_option } => self.of_context(name, by_option),
        }
    }

    /// Chooses the server: by options, by variables, by the current context, or
    /// the server on this machine.
    fn choose(&self) -> Result<Choice, ContextProblem> {
        let context = |name, by_option| Choice::Context { name, by_option };
        if let Some(url) = &self.server {
            return Ok(Choice::Address(url.clone()));
        }
        if let Some(name) = &self.context {
            return Ok(context(name.clone(), true));
        }
        if self.data.is_some() {
            return Ok(Choice::Local);
        }
        if let Some(url) = variable("ELEVO_SERVER") {
            return Ok(Choice::Address(url));
        }
        if let Some(name) = variable("ELEVO_CONTEXT") {
            return Ok(context(name, false));
        }
        if data_directory::of_environment().is_some() {
            return Ok(Choice::Local);
        }
        let current = Contexts::read()?.current;
        Ok(current.map_or(Choice::Local, |name| context(name, false)))
    }

    fn of_context(&self, name: String, by_option: bool) -> anyhow::Result<FoundServer> {
        let contexts = Contexts::read()?;
        let context = contexts.get(&name)?.clone();
        let (key, key_source) = match self.given_key()? {
            Some((_, KeySource::Variable)) if by_option => (context.key, KeySource::Context),
            Some(given) => given,
            None => (context.key, KeySource::Context),
        };
        let given = match by_option {
            true => self.ca.clone(),
            false => self.authorities(),
        };
        let trust = match (given, context.ca) {
            (Some(path), _) => Trust::With(path),
            (None, Some(pem)) => Trust::Stored {
                pem,
                file: contexts::path().unwrap_or_default(),
            },
            (None, None) => Trust::System,
        };
        Ok(FoundServer {
            url: context.server,
            context: Some(name),
            key_source,
            key,
            trust,
            data: None,
        })
    }

    /// Finds the server at `url`, or the server on this machine.
    fn at_address(&self, url: Option<String>, data: &DataDirectory) -> anyhow::Result<FoundServer> {
        let running = data.running();
        let own = running.as_ref().map(RunningServer::url);
        let (url, found) = match (url, &own) {
            (Some(url), _) => (url, None),
            (None, Some(url)) => (url.clone(), Some(data.clone())),
            (None, None) => {
                let data = data.path().into();
                return Err(ClientError::NoServer { data }.into());
            }
        };
        // The owner's key must not be sent to any other server.
        let is_own = own.is_some_and(|own| own == url.trim_end_matches('/'));
        let owner = || {
            let key = data.owner_key().filter(|_| is_own)?;
            Some((key, KeySource::Owner(data.owner_key_path())))
        };
        let key = self.given_key()?.or_else(owner);
        let (key, key_source) = key.ok_or_else(|| ClientError::NoKey { url: url.clone() })?;
        let trust = match (running.filter(|_| is_own), self.authorities()) {
            (Some(running), _) => running.trust(),
            (None, Some(path)) => Trust::With(path),
            (None, None) => Trust::System,
        };
        Ok(FoundServer {
            url,
            context: None,
            key_source,
            key,
            trust,
            data: found,
        })
    }

    /// Returns the key of an option or a variable.
    fn given_key(&self) -> anyhow::Result<Option<(String, KeySource)>> {
        if let Some(path) = &self.key_file {
            return Ok(Some((read_key(path)?, KeySource::File(path.clone()))));
        }
        Ok(variable("ELEVO_API_KEY").map(|key| (key, KeySource::Variable)))
    }

    fn authorities(&self) -> Option<PathBuf> {
        let variable = || variable("ELEVO_CA").map(PathBuf::from);
        self.ca.clone().or_else(variable)
    }
}

/// Returns a variable that is neither absent nor empty.
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
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
        let http = reqwest::Client::builder()
            .unix_socket(socket)
            .tls_certs_only([])
            .build();
        let http = http.map_err(ClientError::Setup)?;
        Ok(Self { http, ..client })
    }
}
