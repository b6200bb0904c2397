use clap::Args;
use elevo_workspace::{NeverFreeze, WorkspaceId};

use crate::local::workspaces::{WorkspaceCall, print_snapshotted};
use crate::options::snapshot::SnapshotOptions;

/// Save a workspace as a snapshot.
#[derive(Debug, Args)]
#[command(after_help = "\
The parent of the snapshot is the previous snapshot of the workspace, or its
base. `head` and tags do not move. If nothing was changed, no snapshot is
created, and the message is not saved.

Examples:
  elevo ws snapshot try-1 -m \"it works\"
  elevo tag good \"$(elevo ws snapshot try-1 --json | jq -r .snapshot)\"")]
pub(super) struct Snapshot {
    /// The workspace; by default the one around the current directory
    #[arg(value_name = "WS")]
    id: Option<WorkspaceId>,

    #[command(flatten)]
    about: SnapshotOptions,
}

pub(super) fn run(call: &mut WorkspaceCall, args: Snapshot) -> anyhow::Result<()> {
    let workspaces = call.open_to_write()?;
    let id = call.find(&workspaces, args.id.as_ref())?;
    let is_described = args.about.is_given();
    let info = args.about.into_info(&call.session, Vec::new(), None);
    let taken = call.watch("reading", |progress| {
        workspaces.snapshot(&id, info, &NeverFreeze, progress)
    })?;
    print_snapshotted(call, &id, &taken, "Kept", is_described)
}
