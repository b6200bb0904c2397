mod ls;
mod restore;

use clap::{Args, Subcommand};

use crate::client::operator::OperatorOptions;
use crate::errors::Exit;

/// List and restore workspaces that the catalog does not know.
#[derive(Debug, Args)]
#[command(
    arg_required_else_help = true,
    disable_help_subcommand = true,
    after_help = "\
A workspace without a row in the catalog may have the only copy of unmerged
work. The server keeps it for 7 days (QUARANTINE_KEEP) and then deletes it.

Examples:
  elevo server quarantine ls
  elevo server quarantine restore ws-…"
)]
pub(crate) struct Quarantine {
    #[command(subcommand)]
    command: QuarantineCommand,
}

#[derive(Debug, Subcommand)]
enum QuarantineCommand {
    #[command(alias = "list")]
    Ls(ls::Ls),
    Restore(restore::Restore),
}

pub(super) fn run(at: &OperatorOptions, args: Quarantine) -> anyhow::Result<Exit> {
    at.ask(|call| match args.command {
        QuarantineCommand::Ls(_) => ls::run(call),
        QuarantineCommand::Restore(args) => restore::run(call, &args),
    })
}
