//! The commands of `elevo key`.

mod create;
mod ls;
mod revoke;

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
  elevo key create --agent reviewer --expires 7d -o reviewer.key
  elevo key ls
  elevo key revoke ci"
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
    #[command(visible_alias = "rm", alias = "delete")]
    Revoke(revoke::Revoke),
}

pub(crate) fn run(key: Key) -> anyhow::Result<Exit> {
    let done = |()| Exit::Done;
    client::run_on_server(&key.reach, |call| match key.command {
        KeyCommand::Create(args) => create::run(call, args).map(done),
        KeyCommand::Ls(args) => ls::run(call, &args).map(done),
        KeyCommand::Revoke(args) => revoke::run(call, &args),
    })
}
