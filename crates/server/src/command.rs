//! The command `workspace-server`: reads the settings from its arguments and
//! the environment, logs to standard error and handles signals.

#![allow(clippy::disallowed_methods, reason = "settings and signals enter here")]

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use clap::Parser;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer};

use crate::{
    Config, InvalidConfig, Refusal, Server, Signals, TRACE_TARGET, Traces, keep_private,
    openapi_json, settings,
};

/// Sandboxes for agents, each with its own branch of a versioned file tree.
#[derive(Debug, Parser)]
#[command(name = "workspace-server", version, after_help = help())]
struct Arguments {
    /// Settings, a TOML file; the environment overrides it
    #[arg(long, value_name = "FILE", env = "ELEVO_CONFIG")]
    config: Option<PathBuf>,

    /// Start with a catalog, store and workspaces that do not belong together
    #[arg(long)]
    adopt: bool,

    /// Only check the settings
    #[arg(long)]
    check: bool,

    /// Print the description of the API and exit
    #[arg(long)]
    openapi: bool,
}

fn help() -> String {
    let mut help = String::from(
        "Settings (environment variables; in the settings file, the names are in lower case):\n",
    );
    for (name, meaning) in settings() {
        help += &format!("  {name:<26} {meaning}\n");
    }
    help += "\nExamples:\n  workspace-server --check\n  DATA_DIR=/srv/elevo API_PORT=8081 workspace-server\n  DATA_DIR=/srv/elevo workspace-server --adopt\n";
    help
}

/// Runs the command with the arguments of this process. `agent` is the workspace
/// agent that the program contains.
pub fn run_command(agent: Option<&'static [u8]>) -> ExitCode {
    match run(&Arguments::parse(), agent) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            use std::io::Write;
            // If this fails, there is nowhere to report it.
            let _ = writeln!(std::io::stderr(), "workspace-server: {error:#}");
            if let Some(refusal) = error.downcast_ref::<Refusal>() {
                let _ = writeln!(std::io::stderr(), "{}", refusal.advice());
            }
            // As in `elevo server run`, invalid settings have exit code 2.
            match error.downcast_ref::<InvalidConfig>() {
                Some(_) => ExitCode::from(2),
                None => ExitCode::FAILURE,
            }
        }
    }
}

fn run(arguments: &Arguments, agent: Option<&'static [u8]>) -> anyhow::Result<()> {
    use std::io::Write;
    if arguments.openapi {
        let text = openapi_json();
        return Ok(std::io::stdout().write_all(text.as_bytes())?);
    }
    let file = match &arguments.config {
        Some(path) => {
            let text = std::fs::read_to_string(path);
            Some(text.with_context(|| format!("cannot read {}", path.display()))?)
        }
        None => None,
    };
    let mut config = Config::read(file.as_deref(), std::env::vars())?;
    config.adopt = arguments.adopt;
    config.agent_inside = agent;
    if arguments.check {
        return Ok(writeln!(std::io::stdout(), "the settings are valid")?);
    }
    keep_private();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    let traces = Traces::begin(config.traces.as_ref(), runtime.handle())?;
    log_to_stderr(&config.log, traces.as_ref())?;
    let served = runtime.block_on(serve(config));
    if let Some(traces) = traces {
        traces.end();
    }
    // A garbage collection or an import may still be running in a thread.
    // Killing it at any moment is safe.
    runtime.shutdown_timeout(LAST);
    served
}

/// Maximum time to wait for running threads when the server stops.
const LAST: Duration = Duration::from_secs(5);

/// Logs one JSON object per line.
fn log_to_stderr(filter: &str, traces: Option<&Traces>) -> anyhow::Result<()> {
    let filter = EnvFilter::try_new(filter).context("RUST_LOG cannot be read")?;
    let filter = filter.add_directive(format!("{TRACE_TARGET}=off").parse()?);
    let lines = tracing_subscriber::fmt::layer()
        .json()
        .flatten_event(true)
        .with_writer(std::io::stderr);
    tracing_subscriber::registry()
        .with(lines.with_filter(filter))
        .with(traces.map(Traces::layer))
        .init();
    Ok(())
}

async fn serve(config: Config) -> anyhow::Result<()> {
    let mut signals = Signals::new()?;
    let mut server = tokio::select! {
        started = Server::start(config) => started?,
        () = signals.next() => {
            tracing::info!("stopped by a signal during the start");
            return Ok(());
        }
    };
    let addresses = server.addresses();
    tracing::info!(api = %addresses.api, metrics = %addresses.metrics, "listening");
    tokio::select! {
        error = server.failed() => return Err(error),
        () = signals.next() => {}
    }
    tracing::info!("stopping; sandboxes keep running");
    tokio::select! {
        () = server.stop() => {}
        () = signals.next() => tracing::warn!("stopped at once by a second signal"),
    }
    Ok(())
}
