use clap::Args;
use elevo_workspace::{State, WorkspaceId};

use crate::local::workspaces::{WorkspaceCall, WorkspaceShape};
use crate::output::format::short;
use crate::output::tree_diff::{self, DiffOptions};

/// List the changes in a workspace since its last snapshot.
#[derive(Debug, Args)]
#[command(after_help = "\
A letter stands for each change: A added, D removed, M content, P permissions,
T type. With --json, the workspace, then one object per change.

Examples:
  elevo ws status try-1
  elevo ws status try-1 --json")]
pub(super) struct Status {
    /// The workspace
    id: WorkspaceId,
}

pub(super) fn run(call: &mut WorkspaceCall, args: &Status) -> anyhow::Result<()> {
    let workspaces = call.open_to_read()?;
    let record = workspaces.get(&args.id)?;
    if call.session.output.is_json() {
        let shape = WorkspaceShape::new(&workspaces, &record)?;
        call.session.output.value(&shape)?;
    }
    if record.state == State::Parked {
        let text = format!("{} is parked as {}", record.id, short(record.base));
        call.session.note(&text);
        return Ok(());
    }
    let changes = call.watch("looking", |progress| workspaces.changes(&args.id, progress))?;
    if changes.is_empty() {
        let text = format!("nothing was changed since {}", short(record.base));
        call.session.note(&text);
    }
    let (before, after) = (changes.before(), changes.tree);
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
