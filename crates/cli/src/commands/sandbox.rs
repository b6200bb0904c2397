//! The commands of `elevo sandbox`.

mod create;
mod diff;
mod extend;
mod fork;
mod logs;
mod ls;
mod restore;
mod rm;
mod set;
mod show;
mod snapshot;
mod start;
mod stats;
mod stop;

use clap::{Args, Subcommand};

use crate::client::{self, Reach};
use crate::errors::Exit;

/// Manage sandboxes: containers that agents work in, each with its own workspace.
#[derive(Debug, Args)]
#[command(
    arg_required_else_help = true,
    disable_help_subcommand = true,
    after_help = "\
A sandbox is a hardened container with a workspace at /workspace: its own branch
of a versioned file tree. It is deleted when it expires; a workspace with
changes that were neither merged nor snapshotted is then parked, and `create
--workspace` continues in it. `elevo up` starts the server that these commands
need.

Examples:
  elevo template create python:3.11
  id=$(elevo sandbox create python:3.11)
  elevo exec \"$id\" -- python -c 'print(6 * 7)'
  elevo sandbox fork \"$id\" -n 3              create three copies of it
  elevo sandbox diff -p \"$id\"                print its changes as a patch
  elevo sandbox rm \"$id\""
)]
pub(crate) struct Sandbox {
    #[command(flatten)]
    pub(crate) reach: Reach,
    #[command(subcommand)]
    command: SandboxCommand,
}

/// The commands of `elevo sandbox`, each defined in a module of its area.
#[derive(Debug, Subcommand)]
enum SandboxCommand {
    Create(Box<create::Create>),
    #[command(alias = "list")]
    Ls(ls::Ls),
    Show(show::Show),
    #[command(alias = "delete")]
    Rm(rm::Rm),
    Stop(stop::Stop),
    Start(start::Start),
    Extend(extend::Extend),
    Set(set::Set),
    Fork(fork::Fork),
    Snapshot(snapshot::Snapshot),
    Restore(restore::Restore),
    Diff(diff::Diff),
    Logs(logs::Logs),
    Stats(stats::Stats),
}

pub(crate) fn run(sandbox: Sandbox) -> anyhow::Result<Exit> {
    let done = |()| Exit::Done;
    client::run_on_server(&sandbox.reach, |call| match sandbox.command {
        SandboxCommand::Create(args) => create::run(call, *args).map(done),
        SandboxCommand::Ls(args) => ls::run(call, &args).map(done),
        SandboxCommand::Show(args) => show::run(call, &args).map(done),
        SandboxCommand::Rm(args) => rm::run(call, args),
        SandboxCommand::Stop(args) => stop::run(call, &args).map(done),
        SandboxCommand::Start(args) => start::run(call, &args).map(done),
        SandboxCommand::Extend(args) => extend::run(call, &args).map(done),
        SandboxCommand::Set(args) => set::run(call, args).map(done),
        SandboxCommand::Fork(args) => fork::run(call, args),
        SandboxCommand::Snapshot(args) => snapshot::run(call, args).map(done),
        SandboxCommand::Restore(args) => restore::run(call, args).map(done),
        SandboxCommand::Diff(args) => diff::run(call, &args).map(done),
        SandboxCommand::Logs(args) => logs::run(call, &args).map(done),
        SandboxCommand::Stats(args) => stats::run(call, &args).map(done),
    })
}
