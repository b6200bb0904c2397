//! Saves a workspace as a snapshot, or parks it.

use clap::Args;
use elevo_workspace::{NeverFreeze, Snapshotted, WorkspaceId};
use serde_json::json;

use super::Call;
use crate::format::short;
use crate::output::IDENTITY;
use crate::state::about::About;
use crate::state::keep::{describe, loss_shape};

/// Save a workspace as a snapshot.
#[derive(Debug, Args)]
#[command(after_help = "\
The parent of the snapshot is the previous snapshot of the workspace, or its
base. `head` and tags do not move. If nothing was changed, no snapshot is
created.

Examples:
  elevo ws snapshot try-1 -m \"it works\"
  elevo state tag good \"$(elevo ws snapshot try-1 --json | jq -r .snapshot)\"")]
pub(super) struct Snapshot {
    /// The workspace
    id: WorkspaceId,

    #[command(flatten)]
    about: About,
}

pub(super) fn snapshot(call: &mut Call, args: Snapshot) -> anyhow::Result<()> {
    let workspaces = call.open_to_write()?;
    let info = args.about.into_info(&call.session, Vec::new(), None);
    let taken = call.watch("reading", |progress| {
        workspaces.snapshot(&args.id, info, &NeverFreeze, progress)
    })?;
    print(call, &args.id, &taken, "Kept")
}

/// Park a workspace: save it as a snapshot and delete its directory.
#[derive(Debug, Args)]
#[command(after_help = "\
Stop all commands that write to it first: files written while it is parked are
lost. `elevo ws resume` restores it, including modification times.

Examples:
  elevo ws park try-1
  elevo ws resume try-1")]
pub(super) struct Park {
    /// The workspace
    id: WorkspaceId,

    #[command(flatten)]
    about: About,
}

pub(super) fn park(call: &mut Call, args: Park) -> anyhow::Result<()> {
    call.check_free(&args.id)?;
    let workspaces = call.open_to_write()?;
    let info = args.about.into_info(&call.session, Vec::new(), None);
    let taken = call.watch("reading", |progress| {
        workspaces.park(&args.id, info, &NeverFreeze, progress)
    })?;
    print(call, &args.id, &taken, "Parked")
}

fn print(call: &mut Call, id: &WorkspaceId, taken: &Snapshotted, done: &str) -> anyhow::Result<()> {
    for loss in &taken.losses {
        call.session.note(&describe(loss));
    }
    let output = &mut call.session.output;
    if output.is_json() {
        let losses: Vec<_> = taken.losses.iter().map(loss_shape).collect();
        output.value(&json!({
            "workspace": id.as_str(),
            "snapshot": taken.id.to_string(),
            "changed": taken.is_new,
            "losses": losses,
        }))?;
    } else {
        let snapshot = output.styled(IDENTITY, short(taken.id));
        let text = match taken.is_new {
            true => format!("{done} {id} as "),
            false => format!("{done} {id}, unchanged since "),
        };
        output.line([text.as_bytes(), &snapshot].concat())?;
    }
    Ok(())
}
