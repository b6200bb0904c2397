use clap::Args;

use crate::client::Where;
use crate::client::merge::merge;
use crate::client::paths::workspace_path;
use crate::client::workspace::{id_or_here, run_with_global};
use crate::errors::Exit;
use crate::global::Global;
use crate::options::merge::MergeOptions;

/// Merge the changes of a workspace into its project, on a server.
#[derive(Debug, Args)]
#[command(after_help = "\
Changes without a conflict land, and are durable when the command returns. The
others are held for review or refused, and the exit code is 8. With --atomic,
either all changes land or none.

Examples:
  elevo ws merge -m \"a better page\"         the workspace of this directory
  elevo ws merge ws-… --dry-run
  elevo ws merge ws-… --atomic || elevo ws refresh ws-…")]
pub(super) struct Merge {
    /// The workspace; by default the one that contains the current directory
    id: Option<String>,

    #[command(flatten)]
    how: MergeOptions,

    #[command(flatten)]
    at: Where,
}

pub(super) fn run(args: Merge, global: &Global) -> anyhow::Result<Exit> {
    run_with_global(&args.at, global, |call| {
        let id = id_or_here(call, args.id)?;
        let path = workspace_path(&id, &["merge"]);
        merge(call, &path, &args.how.wish(), "merging")
    })
}
