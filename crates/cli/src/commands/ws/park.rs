use clap::Args;
use elevo_workspace::{NeverFreeze, WorkspaceId};

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
    id: Option<WorkspaceId>,

    #[command(flatten)]
    about: SnapshotOptions,
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
