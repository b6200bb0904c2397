use clap::Args;
use elevo_api as api;

use crate::client::Call;
use crate::client::names::{Noun, find};
use crate::client::paths::sandbox_path;
use crate::client::workspace::print_taken;

/// Save the workspace of a sandbox as a snapshot, and print its id.
#[derive(Debug, Args)]
#[command(after_help = "\
The snapshot is durable when the command returns. If nothing has changed, the id
is that of the previous snapshot.

Examples:
  elevo sandbox snapshot \"$id\" -m \"it works\"
  elevo sandbox create python:3.11 --snapshot \"$(elevo sandbox snapshot \"$id\")\"")]
pub(super) struct Snapshot {
    /// The sandbox, by id, name or unique prefix of its id
    #[arg(value_name = "SANDBOX")]
    id: String,

    /// Message that explains the snapshot
    #[arg(
        short,
        long,
        value_name = "TEXT",
        default_value = "",
        hide_default_value = true
    )]
    message: String,

    /// Name of the snapshot, which keeps it
    #[arg(long)]
    name: Option<String>,
}

pub(super) fn run(call: &mut Call, args: Snapshot) -> anyhow::Result<()> {
    let id = find(call, Noun::Sandbox, &args.id)?;
    let wish = api::TakeSnapshot {
        message: args.message,
        name: args.name,
    };
    let path = sandbox_path(&id, &["snapshot"]);
    let asking = call.client.create(&path, &wish);
    let taken: api::SnapshotTaken = call.watch("reading", asking)?;
    print_taken(call, &taken)
}
