use clap::Args;

use crate::client::Where;
use crate::client::merge::merge;
use crate::client::paths::workspace_path;
use crate::client::workspace::{id_or_here, run_with_global};
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
    /// The workspace; by default the one that contains the current directory
    id: Option<String>,

    #[command(flatten)]
    how: MergeOptions,

    #[command(flatten)]
    at: Where,
}

pub(super) fn run(args: Complete, global: &Global) -> anyhow::Result<Exit> {
    run_with_global(&args.at, global, |call| {
        let id = id_or_here(call, args.id)?;
        let path = workspace_path(&id, &["complete"]);
        merge(call, &path, &args.how.wish(), "merging")
    })
}
