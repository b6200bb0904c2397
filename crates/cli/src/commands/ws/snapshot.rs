use clap::Args;
use elevo_api as api;
use elevo_workspace::{NeverFreeze, WorkspaceId};

use crate::client::Where;
use crate::client::paths::workspace_path;
use crate::client::workspace::{id_or_here, print_taken, run_with_global};
use crate::errors::{Exit, WorkspaceProblem};
use crate::global::Global;
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
    pub(super) id: Option<WorkspaceId>,

    #[command(flatten)]
    about: SnapshotOptions,

    /// On a server, the name of the snapshot, which keeps it
    #[arg(long)]
    name: Option<String>,

    #[command(flatten)]
    pub(super) at: Where,
}

/// Takes a snapshot of a workspace on a server, and prints its id.
pub(super) fn run_on_server(args: Snapshot, global: &Global) -> anyhow::Result<Exit> {
    run_with_global(&args.at, global, |call| {
        let id = id_or_here(call, args.id.map(|id| id.to_string()))?;
        let wish = api::TakeSnapshot {
            message: args.about.message_for_server()?,
            name: args.name,
        };
        let path = workspace_path(&id, &["snapshot"]);
        let taken = call.watch("reading", call.client.create(&path, &wish))?;
        print_taken(call, &taken)?;
        Ok(Exit::Done)
    })
}

pub(super) fn run(call: &mut WorkspaceCall, args: Snapshot) -> anyhow::Result<()> {
    if args.name.is_some() {
        return Err(WorkspaceProblem::OnlyOnServer.into());
    }
    let workspaces = call.open_to_write()?;
    let id = call.find(&workspaces, args.id.as_ref())?;
    let is_described = args.about.is_given();
    let info = args.about.into_info(&call.session, Vec::new(), None);
    let taken = call.watch("reading", |progress| {
        workspaces.snapshot(&id, info, &NeverFreeze, progress)
    })?;
    print_snapshotted(call, &id, &taken, "Kept", is_described)
}
