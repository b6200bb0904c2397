use clap::Args;

use crate::client::Call;
use crate::client::diff::WorkspaceDiffOptions;
use crate::client::names::{Noun, find};
use crate::client::paths::sandbox_path;

/// Show the changes in the workspace of a sandbox since its start.
#[derive(Debug, Args)]
#[command(after_help = "\
The start is the snapshot that the workspace was created from; a fork has that of
the other sandbox. Of a project it is the state that the workspace was created
from, last updated to or last merged. A letter stands for each change: A added,
D removed, M changed.

Examples:
  elevo sandbox diff \"$id\"
  elevo sandbox diff \"$id\" --from last      since the last snapshot
  elevo sandbox diff -p \"$id\" | git apply
  elevo sandbox diff \"$id\" --from 1a2b…")]
pub(super) struct Diff {
    /// The sandbox, by id, name or unique prefix of its id
    #[arg(value_name = "SANDBOX")]
    id: String,

    #[command(flatten)]
    shown: WorkspaceDiffOptions,
}

pub(super) fn run(call: &mut Call, args: &Diff) -> anyhow::Result<()> {
    let id = find(call, Noun::Sandbox, &args.id)?;
    args.shown.print(call, &sandbox_path(&id, &["diff"]))?;
    Ok(())
}
