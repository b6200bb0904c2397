mod check;

use clap::{Args, Subcommand};

use crate::client::operator::OperatorOptions;
use crate::errors::Exit;

/// Check the settings of the server.
#[derive(Debug, Args)]
#[command(
    arg_required_else_help = true,
    disable_help_subcommand = true,
    after_help = "\
Examples:
  elevo server config check --config /etc/elevo.toml"
)]
pub(super) struct Config {
    #[command(subcommand)]
    command: ConfigCommand,
}

#[derive(Debug, Subcommand)]
enum ConfigCommand {
    Check(check::Check),
}

pub(super) fn run(at: &OperatorOptions, args: &Config) -> anyhow::Result<Exit> {
    match &args.command {
        ConfigCommand::Check(args) => check::run(at, args),
    }
}
