//! `elevo up`: runs the server in this process, and creates everything it needs on
//! the first start.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use elevo_core::ErrorCode;
use elevo_server::{Config, Server, Signals, Traces};
use elevo_store_local::LocalStore;
use serde_json::json;

use crate::client::Client;
use crate::errors::{Exit, FileProblem, ServerProblem};
use crate::local::data_directory::{DataDirectory, RunningServer};
use crate::local::{server_log, server_store};
use crate::options::network::Network;
use crate::output::notes::print_note;
use crate::output::{Output, STRONG};
use crate::server_socket::{self, Dispatch, SocketServer};

/// Start the server on this machine and run it until Ctrl-C.
#[derive(Debug, Args)]
#[command(after_help = "\
The first start creates the data directory, a tenant, and the owner's key in
DIR/owner.key, which the other commands on this machine use. They find the
server through DIR/server.json. Ctrl-C or SIGTERM stops the server once it has
responded to all requests; sandboxes and their commands keep running, and the
next start finds them. A second Ctrl-C stops the server at once.

The server does not start if the catalog, the store and the workspaces do not
belong together: one of them is missing, is an older copy, or is of another
server. With --adopt it starts with the existing data.

Options override the environment (DATA_DIR, API_PORT …), and the environment
overrides the file of --config; `workspace-server --help` lists all settings.

Examples:
  elevo up
  elevo up --data /srv/elevo --port 8081 --network none
  elevo up --docker-host unix:///run/user/1000/docker.sock
  elevo up --config /etc/elevo.toml --log-stderr
  elevo up --data /srv/elevo --adopt")]
pub(crate) struct Up {
    /// Data directory; by default /var/lib/elevo for root, otherwise
    /// $XDG_DATA_HOME/elevo or ~/.local/share/elevo
    #[arg(long, value_name = "DIR", env = "ELEVO_DATA", hide_env_values = true)]
    data: Option<PathBuf>,

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

    /// Log to standard error instead of DIR/server.log
    #[arg(long)]
    log_stderr: bool,

    /// Print JSON, errors included
    #[arg(long)]
    pub(crate) json: bool,
}

/// Runs the server. `dispatch` runs the commands that it accepts on its socket.
pub(crate) fn run(args: &Up, dispatch: Dispatch) -> anyhow::Result<Exit> {
    if server_socket::VARIABLES
        .iter()
        .any(|name| std::env::var_os(name).is_some())
    {
        return Err(again().into());
    }
    let mut config = settings(args)?;
    config.adopt = args.adopt;
    let data = DataDirectory::new(Some(config.data_dir.clone()));
    if let Some(running) = data.running() {
        return Err(ServerProblem::AlreadyRunning {
            data: data.path().into(),
            url: running.url(),
            pid: running.pid,
        }
        .into());
    }
    elevo_server::keep_private();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    // Before anything is created: a start that is rejected changes nothing.
    let store = runtime.block_on(Server::open_store(&config))?;
    let traces = Traces::begin(config.traces.as_ref(), runtime.handle())?;
    let file = (!args.log_stderr).then(|| data.log());
    server_log::begin(&config.log, file, traces.as_ref())?;
    let served = runtime.block_on(serve(config, store, &data, dispatch, args.json));
    if let Some(traces) = traces {
        traces.end();
    }
    runtime.shutdown_timeout(Duration::from_secs(5));
    served.map(|()| Exit::Done)
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

/// Reads the settings: options override the environment, which overrides the file.
fn settings(args: &Up) -> anyhow::Result<Config> {
    let file = match &args.config {
        Some(path) => Some(fs::read_to_string(path).map_err(|source| FileProblem::Io {
            action: "read",
            path: path.clone(),
            source,
        })?),
        None => None,
    };
    let is_named = |text: &String| {
        let table = text.parse::<toml::Table>();
        table.is_ok_and(|table| table.contains_key("data_dir"))
    };
    let is_named = file.as_ref().is_some_and(is_named) || std::env::var_os("DATA_DIR").is_some();
    let data = match (&args.data, is_named) {
        (Some(path), _) => Some(absolute(path)?),
        (None, true) => None,
        (None, false) => Some(DataDirectory::new(None).path().into()),
    };
    let options = [
        (
            "DATA_DIR",
            data.map(|path| path.to_string_lossy().into_owned()),
        ),
        ("API_PORT", args.port.map(|port| port.to_string())),
        (
            "METRICS_PORT",
            args.metrics_port.map(|port| port.to_string()),
        ),
        ("DOCKER_HOST", args.docker_host.clone()),
        (
            "DEFAULT_NETWORK",
            args.network.map(|network| network.name().to_owned()),
        ),
    ];
    let options = options
        .into_iter()
        .filter_map(|(name, value)| Some((name.to_owned(), value?)));
    let environment = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    let config = Config::read(file.as_deref(), environment.chain(options));
    Ok(config.map_err(|invalid| ServerProblem::Settings(invalid.0))?)
}

fn absolute(path: &std::path::Path) -> Result<PathBuf, FileProblem> {
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

async fn serve(
    config: Config,
    store: Arc<LocalStore>,
    data: &DataDirectory,
    dispatch: Dispatch,
    json: bool,
) -> anyhow::Result<()> {
    let mut signals = Signals::new()?;
    let certificate = match &config.tls {
        Some(tls) => Some(std::path::absolute(&tls.certificate)?),
        None => None,
    };
    let starting = Server::start_with(config.clone(), store.clone(), None);
    let mut server = tokio::select! {
        started = starting => started?,
        () = signals.next() => return Ok(()),
    };
    let addresses = server.addresses();
    let running = RunningServer::new(addresses.api, addresses.metrics, certificate);
    let is_new = ensure_key(&server, data, &running).await?;
    let held = server_store::held(&config, data, store, &running)?;
    let socket = SocketServer::open(data, held, dispatch)?;
    let announced = data.announce(&running)?;
    tracing::info!(api = %addresses.api, metrics = %addresses.metrics, "listening");
    greet(data, &running, is_new, json)?;
    let ended = tokio::select! {
        error = server.failed() => Err(error.context("the server has failed")),
        () = signals.next() => Ok(()),
    };
    drop((announced, socket));
    if ended.is_ok() {
        tracing::info!("stopping; sandboxes keep running");
        if !json {
            print_note("stopping; sandboxes keep running. Ctrl-C again stops at once");
        }
    }
    tokio::select! {
        () = server.stop() => {}
        () = signals.next() => return Err(ServerProblem::CutShort.into()),
    }
    ended
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

/// Prints the address of the server, and commands to try.
fn greet(
    data: &DataDirectory,
    running: &RunningServer,
    is_new: bool,
    json: bool,
) -> anyhow::Result<()> {
    let mut output = Output::new(json);
    let (url, key) = (running.url(), data.owner_key_path());
    if json {
        output.value(&json!({
            "server": url,
            "metrics": format!("http://{}", running.metrics),
            "data": data.path().to_string_lossy(),
            "key_file": key.to_string_lossy(),
            "pid": running.pid,
        }))?;
        return Ok(output.finish()?);
    }
    let shown = output.styled(STRONG, &url);
    output.line([b"Elevo is at ", shown.as_slice()].concat())?;
    output.line(format!("Data in {}", data.path().display()))?;
    if is_new {
        output.line(format!("The owner's key was written to {}", key.display()))?;
    }
    let key = key.display();
    output
        .line("Commands of this user on this machine find both. For other clients, for example:")?;
    output.line(format!(
        "  curl -H \"Authorization: Bearer $(cat {key})\" {url}/api/v1/sandboxes"
    ))?;
    output.line("")?;
    output.line("Try, in another terminal:")?;
    if *data != DataDirectory::new(None) {
        let path = data.path().display();
        output.line(format!("  export ELEVO_DATA={path}"))?;
    }
    for command in [
        "elevo template create python:3.11",
        "id=$(elevo sandbox create python:3.11)",
        "elevo exec \"$id\" -- python -c 'print(6 * 7)'",
    ] {
        output.line(format!("  {command}"))?;
    }
    Ok(output.finish()?)
}
