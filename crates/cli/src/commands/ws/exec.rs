//! `elevo ws exec`: runs commands in workspaces.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use clap::{Args, Parser};
use elevo_workspace::{WorkspaceAccess, WorkspaceId};

use crate::errors::{Exit, FileProblem, Report, WorkspaceProblem};
use crate::local::workspaces::WorkspaceCall;

/// Run a command in a workspace.
#[derive(Debug, Args)]
#[command(after_help = "\
The command runs in the directory of the workspace, with the standard input,
output and environment of the caller. The exit code is that of the command, or
125 if elevo itself fails, 126 if the command cannot be run, and 127 if it is
not found.

Only this command can enter a workspace of --provider rootless: an overlay in a
user namespace, which needs no root and which other processes do not see.
Commands that run at the same time see each other's files; while they run, the
workspace cannot be parked or deleted. In it, a directory of the snapshot cannot
be renamed, only copied and deleted, which `mv` does automatically.

Examples:
  elevo ws exec try-1 -- make test
  elevo ws exec try-1 -- sh -c 'echo hello > greeting'
  elevo ws exec -- make                         in the workspace of this directory")]
pub(super) struct Exec {
    /// The workspace; by default the one around the current directory
    #[arg(value_name = "WS")]
    id: Option<WorkspaceId>,

    /// The command and its arguments
    #[arg(required = true, last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

impl Exec {
    pub(super) fn call(self) -> ExecCall {
        ExecCall {
            id: self.id,
            command: self.command,
        }
    }
}

/// A command to run in a workspace.
#[derive(Debug)]
pub(super) struct ExecCall {
    pub(super) id: Option<WorkspaceId>,
    pub(super) command: Vec<OsString>,
}

pub(super) fn run(call: &mut WorkspaceCall, args: &ExecCall) -> anyhow::Result<Exit> {
    let workspaces = call.open_to_read()?;
    let id = call.find(&workspaces, args.id.as_ref())?;
    let way = call.watch("preparing the workspace", |progress| {
        workspaces.access(&id, progress)
    })?;
    drop(workspaces);
    let json = call.session.output.is_json();
    match way {
        WorkspaceAccess::Directory(directory) => Ok(become_in(&directory, &args.command, json)),
        #[cfg(target_os = "linux")]
        WorkspaceAccess::Entrance(entrance) => {
            let mut words: Vec<OsString> = vec!["ws".into(), "enter".into()];
            words.extend(json.then(|| "--json".into()));
            words.extend([entrance.inode.to_string().into(), entrance.room.into()]);
            words.push(entrance.files.into());
            words.extend(entrance.lowers.into_iter().map(OsString::from));
            words.push("--".into());
            words.extend(args.command.iter().cloned());
            // In a new process, because only a process without threads can
            // enter a user namespace.
            let error = Command::new(own()?).args(words).exec();
            Err(cannot_start("elevo", error).into())
        }
    }
}

/// Runs a command in a workspace of a server. Asks the server for its path.
pub(super) fn run_served(
    args: &ExecCall,
    options: &[OsString],
    json: bool,
) -> anyhow::Result<Exit> {
    let mut command = Command::new(own()?);
    command.arg("ws").args(options);
    // Errors in the form that the caller requested.
    command.args(json.then_some("--json"));
    command.arg("path");
    command.args(args.id.as_ref().map(WorkspaceId::as_str));
    let said = command.stderr(Stdio::inherit()).output();
    let mut said = said.map_err(|error| cannot_start("elevo", error))?;
    if !said.status.success() {
        // The other process has reported the error.
        return Ok(Exit::Itself);
    }
    let directory = match json {
        true => {
            let shape: serde_json::Value = serde_json::from_slice(&said.stdout)?;
            shape["path"].as_str().unwrap_or_default().into()
        }
        false => {
            said.stdout.pop();
            OsString::from_vec(said.stdout)
        }
    };
    Ok(become_in(Path::new(&directory), &args.command, json))
}

/// Arguments of `elevo ws enter`, which [`run`] starts to enter a private
/// workspace. Not in the help, because nothing else should call it.
#[cfg(target_os = "linux")]
#[derive(Debug, Parser)]
struct Enter {
    #[arg(long)]
    json: bool,
    inode: u64,
    room: PathBuf,
    files: PathBuf,
    #[arg(required = true)]
    lowers: Vec<PathBuf>,
    #[arg(required = true, last = true)]
    command: Vec<OsString>,
}

/// Runs `elevo ws enter`, if this is the command. Called before the other
/// arguments are parsed, which would take longer than the command itself.
#[cfg(target_os = "linux")]
pub(crate) fn entered() -> Option<Exit> {
    let mut words = std::env::args_os().skip(1);
    let is_it = words.next()? == "ws" && words.next()? == "enter";
    is_it.then(|| {
        let words = std::iter::once("elevo ws enter".into()).chain(words);
        match Enter::try_parse_from(words) {
            Ok(args) => enter(args),
            Err(error) => {
                let _ = error.print();
                Exit::Itself
            }
        }
    })
}

#[cfg(target_os = "linux")]
fn enter(args: Enter) -> Exit {
    let entrance = elevo_workspace::Entrance {
        lowers: args.lowers,
        room: args.room,
        inode: args.inode,
        files: args.files,
    };
    match entrance.enter() {
        Ok(()) => become_in(&entrance.files, &args.command, args.json),
        Err(source) => {
            let path = entrance.files;
            Report::new(&WorkspaceProblem::Enter { path, source }.into()).print(args.json);
            Exit::Itself
        }
    }
}

/// Replaces this process by a command. Returns only on a failure.
fn become_in(directory: &Path, words: &[OsString], json: bool) -> Exit {
    let Some((program, rest)) = words.split_first() else {
        return Exit::Failed;
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
    Report::new(&cannot_start(program, error).into()).print(json);
    Exit::Of(code)
}

fn cannot_start(program: impl AsRef<OsStr>, source: io::Error) -> FileProblem {
    FileProblem::Io {
        action: "run",
        path: program.as_ref().into(),
        source,
    }
}

fn own() -> Result<PathBuf, FileProblem> {
    std::env::current_exe().map_err(|error| cannot_start("elevo", error))
}
