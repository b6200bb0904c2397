use clap::Args;

use crate::client::Call;
use crate::errors::Exit;

/// Remove templates; their images stay with the engine
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  elevo template rm python:3.11")]
pub(super) struct Rm {
    /// The templates
    #[arg(required = true, value_name = "NAME")]
    names: Vec<String>,
}

pub(super) fn run(call: &mut Call, args: &Rm) -> anyhow::Result<Exit> {
    call.delete_all("templates", &args.names, "Removed")
}
