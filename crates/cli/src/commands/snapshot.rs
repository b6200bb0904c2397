//! The commands of `elevo snapshot`.

mod diff;
mod ls;
mod name;
mod show;

use clap::{Args, Subcommand};

use crate::client::{self, Reach};
use crate::errors::Exit;

/// Manage snapshots on a server: list, name and compare them.
#[derive(Debug, Args)]
#[command(
    arg_required_else_help = true,
    disable_help_subcommand = true,
    after_help = "\
A snapshot with a name is kept until the name is removed. The server deletes
another one some time after the last workspace that needs it.

Examples:
  elevo sandbox snapshot \"$id\" --name good
  elevo snapshot ls
  elevo snapshot diff good 1a2b…
  elevo snapshot name good --delete"
)]
pub(crate) struct Snapshot {
    #[command(flatten)]
    pub(crate) reach: Reach,
    #[command(subcommand)]
    command: SnapshotCommand,
}

#[derive(Debug, Subcommand)]
enum SnapshotCommand {
    #[command(alias = "list")]
    Ls(ls::Ls),
    Show(show::Show),
    Name(name::Name),
    Diff(diff::Diff),
}

pub(crate) fn run(snapshot: Snapshot) -> anyhow::Result<Exit> {
    let done = |()| Exit::Done;
    client::run_on_server(&snapshot.reach, |call| match snapshot.command {
        SnapshotCommand::Ls(args) => ls::run(call, args).map(done),
        SnapshotCommand::Show(args) => show::run(call, &args).map(done),
        SnapshotCommand::Name(args) => name::run(call, args).map(done),
        SnapshotCommand::Diff(args) => diff::run(call, &args),
    })
}
