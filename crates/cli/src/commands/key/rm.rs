use clap::Args;

use crate::client::Call;
use crate::errors::Exit;

/// Revoke keys
#[derive(Debug, Args)]
#[command(after_help = "\
If a key cannot be revoked, the command reports it and revokes the others.

Examples:
  elevo key rm key-…")]
pub(super) struct Rm {
    /// The keys' ids
    #[arg(required = true, value_name = "ID")]
    ids: Vec<String>,
}

pub(super) fn run(call: &mut Call, args: &Rm) -> anyhow::Result<Exit> {
    call.delete_all("keys", &args.ids, "Revoked")
}
