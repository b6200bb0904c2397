use clap::Args;
use elevo_workspace::WorkspaceId;

use crate::errors::Exit;
use crate::local::workspaces::WorkspaceCall;
use crate::output::tree_diff::{self, DiffOptions};

/// Show the changes in a workspace since its start.
#[derive(Debug, Args)]
#[command(after_help = "\
Like `elevo diff`, with the workspace as the second side. `elevo ws status --help`
explains the start. --stat and -p write the contents of changed files to the
store, where nothing refers to them.

Examples:
  elevo ws diff try-1 --since-snapshot
  elevo ws diff -p try-1 | git apply
  elevo ws diff --stat try-1 -- src")]
pub(super) struct Diff {
    /// The workspace; by default the one around the current directory
    #[arg(value_name = "WS")]
    id: Option<WorkspaceId>,

    /// Compare with the last snapshot instead of the start
    #[arg(long)]
    since_snapshot: bool,

    #[command(flatten)]
    shown: DiffOptions,
}

pub(super) fn run(call: &mut WorkspaceCall, args: Diff) -> anyhow::Result<Exit> {
    let workspaces = match args.shown.needs_contents() {
        true => call.open_to_write()?,
        false => call.open_to_read()?,
    };
    let id = call.find(&workspaces, args.id.as_ref())?;
    let changes = match args.shown.needs_contents() {
        true => call.watch("reading", |progress| workspaces.contents(&id, progress))?,
        false => call.watch("looking", |progress| workspaces.changes(&id, progress))?,
    };
    let before = match args.since_snapshot {
        true => changes.before(),
        false => changes.start(),
    };
    let after = changes.tree;
    tree_diff::print_tree_diff(
        &mut call.session,
        changes.repository(),
        before,
        after,
        args.shown,
    )
}
