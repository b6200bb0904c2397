//! The server as a separate process on a simulated engine.
//!
//! The program is this test binary: it starts itself with the arguments of
//! [`ARGUMENTS`], which select the only test of this file. So the shipped binary
//! has no simulated engine in it, and a test can still kill the server while its
//! sandboxes continue.

use std::sync::Arc;
use std::time::Duration;

use elevo_sandbox::sim::RemoteRuntime;
use elevo_server::{Config, Refusal, Server, Signals, TRACE_TARGET, Traces};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer};

/// The variable with the socket of the engine.
pub(crate) const ENGINE: &str = "ELEVO_SIM_ENGINE";

/// Arguments of a test binary that runs the server.
pub(crate) fn arguments() -> Vec<String> {
    let (_, module) = module_path!().split_once("::").unwrap();
    let test = format!("{module}::serves");
    let arguments = ["--exact", &test, "--ignored", "--nocapture", "--quiet"];
    arguments.map(str::to_owned).to_vec()
}

/// Not a test: the server that other tests start.
#[test]
#[ignore = "other tests start this as a server"]
fn serves() {
    let Ok(engine) = std::env::var(ENGINE) else {
        return;
    };
    if let Err(error) = run(&engine) {
        eprintln!("workspace-server: {error:#}");
        if let Some(refusal) = error.downcast_ref::<Refusal>() {
            eprintln!("{}", refusal.advice());
        }
        std::process::exit(1);
    }
    // As for the shipped binary, a thread that still works does not delay the end.
    std::process::exit(0);
}

/// Does what `main` of the server does, with another engine.
fn run(engine: &str) -> anyhow::Result<()> {
    let config = Config::read(None, std::env::vars())?;
    // Not `keep_private`: a simulated sandbox of another user reaches its workspace
    // by the path, through directories that a container does not see.
    elevo_server::choose_cryptography();
    let runtime = tokio::runtime::Runtime::new()?;
    let traces = Traces::begin(config.traces.as_ref(), runtime.handle())?;
    let filter = EnvFilter::try_new(&config.log)?;
    let filter = filter.add_directive(format!("{TRACE_TARGET}=off").parse()?);
    let lines = tracing_subscriber::fmt::layer()
        .json()
        .flatten_event(true)
        .with_writer(std::io::stderr);
    tracing_subscriber::registry()
        .with(lines.with_filter(filter))
        .with(traces.as_ref().map(Traces::layer))
        .init();
    let served = runtime.block_on(serve(config, engine));
    if let Some(traces) = traces {
        traces.end();
    }
    runtime.shutdown_timeout(Duration::from_secs(5));
    served
}

async fn serve(config: Config, engine: &str) -> anyhow::Result<()> {
    let mut signals = Signals::new()?;
    let mut server = Server::start_on(config, Arc::new(RemoteRuntime::new(engine))).await?;
    let addresses = server.addresses();
    tracing::info!(api = %addresses.api, metrics = %addresses.metrics, "listening");
    tokio::select! {
        error = server.failed() => return Err(error),
        () = signals.next() => {}
    }
    tokio::select! {
        () = server.stop() => {}
        () = signals.next() => tracing::warn!("stopped at once by a second signal"),
    }
    Ok(())
}
