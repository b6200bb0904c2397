use clap::Args;

use crate::client::merge::merge;
use crate::client::paths::workspace_path;
use crate::client::workspace::{WhichWorkspace, run_with_global};
use crate::errors::Exit;
use crate::global::Global;
use crate::options::merge::MergeOptions;

/// Merge a workspace and delete it, on a server.
#[derive(Debug, Args)]
#[command(after_help = "\
For an agent that has finished. Changes that are held for review stay, without
the workspace. The exit codes are those of `merge`.

Examples:
  elevo ws complete ws-… -m \"done\"")]
pub(super) struct Complete {
    #[command(flatten)]
    which: WhichWorkspace,

    #[command(flatten)]
    how: MergeOptions,
}

pub(super) fn run(args: Complete, global: &Global) -> anyhow::Result<Exit> {
    run_with_global(&args.which.at.clone(), global, |call| {
        let id = args.which.find(call)?;
        let path = workspace_path(&id, &["complete"]);
        merge(call, &path, &args.how.wish(), "merging")
    })
}
