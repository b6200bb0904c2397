//! Undoing what has landed in a project.

use std::process::ExitCode;

use clap::Args;
use elevo_api as api;

use super::at::resolve;
use super::project_path;
use crate::merging::{self, Merging};
use crate::service::Call;

/// Undo what a step changed, all of it or at one path.
#[derive(Debug, Args)]
#[command(after_help = "\
Later steps stay; where they are in the way, the change is held for review. Ends
as `elevo ws merge` does. `elevo project restore` brings a path back instead,
whatever has happened to it since.

Examples:
  elevo project revert site 7                   all that step 7 changed
  elevo project revert site 7 -- index.html     what step 7 changed in that file
  elevo project revert site 7 --dry-run")]
pub(super) struct Revert {
    /// The project, by name or id
    name: String,

    /// The step: its number, or the snapshot that it made
    step: String,

    /// Only this file or directory
    #[arg(last = true)]
    path: Option<String>,

    #[command(flatten)]
    how: Merging,
}

pub(super) fn revert(call: &mut Call, args: Revert) -> anyhow::Result<ExitCode> {
    let wish = api::Revert {
        snapshot: resolve(call, &args.name, &args.step)?,
        path: args.path,
        merge: args.how.wish(),
    };
    let path = project_path(&args.name, &["revert"]);
    merging::merge(call, &path, &wish, "merging")
}

/// Make a file or directory what it was after a step.
#[derive(Debug, Args)]
#[command(after_help = "\
All later changes of the path are undone, whichever step made them; if it was not
there, it is removed. Ends as `elevo ws merge` does. To undo one step and keep
later ones, use `elevo project revert`.

Examples:
  elevo project restore site index.html --from 7
  elevo project restore site docs --from v1 --dry-run")]
pub(super) struct Restore {
    /// The project, by name or id
    name: String,

    /// The file or directory
    path: String,

    /// The state to take it from: a step, a tag or a snapshot
    #[arg(long, value_name = "STEP")]
    from: String,

    #[command(flatten)]
    how: Merging,
}

pub(super) fn restore(call: &mut Call, args: Restore) -> anyhow::Result<ExitCode> {
    let wish = api::RestorePath {
        snapshot: resolve(call, &args.name, &args.from)?,
        path: args.path,
        merge: args.how.wish(),
    };
    let path = project_path(&args.name, &["restore"]);
    merging::merge(call, &path, &wish, "merging")
}
