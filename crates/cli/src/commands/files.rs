//! The commands of `elevo files`.

mod cat;
mod get;
mod ls;
mod mkdir;
mod mv;
mod put;
mod rm;
mod watch;

use clap::{Args, Subcommand};

use crate::client::{self, Reach};
use crate::errors::Exit;

/// Read and write single files of sandboxes, workspaces, projects and snapshots.
#[derive(Debug, Args)]
#[command(
    arg_required_else_help = true,
    disable_help_subcommand = true,
    after_help = "\
PLACE is a sandbox by its name or id, ws-… or workspace/NAME, project/NAME with
@REV for an older state, or snapshot/NAME. PATH is relative to the workspace, the
project or the snapshot. Of a sandbox it may also be absolute: a path below
/workspace and /home/agent works while the sandbox is stopped, too. Files of
projects and snapshots can only be read.

`elevo cp` copies directories.

Examples:
  elevo files ls \"$id:src\" -l
  elevo files cat \"$id:/etc/os-release\"
  date | elevo files put - \"$id:now\"
  elevo files get project/site@v1:index.html"
)]
pub(crate) struct Files {
    #[command(flatten)]
    pub(crate) reach: Reach,
    #[command(subcommand)]
    command: FilesCommand,
}

#[derive(Debug, Subcommand)]
enum FilesCommand {
    #[command(alias = "list")]
    Ls(ls::Ls),
    Cat(cat::Cat),
    Get(get::Get),
    Put(put::Put),
    #[command(alias = "delete")]
    Rm(rm::Rm),
    Mv(mv::Mv),
    Mkdir(mkdir::Mkdir),
    Watch(watch::Watch),
}

pub(crate) fn run(files: Files) -> anyhow::Result<Exit> {
    let done = |()| Exit::Done;
    client::run_on_server(&files.reach, |call| match files.command {
        FilesCommand::Ls(args) => ls::run(call, &args).map(done),
        FilesCommand::Cat(args) => cat::run(call, &args).map(done),
        FilesCommand::Get(args) => get::run(call, &args).map(done),
        FilesCommand::Put(args) => put::run(call, &args).map(done),
        FilesCommand::Rm(args) => rm::run(call, &args),
        FilesCommand::Mv(args) => mv::run(call, args).map(done),
        FilesCommand::Mkdir(args) => mkdir::run(call, args).map(done),
        FilesCommand::Watch(args) => watch::run(call, &args).map(done),
    })
}
