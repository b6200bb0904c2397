use clap::Args;

use crate::client::Call;
use crate::client::names::{Noun, delete_found};
use crate::errors::Exit;

/// Revoke keys
#[derive(Debug, Args)]
#[command(after_help = "\
If a key cannot be revoked, the command reports it and revokes the others.

Examples:
  elevo key revoke ci
  elevo key revoke key-…")]
pub(super) struct Revoke {
    /// The keys: ids, names or unique prefixes of ids
    #[arg(required = true, value_name = "KEY")]
    keys: Vec<String>,
}

pub(super) fn run(call: &mut Call, args: &Revoke) -> anyhow::Result<Exit> {
    delete_found(call, Noun::Key, &args.keys, "Revoked")
}
