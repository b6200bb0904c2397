//! The commands of `elevo audit`, which read the audit log of the server on this
//! machine.

mod log;
mod verify;

use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::errors::{Exit, ServerProblem};
use crate::local::data_directory::DataDirectory;
use crate::output::Output;

/// Read and verify the audit log of the server on this machine.
#[derive(Debug, Args)]
#[command(
    arg_required_else_help = true,
    disable_help_subcommand = true,
    after_help = "\
The log is in the data directory, in `audit`. Each record is chained to all
before it by a hash, so `verify` finds a record that was changed, deleted, added
or moved. It finds deleted records at the end only if you saved a head
elsewhere: the server logs one every ten minutes, and `verify` prints the
newest.

Examples:
  elevo audit log --event command.run
  elevo audit verify
  elevo audit verify --expect \"$head\"          compare with a saved head"
)]
pub(crate) struct Audit {
    #[command(subcommand)]
    command: AuditCommand,

    /// The data directory of the server [env: ELEVO_DATA]
    #[arg(long, value_name = "DIR", global = true)]
    data: Option<PathBuf>,

    /// Show no progress
    #[arg(long, short, global = true)]
    quiet: bool,

    /// Print JSON, errors included
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

#[derive(Debug, Subcommand)]
enum AuditCommand {
    Verify(verify::Verify),
    Log(log::Log),
}

pub(crate) fn run(args: &Audit) -> anyhow::Result<Exit> {
    let directory = DataDirectory::new(args.data.clone()).path().join("audit");
    if !directory.is_dir() {
        return Err(ServerProblem::NoAuditLog(directory).into());
    }
    let mut output = Output::new(args.json);
    let code = match &args.command {
        AuditCommand::Verify(wish) => verify::run(&mut output, &directory, wish, args.quiet)?,
        AuditCommand::Log(wish) => {
            log::run(&mut output, &directory, wish)?;
            Exit::Done
        }
    };
    output.finish()?;
    Ok(code)
}
