//! The commands of `elevo server`, for the operator on the server's machine.

mod backup;
mod gc;
mod quarantine;
mod restore;

use clap::{Args, Subcommand};

use crate::client::operator::OperatorOptions;
use crate::errors::Exit;

/// Operate the server on this machine.
#[derive(Debug, Args)]
#[command(
    arg_required_else_help = true,
    disable_help_subcommand = true,
    after_help = "\
These commands work on the machine of the server, as the user that runs it. They
need no key.

Examples:
  elevo server backup /backups --keep 14
  elevo server restore /backups --data /srv/elevo
  elevo server gc --dry-run
  elevo server quarantine ls"
)]
pub(crate) struct Server {
    #[command(flatten)]
    pub(crate) at: OperatorOptions,
    #[command(subcommand)]
    command: ServerCommand,
}

#[derive(Debug, Subcommand)]
enum ServerCommand {
    Backup(backup::Backup),
    Restore(restore::Restore),
    Gc(gc::Gc),
    Quarantine(quarantine::Quarantine),
}

pub(crate) fn run(server: Server) -> anyhow::Result<Exit> {
    match server.command {
        ServerCommand::Backup(args) => backup::run(&server.at, &args),
        ServerCommand::Restore(args) => restore::run(&server.at, &args),
        ServerCommand::Gc(args) => gc::run(&server.at, &args),
        ServerCommand::Quarantine(args) => quarantine::run(&server.at, args),
    }
}
