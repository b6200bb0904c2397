use clap::Args;
use elevo_workspace::WorkspaceId;

use crate::client::Where;
use crate::client::diff::WorkspaceDiffOptions;
use crate::client::paths::workspace_path;
use crate::client::workspace::{id_or_here, run_with_global};
use crate::errors::{Exit, WorkspaceProblem};
use crate::global::Global;
use crate::local::workspaces::WorkspaceCall;
use crate::output::tree_diff::{self, DiffOptions};

/// Show the changes in a workspace since its start.
#[derive(Debug, Args)]
#[command(after_help = "\
Like `elevo diff`, with the workspace as the second side. `elevo ws status --help`
explains the start. On a server, a workspace of a project starts at the state that
it was created from, last updated to or last merged. --stat and -p write the contents of changed files to the
store, where nothing refers to them.

Examples:
  elevo ws diff try-1 --since-snapshot
  elevo ws diff -p try-1 | git apply
  elevo ws diff --stat try-1 -- src")]
pub(super) struct Diff {
    /// The workspace; by default the one around the current directory
    #[arg(value_name = "WS")]
    pub(super) id: Option<WorkspaceId>,

    /// Compare with the last snapshot instead of the start
    #[arg(long)]
    since_snapshot: bool,

    #[command(flatten)]
    shown: DiffOptions,

    /// On a server, the snapshot to compare with: id or name
    #[arg(long, value_name = "SNAPSHOT", conflicts_with = "since_snapshot")]
    from: Option<String>,

    /// Address of the server [env: ELEVO_SERVER]
    // Not all of `Where`, because `--context` has the number of lines.
    #[arg(long, value_name = "URL")]
    pub(super) server: Option<String>,
}

impl Diff {
    /// The server of the workspace, if an option names it.
    pub(super) fn at(&self) -> Where {
        Where::of_server(self.server.clone())
    }
}

/// Prints the changes of a workspace on a server.
pub(super) fn run_on_server(args: Diff, global: &Global) -> anyhow::Result<Exit> {
    let at = args.at();
    let Some((stat, patch, exit_code)) = args.shown.on_server() else {
        return Err(WorkspaceProblem::OnlyInStore.into());
    };
    let options = WorkspaceDiffOptions {
        stat,
        patch,
        from: match args.since_snapshot {
            true => Some("last".into()),
            false => args.from,
        },
        limit: 100_000,
    };
    run_with_global(&at, global, |call| {
        let id = id_or_here(call, args.id.map(|id| id.to_string()))?;
        let differ = options.print(call, &workspace_path(&id, &["diff"]))?;
        Ok(match differ && exit_code {
            true => Exit::Differences,
            false => Exit::Done,
        })
    })
}

pub(super) fn run(call: &mut WorkspaceCall, args: Diff) -> anyhow::Result<Exit> {
    if args.from.is_some() {
        return Err(WorkspaceProblem::OnlyOnServer.into());
    }
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
