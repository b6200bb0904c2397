use clap::Args;

use crate::client::merge::merge;
use crate::client::paths::workspace_path;
use crate::client::workspace::{WhichWorkspace, run_with_global};
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
    #[command(flatten)]
    which: WhichWorkspace,

    #[command(flatten)]
    how: MergeOptions,
}

pub(super) fn run(args: Merge, global: &Global) -> anyhow::Result<Exit> {
    run_with_global(&args.which.at.clone(), global, |call| {
        let id = args.which.find(call)?;
        let path = workspace_path(&id, &["merge"]);
        merge(call, &path, &args.how.wish(), "merging")
    })
}
