use clap::Args;

use crate::client::Call;
use crate::client::names::{Noun, delete_found};
use crate::errors::Exit;

/// Delete webhooks with their pending deliveries
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  elevo webhook rm wh-…
  elevo webhook rm https://example.com/elevo")]
pub(super) struct Rm {
    /// The webhooks: ids, unique prefixes of ids, or URLs
    #[arg(required = true, value_name = "WEBHOOK")]
    webhooks: Vec<String>,
}

pub(super) fn run(call: &mut Call, args: &Rm) -> anyhow::Result<Exit> {
    delete_found(call, Noun::Webhook, &args.webhooks, "Removed")
}
