//! The commands of `elevo project policy`.

mod check;
mod edit;
mod set;
mod show;

use clap::{Args, Subcommand};

use crate::client::Call;
use crate::errors::Exit;

/// Show, set and check the policy of a project.
#[derive(Debug, Args)]
#[command(
    arg_required_else_help = true,
    disable_help_subcommand = true,
    after_help = "\
A policy defines the access to paths, the paths that are never merged, and how
conflicts are resolved.

Examples:
  elevo project policy show site > policy.json
  elevo project policy set site policy.json
  elevo project policy edit site                     in $EDITOR
  elevo project policy check site reviewer src/app.py"
)]
pub(super) struct Policy {
    #[command(subcommand)]
    command: PolicyCommand,
}

#[derive(Debug, Subcommand)]
enum PolicyCommand {
    Show(show::Show),
    Set(set::Set),
    Edit(edit::Edit),
    Check(check::Check),
}

pub(super) fn run(call: &mut Call, policy: &Policy) -> anyhow::Result<Exit> {
    let done = |()| Exit::Done;
    match &policy.command {
        PolicyCommand::Show(args) => show::run(call, args).map(done),
        PolicyCommand::Set(args) => set::run(call, args).map(done),
        PolicyCommand::Edit(args) => edit::run(call, args).map(done),
        PolicyCommand::Check(args) => check::run(call, args).map(done),
    }
}
