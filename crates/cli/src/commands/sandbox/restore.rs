use clap::Args;
use elevo_api as api;

use crate::client::Call;
use crate::client::names::{Noun, find};
use crate::client::paths::sandbox_path;
use crate::output::sandbox::print_changed_sandbox;

/// Restore the workspace of a sandbox to a snapshot.
#[derive(Debug, Args)]
#[command(after_help = "\
Changes since the last snapshot are lost.

Examples:
  elevo sandbox restore \"$id\" 1a2b…")]
pub(super) struct Restore {
    /// The sandbox, by id, name or unique prefix of its id
    #[arg(value_name = "SANDBOX")]
    id: String,

    /// Id of the snapshot
    snapshot: String,
}

pub(super) fn run(call: &mut Call, args: Restore) -> anyhow::Result<()> {
    let id = find(call, Noun::Sandbox, &args.id)?;
    let wish = api::Restore {
        snapshot: args.snapshot,
    };
    let path = sandbox_path(&id, &["restore"]);
    let asking = call.client.post(&path, &wish);
    let restored = call.watch("restoring", asking)?;
    print_changed_sandbox(call, &restored, "Restored")
}
