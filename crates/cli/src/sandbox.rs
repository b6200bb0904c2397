//! The commands of `elevo sandbox`.

mod create;
mod files;
mod life;
mod look;

use clap::{Args, Subcommand};
use elevo_api::Sandbox as SandboxShape;

use crate::client::Reach;
use crate::errors::Exit;
use crate::service::{self, Call};

pub(crate) use create::{Network, absolute};

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
  elevo template add python:3.11
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
    Ls(look::Ls),
    Show(look::Show),
    Rm(life::Rm),
    Stop(life::Stop),
    Start(life::Start),
    Extend(life::Extend),
    Fork(files::Fork),
    Snapshot(files::Snapshot),
    Restore(files::Restore),
    Diff(files::Diff),
    Logs(look::Logs),
    Stats(look::Stats),
}

pub(crate) fn run(sandbox: Sandbox) -> anyhow::Result<Exit> {
    let done = |()| Exit::Done;
    service::run(&sandbox.reach, |call| match sandbox.command {
        SandboxCommand::Create(args) => create::create(call, *args).map(done),
        SandboxCommand::Ls(args) => look::ls(call, &args).map(done),
        SandboxCommand::Show(args) => look::show(call, &args).map(done),
        SandboxCommand::Rm(args) => life::rm(call, args),
        SandboxCommand::Stop(args) => life::stop(call, &args).map(done),
        SandboxCommand::Start(args) => life::start(call, &args).map(done),
        SandboxCommand::Extend(args) => life::extend(call, &args).map(done),
        SandboxCommand::Fork(args) => files::fork(call, args),
        SandboxCommand::Snapshot(args) => files::snapshot(call, args).map(done),
        SandboxCommand::Restore(args) => files::restore(call, args).map(done),
        SandboxCommand::Diff(args) => files::diff(call, &args).map(done),
        SandboxCommand::Logs(args) => look::logs(call, &args).map(done),
        SandboxCommand::Stats(args) => look::stats(call, &args).map(done),
    })
}

/// The name of a sandbox's state.
fn state(sandbox: &SandboxShape) -> &'static str {
    elevo_core::SandboxState::from(sandbox.state).name()
}

/// Prints the changed sandbox: as JSON, or as a line with its id.
fn print_done(call: &mut Call, sandbox: &SandboxShape, done: &str) -> anyhow::Result<()> {
    match call.output.is_json() {
        true => call.output.value(sandbox)?,
        false => call.output.line(format!("{done} {}", sandbox.id))?,
    }
    Ok(())
}
