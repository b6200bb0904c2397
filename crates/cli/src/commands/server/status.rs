use clap::Args;
use elevo_api::{Health, Ready};
use serde_json::{Value, json};

use crate::client::health;
use crate::client::operator::OperatorOptions;
use crate::errors::Exit;
use crate::local::data_directory::{DataDirectory, RunningServer};
use crate::local::server_lock::{Phase, ServerProcess};
use crate::output::check::check_row;
use crate::output::format::first_line;
use crate::output::notes::field;
use crate::output::relative_time::relative;
use crate::output::{Output, STRONG};

/// Show whether the server runs, its address, version, uptime and health.
#[derive(Debug, Args)]
#[command(after_help = "\
Exit codes: 0 the server is ready, 1 it runs and is not ready, 3 it does not run,
5 it is starting or stopping.

Examples:
  elevo server status
  elevo server status --data /srv/elevo
  elevo server status --json | jq -r .state
  until elevo server status -q; do sleep 1; done")]
pub(super) struct Status {}

/// The responses of a running server to `/health` and `/ready`.
struct Responses {
    health: Result<Health, String>,
    ready: Result<Ready, String>,
}

impl Responses {
    fn is_ready(&self) -> bool {
        self.ready.as_ref().is_ok_and(|ready| ready.ready)
    }
}

/// The state of the server.
enum State {
    Stopped,
    /// Starting or stopping.
    Changing(ServerProcess),
    Running(ServerProcess, RunningServer, Responses),
}

pub(super) fn run(at: &OperatorOptions) -> anyhow::Result<Exit> {
    let data = DataDirectory::new(at.data.clone());
    let state = find(&data)?;
    let mut output = Output::new(at.json);
    if at.json {
        output.value(&shape(&data, &state))?;
    } else if !at.quiet {
        print(&mut output, &data, &state)?;
    }
    output.finish()?;
    Ok(match state {
        State::Stopped => Exit::NotFound,
        State::Changing(_) => Exit::Busy,
        State::Running(_, _, responses) => match responses.is_ready() {
            true => Exit::Done,
            false => Exit::Failed,
        },
    })
}

fn find(data: &DataDirectory) -> anyhow::Result<State> {
    let Some(process) = ServerProcess::find(data)? else {
        return Ok(State::Stopped);
    };
    let running = data.running();
    let Some(running) = running.filter(|_| process.holder.phase == Phase::Running) else {
        return Ok(State::Changing(process));
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let responses = runtime.block_on(async {
        Responses {
            health: health::ask(&running, "health").await,
            ready: health::ask(&running, "ready").await,
        }
    });
    Ok(State::Running(process, running, responses))
}

fn shape(data: &DataDirectory, state: &State) -> Value {
    let path = data.path().to_string_lossy();
    let log = data.log();
    let process = match state {
        State::Stopped => return json!({ "state": "stopped", "data": path }),
        State::Changing(process) | State::Running(process, ..) => process,
    };
    let holder = &process.holder;
    let mut shape = json!({
        "state": holder.phase.name(),
        "data": path,
        "pid": holder.pid,
        "started_at": holder.started_at,
        "log": log.exists().then(|| log.to_string_lossy()),
    });
    if let State::Running(_, running, responses) = state {
        shape["server"] = running.url().into();
        shape["metrics"] = format!("http://{}", running.metrics).into();
        let version = responses.health.as_ref().map(|health| &health.version);
        shape["version"] = json!(version.ok());
        shape["ready"] = responses.is_ready().into();
        let checks = responses.ready.as_ref().map(|ready| &ready.checks);
        shape["checks"] = json!(checks.ok());
    }
    shape
}

fn print(output: &mut Output, data: &DataDirectory, state: &State) -> anyhow::Result<()> {
    let path = data.path().display();
    let (process, running) = match state {
        State::Stopped => {
            output.line(format!("No server runs with the data directory {path}"))?;
            return Ok(());
        }
        State::Changing(process) => {
            let doing = process.holder.phase.name();
            output.line(format!("The server of {path} is {doing}"))?;
            (process, None)
        }
        State::Running(process, running, responses) => {
            let url = output.styled(STRONG, running.url());
            output.line([b"Elevo is at ", url.as_slice()].concat())?;
            (process, Some(responses))
        }
    };
    field(output, "data", &path.to_string())?;
    let log = data.log();
    if log.exists() {
        field(output, "log", &log.display().to_string())?;
    }
    let holder = &process.holder;
    field(output, "process", &holder.pid.to_string())?;
    field(output, "started", &relative(&holder.started_at))?;
    let Some(responses) = running else {
        return Ok(());
    };
    match &responses.health {
        Ok(health) => field(output, "version", &health.version)?,
        Err(obstacle) => field(output, "version", obstacle)?,
    }
    let lines = match &responses.ready {
        Err(obstacle) => vec![check_row(output, "ready", false, obstacle)],
        Ok(ready) => {
            let row = |check: &elevo_api::ReadyCheck| {
                check_row(output, &check.name, check.ok, &first_line(&check.message))
            };
            ready.checks.iter().map(row).collect()
        }
    };
    for line in lines {
        output.line(line)?;
    }
    Ok(())
}
