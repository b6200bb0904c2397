//! Undoes changes that have landed in a project.

use clap::Args;
use elevo_api as api;

use super::at::resolve;
use super::project_path;
use crate::errors::Exit;
use crate::merging::{self, Merging};
use crate::service::Call;

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
    how: Merging,
}

pub(super) fn revert(call: &mut Call, args: Revert) -> anyhow::Result<Exit> {
    let wish = api::Revert {
        snapshot: resolve(call, &args.name, &args.step)?,
        path: args.path,
        merge: args.how.wish(),
    };
    let path = project_path(&args.name, &["revert"]);
    merging::merge(call, &path, &wish, "merging")
}

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
    #[arg(long, value_name = "STEP")]
    from: String,

    #[command(flatten)]
    how: Merging,
}

pub(super) fn restore(call: &mut Call, args: Restore) -> anyhow::Result<Exit> {
    let wish = api::RestorePath {
        snapshot: resolve(call, &args.name, &args.from)?,
        path: args.path,
        merge: args.how.wish(),
    };
    let path = project_path(&args.name, &["restore"]);
    merging::merge(call, &path, &wish, "merging")
}
