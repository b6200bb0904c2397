use clap::Args;
use elevo_api as api;
use reqwest::Method;

use super::show;
use crate::client::Call;
use crate::client::paths::snapshot_path;

/// Name a snapshot, so that it is kept, or remove its name
#[derive(Debug, Args)]
#[command(after_help = "\
Names are unique in a tenant. Without its name, the server deletes the snapshot
some time after the last workspace that needs it.

Examples:
  elevo snapshot name 1a2b… good
  elevo snapshot name good --delete")]
pub(super) struct Name {
    /// The snapshot, by id or name
    #[arg(value_name = "SNAPSHOT")]
    id: String,

    /// The new name
    #[arg(required_unless_present = "delete")]
    name: Option<String>,

    /// Remove the name
    #[arg(short, long, conflicts_with = "name")]
    delete: bool,
}

pub(super) fn run(call: &mut Call, args: Name) -> anyhow::Result<()> {
    let wish = api::ChangeSnapshot { name: args.name };
    let path = snapshot_path(&args.id);
    let request = call.client.request(Method::PATCH, &path).json(&wish);
    let changed: api::Snapshot = call.wait(call.client.json(request))?;
    show::print(call, &changed)
}
