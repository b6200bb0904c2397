use clap::Args;
use elevo_api as api;

use crate::client::names::{Noun, find};
use crate::client::paths::project_path;
use crate::client::project_state::resolve;
use crate::client::{Call, merge};
use crate::errors::Exit;
use crate::options::merge::MergeOptions;

/// Undo the changes of a step, all of them or at one path.
#[derive(Debug, Args)]
#[command(after_help = "\
Later steps stay; if they conflict with the change, it is held for review. The
exit codes are those of `elevo ws merge`. To restore a path to an earlier state
and undo all later changes of it, use `elevo project restore`.

Examples:
  elevo project revert site 7                   undo step 7
  elevo project revert site 7 -- index.html     undo step 7 in one file
  elevo project revert site 7 --dry-run")]
pub(super) struct Revert {
    /// The project, by name or id
    name: String,

    /// The step: its number or its snapshot
    step: String,

    /// Only this file or directory
    #[arg(last = true)]
    path: Option<String>,

    #[command(flatten)]
    how: MergeOptions,
}

pub(super) fn run(call: &mut Call, args: Revert) -> anyhow::Result<Exit> {
    let project = find(call, Noun::Project, &args.name)?;
    let wish = api::Revert {
        snapshot: resolve(call, &project, &args.step)?,
        path: args.path,
        merge: args.how.wish(),
    };
    let path = project_path(&project, &["revert"]);
    merge::merge(call, &path, &wish, "merging")
}
