use clap::Args;
use elevo_api as api;

use crate::client::Where;
use crate::client::names::{Noun, find};
use crate::client::paths::workspace_path;
use crate::client::workspace::{print_workspace, run_with_global};
use crate::errors::Exit;
use crate::global::Global;

/// Restore a workspace on a server to a snapshot.
#[derive(Debug, Args)]
#[command(after_help = "\
Changes since the last snapshot are lost.

Examples:
  elevo ws restore ws-… 1a2b…
  elevo ws restore ws-… good")]
pub(super) struct Restore {
    /// The workspace, by id, name or unique prefix of its id
    #[arg(value_name = "WS")]
    id: String,

    /// Id or name of the snapshot
    snapshot: String,

    #[command(flatten)]
    at: Where,
}

pub(super) fn run(args: Restore, global: &Global) -> anyhow::Result<Exit> {
    run_with_global(&args.at, global, |call| {
        let id = find(call, Noun::Workspace, &args.id)?;
        let wish = api::Restore {
            snapshot: args.snapshot,
        };
        let path = workspace_path(&id, &["restore"]);
        let restored = call.watch("restoring", call.client.post(&path, &wish))?;
        print_workspace(call, &restored)?;
        Ok(Exit::Done)
    })
}
