//! A server in a temporary directory.
//!
//! ```text
//! DIR/data               data directory of the server
//! DIR/data.secrets-key   key of secrets, if the server created one
//! DIR/shop               files that the project starts with
//! ```

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::time::timeout;

use super::{cleanup, script};
use crate::client::Client;
use crate::errors::{Exit, FileProblem, ProcessProblem};
use crate::local::data_directory::DataDirectory;
use crate::output::notes::print_note;
use crate::server_socket;

/// Settings of the environment that the server gets. The others could place
/// data outside of the directory, or open the server to other machines.
const KEPT: [&str; 4] = [
    "AGENT_BINARY",
    "DOCKER_HOST",
    "REGISTRY_AUTH_FILE",
    "SHARE_DIR",
];

/// Seconds that the server waits for running requests when it stops. A sandbox
/// that is being created is finished, so that it can be found and deleted.
const GRACE: u64 = 30;

/// Maximum time for the server to stop.
const STOPPING: Duration = Duration::from_secs(GRACE + 30);

pub(super) struct Installation {
    directory: TempDir,
    data: DataDirectory,
    /// Address of the container engine, if the server has sandboxes.
    engine: Option<String>,
    server: Option<Child>,
}

impl Installation {
    /// Creates the directory.
    pub(super) fn create(engine: Option<String>) -> anyhow::Result<Self> {
        let directory = tempfile::Builder::new().prefix("elevo-demo-").tempdir();
        let directory = directory.map_err(|source| FileProblem::Io {
            action: "create a directory in",
            path: std::env::temp_dir(),
            source,
        })?;
        let data = DataDirectory::new(Some(directory.path().join("data")));
        Ok(Self {
            directory,
            data,
            engine,
            server: None,
        })
    }

    pub(super) fn path(&self) -> &Path {
        self.directory.path()
    }

    pub(super) fn has_engine(&self) -> bool {
        self.engine.is_some()
    }

    /// Writes the files that the project starts with. Returns their directory.
    pub(super) fn project_files(&self) -> anyhow::Result<PathBuf> {
        let directory = self.path().join(script::PROJECT);
        let written = fs::create_dir(&directory).and_then(|()| {
            let mut files = script::FILES.iter();
            files.try_for_each(|(name, text)| fs::write(directory.join(name), text))
        });
        written.map_err(|source| FileProblem::Io {
            action: "write to",
            path: directory.clone(),
            source,
        })?;
        Ok(directory)
    }

    /// Starts the server and returns a client of its owner. If the server ends
    /// before it is ready, it has printed why; then returns its exit code.
    pub(super) async fn start(&mut self, json: bool) -> anyhow::Result<Result<Client, Exit>> {
        let mut child = self
            .command(json)?
            .spawn()
            .map_err(|source| FileProblem::Io {
                action: "start",
                path: "elevo".into(),
                source,
            })?;
        let stdout = child.stdout.take();
        let server = self.server.insert(child);
        let mut line = String::new();
        if let Some(stdout) = stdout {
            BufReader::new(stdout).read_line(&mut line).await?;
        }
        let running = self.data.running().filter(|_| !line.is_empty());
        let Some(running) = running else {
            let status = server.wait().await?;
            return match status.code() {
                Some(code) if code != 0 => Ok(Err(Exit::of_command(code))),
                _ => Err(ProcessProblem::StoppedEarly.into()),
            };
        };
        let key = self.data.owner_key();
        let client = Client::local(&running, key.as_deref())?;
        Ok(Ok(client))
    }

    fn command(&self, json: bool) -> anyhow::Result<Command> {
        let mut command = Command::new(std::env::current_exe()?);
        command
            .args(["server", "run", "--detached", "--network", "none"])
            .args(["--port", "0", "--metrics-port", "0", "--data"])
            .arg(self.data.path())
            .args(json.then_some("--json"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped());
        let settings = elevo_server::settings().iter().map(|(name, _)| *name);
        let others = settings.filter(|name| !KEPT.contains(name));
        for name in others.chain(server_socket::VARIABLES) {
            command.env_remove(name);
        }
        command.env("STOP_GRACE", GRACE.to_string());
        if self.engine.is_none() {
            // An engine on this machine must not be touched.
            let none = self.path().join("no-engine.sock");
            command.env("DOCKER_HOST", format!("unix://{}", none.display()));
        }
        Ok(command)
    }

    /// Stops the server, and deletes everything that it created: containers,
    /// mounts and files. Fails if something is left.
    pub(super) async fn delete(mut self) -> anyhow::Result<()> {
        let stopped = self.stop().await;
        let path = self.path().to_owned();
        let emptied = cleanup::empty(&self.data, self.engine.as_deref()).await;
        let deleted = self.directory.close().map_err(|source| FileProblem::Io {
            action: "delete",
            path: path.clone(),
            source,
        });
        let done = stopped
            .map_err(Into::into)
            .and(emptied)
            .and(deleted.map_err(Into::into));
        match (cleanup::check(&path), done) {
            (Ok(()), done) => done,
            (Err(left), Ok(())) => Err(left),
            (Err(left), Err(cause)) => {
                print_note(&format!("{cause:#}"));
                Err(left)
            }
        }
    }

    /// Stops the server. Kills it if it does not stop in time.
    async fn stop(&mut self) -> std::io::Result<()> {
        let Some(server) = &mut self.server else {
            return Ok(());
        };
        if let Some(pid) = server
            .id()
            .and_then(|id| Pid::from_raw(id.try_into().ok()?))
        {
            // The process exists until `wait` returns, so the id is its own.
            kill_process(pid, Signal::TERM)?;
        }
        if timeout(STOPPING, server.wait()).await.is_err() {
            server.kill().await?;
        }
        Ok(())
    }
}
