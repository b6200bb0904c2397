use clap::Args;
use elevo_api as api;

use crate::client::names::{Noun, find};
use crate::client::paths::project_path;
use crate::client::project_state::resolve;
use crate::client::{Call, merge};
use crate::errors::Exit;
use crate::options::merge::MergeOptions;

/// Restore a file or directory to its state after a step.
#[derive(Debug, Args)]
#[command(after_help = "\
All later changes of the path are undone; if it did not exist, it is removed.
The exit codes are those of `elevo ws merge`. To undo one step and keep later
ones, use `elevo project revert`.

Examples:
  elevo project restore site index.html --from 7
  elevo project restore site docs --from v1 --dry-run")]
pub(super) struct Restore {
    /// The project, by name or id
    name: String,

    /// The file or directory
    path: String,

    /// The state to restore: a step, a tag or a snapshot
    #[arg(long, value_name = "REV")]
    from: String,

    #[command(flatten)]
    how: MergeOptions,
}

pub(super) fn run(call: &mut Call, args: Restore) -> anyhow::Result<Exit> {
    let project = find(call, Noun::Project, &args.name)?;
    let wish = api::RestorePath {
        snapshot: resolve(call, &project, &args.from)?,
        path: args.path,
        merge: args.how.wish(),
    };
    let path = project_path(&project, &["restore"]);
    merge::merge(call, &path, &wish, "merging")
}
