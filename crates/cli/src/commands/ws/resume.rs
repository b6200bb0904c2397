use clap::Args;
use elevo_workspace::WorkspaceId;

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
    id: WorkspaceId,
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
