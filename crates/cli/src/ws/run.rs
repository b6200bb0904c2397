//! Commands in workspaces.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use clap::{Args, Parser};
use elevo_workspace::{Way, WorkspaceId};

use super::Call;
use crate::errors::{Exit, Problem, Report};

/// Run a command in a workspace.
#[derive(Debug, Args)]
#[command(after_help = "\
It runs in the directory of the workspace, with standard input, output and
environment as they are here, and ends as it ends. Ends with 125 if elevo itself
fails, with 126 if the command cannot be run, and with 127 if it is not found.

This is the only way into a workspace that was made with --provider rootless: an
overlay in a user namespace, which needs no root and which nothing else sees.
Commands that run at the same time see each other's files. There, a directory
that comes from the snapshot cannot be renamed, only copied and deleted, as `mv`
does by itself.

Examples:
  elevo ws run try-1 -- make test
  elevo ws run try-1 -- sh -c 'echo hello > greeting'
  elevo ws run try-1 -- bash                   a shell in it")]
pub(super) struct Run {
    /// The workspace
    id: WorkspaceId,

    /// The command
    #[arg(required = true, last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

pub(super) fn run(call: &mut Call, args: &Run) -> anyhow::Result<ExitCode> {
    let workspaces = call.open_to_read()?;
    let way = call.watch("making the workspace ready", |progress| {
        workspaces.way(&args.id, progress)
    })?;
    drop(workspaces);
    match way {
        Way::Directory(directory) => Ok(become_in(&directory, &args.command)),
        #[cfg(target_os = "linux")]
        Way::Entrance(entrance) => {
            let mut words: Vec<OsString> = vec!["ws".into(), "enter".into()];
            words.extend([entrance.room.into(), entrance.files.into()]);
            words.extend(entrance.lowers.into_iter().map(OsString::from));
            words.push("--".into());
            words.extend(args.command.iter().cloned());
            // A process that has no threads yet.
            let error = Command::new(own()?).args(words).exec();
            Err(cannot_start("elevo", error).into())
        }
    }
}

/// Runs it in a workspace of a server, which says where that is.
pub(super) fn run_served(args: &Run, options: &[OsString]) -> anyhow::Result<ExitCode> {
    let mut command = Command::new(own()?);
    command.arg("ws").args(options);
    command.arg("path").arg(args.id.as_str());
    let said = command.stderr(Stdio::inherit()).output();
    let mut said = said.map_err(|error| cannot_start("elevo", error))?;
    if !said.status.success() {
        // It has said why.
        return Ok(Exit::Itself.into());
    }
    said.stdout.pop();
    let directory = OsString::from_vec(said.stdout);
    Ok(become_in(Path::new(&directory), &args.command))
}

/// What [`run`] starts to see a workspace that others don't, as `elevo ws enter`.
/// In no help: nothing else should call it.
#[cfg(target_os = "linux")]
#[derive(Debug, Parser)]
struct Enter {
    room: PathBuf,
    files: PathBuf,
    #[arg(required = true)]
    lowers: Vec<PathBuf>,
    #[arg(required = true, last = true)]
    command: Vec<OsString>,
}

/// Enters a workspace, if that is what was asked for. Before all others are
/// looked at: that takes longer than it does.
#[cfg(target_os = "linux")]
pub(crate) fn entered() -> Option<ExitCode> {
    let mut words = std::env::args_os().skip(1);
    let is_it = words.next()? == "ws" && words.next()? == "enter";
    let enter = || {
        let words = std::iter::once("elevo ws enter".into()).chain(words);
        enter(Enter::try_parse_from(words)?)
    };
    is_it.then(|| {
        enter().unwrap_or_else(|error| {
            Report::new(&error).print(false);
            Exit::Itself.into()
        })
    })
}

#[cfg(target_os = "linux")]
fn enter(args: Enter) -> anyhow::Result<ExitCode> {
    let entrance = elevo_workspace::Entrance {
        lowers: args.lowers,
        room: args.room,
        files: args.files,
    };
    entrance.enter().map_err(|source| Problem::Enter {
        path: entrance.files.clone(),
        source,
    })?;
    Ok(become_in(&entrance.files, &args.command))
}

/// Becomes a command; returns only if that fails.
fn become_in(directory: &Path, words: &[OsString]) -> ExitCode {
    let Some((program, rest)) = words.split_first() else {
        return ExitCode::FAILURE;
    };
    let error = Command::new(program)
        .args(rest)
        .current_dir(directory)
        .env("PWD", directory)
        .exec();
    let code = match error.kind() {
        io::ErrorKind::NotFound => 127,
        _ => 126,
    };
    Report::new(&cannot_start(program, error).into()).print(false);
    ExitCode::from(code)
}

fn cannot_start(program: impl AsRef<OsStr>, source: io::Error) -> Problem {
    Problem::Io {
        action: "run",
        path: program.as_ref().into(),
        source,
    }
}

fn own() -> Result<PathBuf, Problem> {
    std::env::current_exe().map_err(|error| cannot_start("elevo", error))
}
