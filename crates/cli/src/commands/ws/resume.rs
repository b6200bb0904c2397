use clap::Args;
use elevo_workspace::WorkspaceId;
use serde_json::json;

use crate::client::Where;
use crate::client::paths::workspace_path;
use crate::client::workspace::{id_or_here, print_workspace, run_with_global};
use crate::errors::Exit;
use crate::global::Global;
use crate::local::workspaces::WorkspaceCall;

/// Restore the directory of a parked workspace, and print it.
#[derive(Debug, Args)]
#[command(after_help = "\
The directory is as it was when the workspace was parked, including modification
times.

Examples:
  elevo ws resume try-1
  cd \"$(elevo ws resume try-1)\"")]
pub(super) struct Resume {
    /// The workspace
    pub(super) id: WorkspaceId,

    #[command(flatten)]
    pub(super) at: Where,
}

/// Resumes a workspace on a server, and prints its directory.
pub(super) fn run_on_server(args: Resume, global: &Global) -> anyhow::Result<Exit> {
    run_with_global(&args.at, global, |call| {
        let id = id_or_here(call, Some(args.id.to_string()))?;
        let path = workspace_path(&id, &["resume"]);
        let done = call.watch(
            "creating the workspace",
            call.client.post(&path, &json!({})),
        )?;
        print_workspace(call, &done)?;
        Ok(Exit::Done)
    })
}

pub(super) fn run(call: &mut WorkspaceCall, args: &Resume) -> anyhow::Result<()> {
    let workspaces = call.open_to_read()?;
    let id = call.find(&workspaces, Some(&args.id))?;
    call.watch("creating the workspace", |progress| {
        workspaces.resume(&id, progress)
    })?;
    let record = workspaces.get(&id)?;
    call.print_path(&workspaces, &record)
}
