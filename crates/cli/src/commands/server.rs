//! The commands of `elevo server`, for the operator on the server's machine.

mod backup;
mod config;
mod gc;
mod logs;
mod quarantine;
mod restore;
mod run;
mod start;
mod status;
mod stop;

use clap::{Args, Subcommand};

use crate::client::operator::OperatorOptions;
use crate::errors::Exit;
use crate::server_socket::Dispatch;

/// Start, stop and operate the server on this machine.
#[derive(Debug, Args)]
#[command(
    arg_required_else_help = true,
    disable_help_subcommand = true,
    after_help = "\
These commands work on the machine of the server, as the user that runs it. They
need no key.

Examples:
  elevo server start
  elevo server status
  elevo server logs -f
  elevo server stop
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
    Run(run::Run),
    Start(start::Start),
    Stop(stop::Stop),
    Status(status::Status),
    Logs(logs::Logs),
    Config(config::Config),
    Backup(backup::Backup),
    Restore(restore::Restore),
    Gc(gc::Gc),
    Quarantine(quarantine::Quarantine),
}

/// Runs a command. `dispatch` runs the commands that a server accepts on its
/// socket.
pub(crate) fn run(server: Server, dispatch: Dispatch) -> anyhow::Result<Exit> {
    match server.command {
        ServerCommand::Run(args) => run::run(&server.at, &args, dispatch),
        ServerCommand::Start(args) => start::run(&server.at, &args),
        ServerCommand::Stop(args) => stop::run(&server.at, &args),
        ServerCommand::Status(_) => status::run(&server.at),
        ServerCommand::Logs(args) => logs::run(&server.at, &args),
        ServerCommand::Config(args) => config::run(&server.at, &args),
        ServerCommand::Backup(args) => backup::run(&server.at, &args),
        ServerCommand::Restore(args) => restore::run(&server.at, &args),
        ServerCommand::Gc(args) => gc::run(&server.at, &args),
        ServerCommand::Quarantine(args) => quarantine::run(&server.at, args),
    }
}
