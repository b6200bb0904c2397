//! The commands of `elevo server`: what the operator of a server does on its
//! machine.

mod backup;
mod gc;
mod quarantine;
mod restore;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Subcommand};

use crate::client::Client;
use crate::data::Data;
use crate::service::{self, Call};

/// Operate the server on this machine.
#[derive(Debug, Args)]
#[command(
    arg_required_else_help = true,
    disable_help_subcommand = true,
    after_help = "\
These commands work on the machine of the server, for the user that runs it, and
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

/// Which server, and how the command prints.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Common options")]
pub(crate) struct At {
    /// The data directory of the server
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
    /// Asks the server over its admin socket.
    fn ask(&self, work: impl FnOnce(&mut Call) -> anyhow::Result<()>) -> anyhow::Result<ExitCode> {
        let client = Client::admin(&Data::new(self.data.clone()))?;
        service::run_with(client, self.json, self.quiet, |call| {
            work(call)?;
            Ok(ExitCode::SUCCESS)
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

pub(crate) fn run(server: Server) -> anyhow::Result<ExitCode> {
    match server.command {
        ServerCommand::Backup(args) => backup::run(&server.at, &args),
        ServerCommand::Restore(args) => restore::run(&server.at, &args),
        ServerCommand::Gc(args) => gc::run(&server.at, &args),
        ServerCommand::Quarantine(args) => quarantine::run(&server.at, args),
    }
}
