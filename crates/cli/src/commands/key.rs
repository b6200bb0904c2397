//! The commands of `elevo key`.

mod create;
mod ls;
mod rm;

use clap::{Args, Subcommand};

use crate::client::{self, Reach};
use crate::errors::Exit;

/// Manage keys, with which clients authenticate.
#[derive(Debug, Args)]
#[command(
    arg_required_else_help = true,
    disable_help_subcommand = true,
    after_help = "\
Examples:
  export ELEVO_API_KEY=$(elevo key create ci)
  elevo key create bot --agent \"$agent\" --expires 86400
  elevo key ls
  elevo key rm key-…"
)]
pub(crate) struct Key {
    #[command(flatten)]
    pub(crate) reach: Reach,
    #[command(subcommand)]
    command: KeyCommand,
}

#[derive(Debug, Subcommand)]
enum KeyCommand {
    Create(create::Create),
    #[command(alias = "list")]
    Ls(ls::Ls),
    #[command(alias = "delete")]
    Rm(rm::Rm),
}

pub(crate) fn run(key: Key) -> anyhow::Result<Exit> {
    let done = |()| Exit::Done;
    client::run_on_server(&key.reach, |call| match key.command {
        KeyCommand::Create(args) => create::run(call, args).map(done),
        KeyCommand::Ls(_) => ls::run(call).map(done),
        KeyCommand::Rm(args) => rm::run(call, &args),
    })
}
