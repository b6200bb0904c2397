use clap::Args;

use crate::client::Call;
use crate::errors::Exit;

/// Delete webhooks with their pending deliveries
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  elevo webhook rm wh-…")]
pub(super) struct Rm {
    /// Ids of the webhooks
    #[arg(required = true, value_name = "ID")]
    ids: Vec<String>,
}

pub(super) fn run(call: &mut Call, args: &Rm) -> anyhow::Result<Exit> {
    call.delete_all("webhooks", &args.ids, "Removed")
}
