//! Runs the server in this process, and creates everything it needs on the first
//! start.

use std::fs::OpenOptions;
use std::os::unix::process::CommandExt;
use std::time::Duration;

use anyhow::Context;
use elevo_core::ErrorCode;
use elevo_server::{Config, OpenStore, Server, Signals, Traces};

use crate::client::Client;
use crate::errors::{FileProblem, ServerProblem};
use crate::local::data_directory::{DataDirectory, RunningServer};
use crate::local::server_lock::{Phase, ServerLock};
use crate::local::{server_log, server_store};
use crate::output::notes::print_note;
use crate::output::server_greeting::Greeting;
use crate::server_socket::{self, Dispatch, SocketServer};

/// How the process of the server logs and reports.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RunMode {
    /// Log to standard error instead of the file.
    pub(crate) log_stderr: bool,
    pub(crate) json: bool,
    /// Print commands to try.
    pub(crate) hints: bool,
    /// Leave the terminal: another process waits for the greeting.
    pub(crate) detached: bool,
}

/// Runs the server until a signal stops it. `dispatch` runs the commands that it
/// accepts on its socket.
pub(crate) fn run(config: Config, mode: RunMode, dispatch: Dispatch) -> anyhow::Result<()> {
    if server_socket::VARIABLES
        .iter()
        .any(|name| std::env::var_os(name).is_some())
    {
        return Err(again().into());
    }
    if mode.detached {
        // A signal of the terminal must not reach the server.
        rustix::process::setsid().context("cannot leave the terminal")?;
    }
    elevo_server::keep_private();
    let data = DataDirectory::new(Some(config.data_dir.clone()));
    // Held until this function returns, so that a second server waits for the
    // threads of this one.
    let mut lock = ServerLock::acquire(&data)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    let served = runtime.block_on(async {
        let mut signals = Signals::new()?;
        // Before anything else is created: a start that is rejected changes nothing.
        let store = tokio::select! {
            opened = Server::open_store(&config) => opened?,
            () = signals.next() => return Ok(()),
        };
        let traces = Traces::begin(config.traces.as_ref(), runtime.handle())?;
        let file = (!mode.log_stderr).then(|| data.log());
        server_log::begin(&config.log, file, traces.as_ref())?;
        let process = ServerTask {
            config,
            mode,
            data,
            lock: &mut lock,
            signals,
        };
        let served = process.serve(store, dispatch).await;
        if let Some(traces) = traces {
            tokio::task::spawn_blocking(move || traces.end()).await?;
        }
        served
    });
    runtime.shutdown_timeout(Duration::from_secs(5));
    served
}

/// Executes this program again without the environment variables of options, so
/// that they do not apply to the commands of callers. Returns only on a failure.
fn again() -> FileProblem {
    let failed = |source| FileProblem::Io {
        action: "start",
        path: "elevo".into(),
        source,
    };
    let own = match std::env::current_exe() {
        Ok(own) => own,
        Err(error) => return failed(error),
    };
    let mut command = std::process::Command::new(own);
    command.args(std::env::args_os().skip(1));
    for name in server_socket::VARIABLES {
        command.env_remove(name);
    }
    failed(command.exec())
}

struct ServerTask<'a> {
    config: Config,
    mode: RunMode,
    data: DataDirectory,
    lock: &'a mut ServerLock,
    signals: Signals,
}

impl ServerTask<'_> {
    async fn serve(mut self, store: OpenStore, dispatch: Dispatch) -> anyhow::Result<()> {
        let certificate = match &self.config.tls {
            Some(tls) => Some(std::path::absolute(&tls.certificate)?),
            None => None,
        };
        let starting = Server::start_with(self.config.clone(), store.clone(), None);
        let mut server = tokio::select! {
            started = starting => started?,
            () = self.signals.next() => {
                tracing::info!("stopped by a signal during the start");
                return Ok(());
            }
        };
        let addresses = server.addresses();
        let running = RunningServer::new(addresses.api, addresses.metrics, certificate);
        let is_new = ensure_key(&server, &self.data, &running).await?;
        // Commands on a store work on directories, so none can mean a store that
        // several servers use.
        let socket = match store.local() {
            Some(store) => {
                let held = server_store::held(&self.config, &self.data, store, &running)?;
                Some(SocketServer::open(&self.data, held, dispatch)?)
            }
            None => None,
        };
        let announced = self.data.announce(&running)?;
        self.lock.enter(Phase::Running)?;
        tracing::info!(api = %addresses.api, metrics = %addresses.metrics, "listening");
        self.greet(&running, is_new, server.any_template().await)?;
        let ended = tokio::select! {
            error = server.failed() => Err(error.context("the server has failed")),
            () = self.signals.next() => Ok(()),
        };
        self.lock.enter(Phase::Stopping)?;
        drop((announced, socket));
        if ended.is_ok() {
            tracing::info!("stopping; sandboxes keep running");
            if !self.mode.json && !self.mode.detached {
                print_note("stopping; sandboxes keep running. Ctrl-C again stops at once");
            }
        }
        tokio::select! {
            () = server.stop() => {}
            () = self.signals.next() => return Err(ServerProblem::CutShort.into()),
        }
        if let Err(error) = &ended {
            tracing::error!("{error:#}");
        }
        ended
    }

    /// Prints the address of the server. A detached server then closes the
    /// output of the command that started it.
    fn greet(
        &self,
        running: &RunningServer,
        is_new: bool,
        template: Option<String>,
    ) -> anyhow::Result<()> {
        let log_stderr = self.mode.log_stderr;
        let greeting = Greeting::new(&self.data, running, is_new, log_stderr, template);
        if !self.mode.detached {
            return greeting.print(self.mode.json, self.mode.hints);
        }
        let null = OpenOptions::new()
            .read(true)
            .write(true)
            .open("/dev/null")?;
        rustix::stdio::dup2_stderr(&null)?;
        if let Err(error) = greeting.print(true, false) {
            tracing::warn!("the command that started the server has ended: {error:#}");
        }
        rustix::stdio::dup2_stdout(&null)?;
        Ok(())
    }
}

/// Creates the owner's key if there is none or it is invalid. Returns whether it
/// is new.
async fn ensure_key(
    server: &Server,
    data: &DataDirectory,
    running: &RunningServer,
) -> anyhow::Result<bool> {
    if let Some(key) = data.owner_key()
        && !is_void(&key, running).await
    {
        return Ok(false);
    }
    let app = server.app();
    let tenant = app.first_tenant().await.context("cannot create a tenant")?;
    let secret = app.create_owner_key(tenant, "owner").await;
    let secret = secret.context("cannot create the owner's key")?;
    data.write_owner_key(&secret)?;
    Ok(true)
}

/// Whether the server rejects a key: the catalog may have been replaced.
async fn is_void(key: &str, running: &RunningServer) -> bool {
    let Ok(client) = Client::local(running, Some(key)) else {
        return false;
    };
    let asked = client.get::<serde_json::Value>(&["api", "v1", "templates"]);
    let answer = asked.await;
    answer.is_err_and(|error| error.code() == Some(ErrorCode::Unauthorized))
}
