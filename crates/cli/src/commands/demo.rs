//! `elevo demo`: shows how agents share a project, on a server that is gone
//! afterwards.

mod cleanup;
mod installation;
mod script;
mod stage;
mod story;
mod workplaces;

use clap::Args;

use crate::client::health;
use crate::errors::{DemoProblem, Exit};
use crate::output::reader_left;

use installation::Installation;
use stage::Stage;
use workplaces::Workplaces;

/// Show in seconds how agents share a project; leaves nothing behind.
#[derive(Debug, Args)]
#[command(after_help = "\
Starts a server in a temporary directory (in $TMPDIR, by default /tmp), on free
ports, that no other command finds. Three agents change one project, each in a
sandbox. Two merges land, the third conflicts and is decided in a review. Each
command is printed with its result and its time. At the end, also after Ctrl-C
or a failure, the demo deletes the sandboxes, the server and the directory. The
image of the sandboxes stays in the container engine.

The sandboxes need the container engine of DOCKER_HOST. Without an engine the
agents work in directories, as with --no-sandbox.

Examples:
  elevo demo
  elevo demo --no-sandbox               without a container engine
  elevo demo --template python:3.11     with an image of the engine
  elevo demo --json | jq -r '[.step, .seconds] | @tsv'")]
pub(crate) struct Demo {
    /// Let the agents work in directories instead of sandboxes
    #[arg(long)]
    no_sandbox: bool,

    /// Image of the sandboxes, pulled if the engine does not have it; by default
    /// the built-in template
    #[arg(long, value_name = "IMAGE", conflicts_with = "no_sandbox")]
    template: Option<String>,

    /// Print JSON, errors included
    #[arg(long)]
    pub(crate) json: bool,

    /// Show no progress and no notes
    #[arg(short, long)]
    quiet: bool,
}

pub(crate) fn run(args: &Demo) -> anyhow::Result<Exit> {
    let mut stage = Stage::new(args.json, args.quiet)?;
    match run_on(&mut stage, args) {
        Err(error) if reader_left(&error) => Ok(Exit::Done),
        Err(error) if is_interruption(&error) => Ok(stage.interrupted()),
        ended => ended,
    }
}

fn run_on(stage: &mut Stage, args: &Demo) -> anyhow::Result<Exit> {
    let engine = engine(stage, args)?;
    let mut installation = Installation::create(engine)?;
    let shown = show(stage, args, &mut installation);
    let deleted = stage.watch("cleaning up", installation.delete());
    let shown = match shown {
        // A signal may also show as a lost connection.
        Err(_) if stage.signal().is_some() => Err(DemoProblem::Interrupted.into()),
        shown => shown,
    };
    match (shown, deleted) {
        (Ok(exit), Ok(())) => {
            if exit == Exit::Done {
                stage.conclude()?;
            }
            Ok(exit)
        }
        (Err(error), Ok(())) => Err(error),
        (Ok(_), Err(left)) => Err(left),
        (Err(error), Err(left)) => Err(left.context(format!("{error:#}"))),
    }
}

fn is_interruption(error: &anyhow::Error) -> bool {
    let problem = error.downcast_ref::<DemoProblem>();
    matches!(problem, Some(DemoProblem::Interrupted))
}

/// Returns the address of the container engine; `None` if the agents work in
/// directories.
fn engine(stage: &Stage, args: &Demo) -> anyhow::Result<Option<String>> {
    if args.no_sandbox {
        return Ok(None);
    }
    let host = health::engine_host();
    let looked = stage.wait("looking for the container engine", async {
        Ok(health::engine(&host).await)
    })?;
    match (looked, &args.template) {
        (Ok(_), _) => Ok(Some(host)),
        (Err(obstacle), Some(_)) => Err(DemoProblem::NoEngine { host, obstacle }.into()),
        (Err(obstacle), None) => {
            stage.note(&format!(
                "{obstacle}; the agents work in directories instead of sandboxes"
            ));
            Ok(None)
        }
    }
}

/// Starts the server and shows everything. If the server ends before it is
/// ready, it has printed why; then returns its exit code.
fn show(stage: &mut Stage, args: &Demo, installation: &mut Installation) -> anyhow::Result<Exit> {
    stage.title("Three agents change one project at the same time.")?;
    let (client, time) = match stage.timed("starting the server", installation.start(args.json))? {
        (Ok(client), time) => (client, time),
        (Err(exit), _) => return Ok(exit),
    };
    let place = installation.path().display();
    let about = format!("a server for this demo alone, in {place}");
    stage.tell("start", "elevo up", time, &[about])?;
    let workplaces = match installation.has_engine() {
        true => Workplaces::in_sandboxes(stage, &client, args.template.as_deref())?,
        false => Workplaces::Directories,
    };
    story::play(stage, &client, &workplaces, &installation.project_files()?)?;
    Ok(Exit::Done)
}
