//! Stops the server of a data directory and waits for its end.

use std::time::{Duration, Instant};

use clap::Args;
use serde_json::json;

use crate::client::ClientError;
use crate::errors::{Exit, FileProblem, ProcessProblem};
use crate::input::duration;
use crate::local::data_directory::DataDirectory;
use crate::local::server_lock::{Phase, ServerProcess};
use crate::output::Output;
use crate::output::progress::{self, Watch};

const PAUSE: Duration = Duration::from_millis(50);

/// Options of a stop.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct StopArgs {
    /// Cut off the requests that still run
    #[arg(long)]
    now: bool,

    /// How long to wait for the end of the server: seconds, or 30s, 5m, 1h
    #[arg(long, value_name = "TIME", default_value = "2m", value_parser = duration::seconds)]
    timeout: u32,
}

/// Stops the server and prints the result.
pub(crate) fn stop(
    data: &DataDirectory,
    args: &StopArgs,
    json: bool,
    quiet: bool,
) -> anyhow::Result<Exit> {
    let Some(process) = ServerProcess::find(data)? else {
        let data = data.path().into();
        return Err(ClientError::NoServer { data }.into());
    };
    let pid = process.holder.pid;
    let watch = Watch {
        doing: "stopping the server",
        things: "",
        total: None,
        counts: || (0, 0),
    };
    let has_ended = progress::watch(quiet || json, watch, || end(data, &process, args))?;
    if !has_ended {
        return Err(ProcessProblem::StillStopping { pid }.into());
    }
    let mut output = Output::new(json);
    match json {
        true => output.value(&json!({ "data": data.path().to_string_lossy(), "pid": pid }))?,
        false => output.line(format!(
            "Stopped the server of {}; sandboxes keep running",
            data.path().display()
        ))?,
    }
    output.finish()?;
    Ok(Exit::Done)
}

/// Signals the process and waits for its end. A second signal, which cuts off the
/// running requests, is sent only on request.
fn end(data: &DataDirectory, process: &ServerProcess, args: &StopArgs) -> anyhow::Result<bool> {
    let failed = |source| FileProblem::Io {
        action: "wait for the process of",
        path: data.path().into(),
        source,
    };
    let is_stopping = process.holder.phase == Phase::Stopping;
    if args.now || !is_stopping {
        process.terminate()?;
    }
    let deadline = Instant::now() + Duration::from_secs(args.timeout.into());
    let mut needs_second = args.now && !is_stopping;
    while needs_second && Instant::now() < deadline {
        if process.wait(PAUSE).map_err(failed)? {
            return Ok(true);
        }
        let found = ServerProcess::find(data)?;
        let phase = found.map(|found| found.holder.phase);
        if phase == Some(Phase::Stopping) {
            process.terminate()?;
            needs_second = false;
        }
    }
    let left = deadline.saturating_duration_since(Instant::now());
    Ok(process.wait(left).map_err(failed)?)
}
