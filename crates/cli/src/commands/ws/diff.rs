use clap::Args;
use elevo_workspace::WorkspaceId;

use crate::errors::Exit;
use crate::local::workspaces::WorkspaceCall;
use crate::output::tree_diff::{self, DiffOptions};

/// Show the changes in a workspace since its last snapshot.
#[derive(Debug, Args)]
#[command(after_help = "\
Like `elevo diff`, with the workspace as the second side. --stat and -p
write the contents of changed files to the store, where nothing refers to them.

Examples:
  elevo ws diff try-1
  elevo ws diff -p try-1 | git apply
  elevo ws diff --stat try-1 -- src")]
pub(super) struct Diff {
    /// The workspace
    id: WorkspaceId,

    #[command(flatten)]
    shown: DiffOptions,
}

pub(super) fn run(call: &mut WorkspaceCall, args: Diff) -> anyhow::Result<Exit> {
    let changes = if args.shown.needs_contents() {
        let workspaces = call.open_to_write()?;
        call.watch("reading", |progress| {
            workspaces.contents(&args.id, progress)
        })?
    } else {
        let workspaces = call.open_to_read()?;
        call.watch("looking", |progress| workspaces.changes(&args.id, progress))?
    };
    let (before, after) = (changes.before(), changes.tree);
    tree_diff::print_tree_diff(
        &mut call.session,
        changes.repository(),
        before,
        after,
        args.shown,
    )
}
