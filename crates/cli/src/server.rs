//! The commands of `elevo server`, for the operator on the server's machine.

mod backup;
mod gc;
mod quarantine;
mod restore;

use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::client::Client;
use crate::data::Data;
use crate::errors::Exit;
use crate::service::{self, Call};

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
    pub(crate) at: At,
    #[command(subcommand)]
    command: ServerCommand,
}

/// Options that name the server and the form of the output.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Common options")]
pub(crate) struct At {
    /// Data directory of the server
    #[arg(
        long,
        global = true,
        value_name = "DIR",
        env = "ELEVO_DATA",
        hide_env_values = true
    )]
    data: Option<PathBuf>,

    /// Print JSON, errors included
    #[arg(long, global = true)]
    pub(crate) json: bool,

    /// Show no progress and no notes
    #[arg(short, long, global = true)]
    quiet: bool,
}

impl At {
    /// Runs a command with a client of the server's admin socket.
    fn ask(&self, work: impl FnOnce(&mut Call) -> anyhow::Result<()>) -> anyhow::Result<Exit> {
        let client = Client::admin(&Data::new(self.data.clone()))?;
        service::run_with(client, self.json, self.quiet, |call| {
            work(call)?;
            Ok(Exit::Done)
        })
    }
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
