use clap::Args;
use elevo_workspace::{State, WorkspaceId};

use crate::local::workspaces::{WorkspaceCall, WorkspaceShape};
use crate::output::format::short;
use crate::output::tree_diff::{self, DiffOptions};

/// List the changes in a workspace since its start.
#[derive(Debug, Args)]
#[command(after_help = "\
The start is the snapshot that the workspace was created from; a fork has that of
the other workspace, and after a merge the start is what was merged. A letter
stands for each change: A added, D removed, M content, P permissions, T type.
With --json, the workspace, then one object per change.

Examples:
  elevo ws status try-1
  elevo ws status try-1 --since-snapshot
  elevo ws status --json           the workspace of this directory")]
pub(super) struct Status {
    /// The workspace; by default the one around the current directory
    #[arg(value_name = "WS")]
    id: Option<WorkspaceId>,

    /// Compare with the last snapshot instead of the start
    #[arg(long)]
    since_snapshot: bool,
}

pub(super) fn run(call: &mut WorkspaceCall, args: &Status) -> anyhow::Result<()> {
    let workspaces = call.open_to_read()?;
    let id = call.find(&workspaces, args.id.as_ref())?;
    let record = workspaces.get(&id)?;
    if call.session.output.is_json() {
        let shape = WorkspaceShape::new(&workspaces, &record)?;
        call.session.output.value(&shape)?;
    }
    if record.state == State::Parked {
        let text = format!("{} is parked as {}", record.id, short(record.base));
        call.session.note(&text);
        return Ok(());
    }
    let changes = call.watch("looking", |progress| workspaces.changes(&id, progress))?;
    let (since, before) = match args.since_snapshot {
        true => (record.base, changes.before()),
        false => (record.start, changes.start()),
    };
    let after = changes.tree;
    if before == after {
        let text = format!("nothing was changed since {}", short(since));
        call.session.note(&text);
    }
    let shown = DiffOptions::names();
    tree_diff::print_tree_diff(
        &mut call.session,
        changes.repository(),
        before,
        after,
        shown,
    )?;
    Ok(())
}
