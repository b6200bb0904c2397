use clap::Args;
use elevo_workspace::{NeverFreeze, WorkspaceId};
use serde_json::json;

use crate::client::Where;
use crate::client::paths::workspace_path;
use crate::client::workspace::{id_or_here, print_workspace, run_with_global};
use crate::errors::Exit;
use crate::global::Global;
use crate::local::workspaces::{WorkspaceCall, print_snapshotted};
use crate::options::snapshot::SnapshotOptions;

/// Park a workspace: save it as a snapshot and delete its directory.
#[derive(Debug, Args)]
#[command(after_help = "\
Stop all commands that write to it first: files written while it is parked are
lost. `elevo ws resume` restores it, including modification times.

Examples:
  elevo ws park try-1
  elevo ws resume try-1")]
pub(super) struct Park {
    /// The workspace; by default the one around the current directory
    #[arg(value_name = "WS")]
    pub(super) id: Option<WorkspaceId>,

    #[command(flatten)]
    about: SnapshotOptions,

    #[command(flatten)]
    pub(super) at: Where,
}

/// Parks a workspace on a server.
pub(super) fn run_on_server(args: Park, global: &Global) -> anyhow::Result<Exit> {
    run_with_global(&args.at, global, |call| {
        let id = id_or_here(call, args.id.map(|id| id.to_string()))?;
        let path = workspace_path(&id, &["park"]);
        let done = call.watch("parking", call.client.post(&path, &json!({})))?;
        print_workspace(call, &done)?;
        Ok(Exit::Done)
    })
}

pub(super) fn run(call: &mut WorkspaceCall, args: Park) -> anyhow::Result<()> {
    let workspaces = call.open_to_write()?;
    let id = call.find(&workspaces, args.id.as_ref())?;
    call.check_free(&id)?;
    let is_described = args.about.is_given();
    let info = args.about.into_info(&call.session, Vec::new(), None);
    let taken = call.watch("reading", |progress| {
        workspaces.park(&id, info, &NeverFreeze, progress)
    })?;
    print_snapshotted(call, &id, &taken, "Parked", is_described)
}
