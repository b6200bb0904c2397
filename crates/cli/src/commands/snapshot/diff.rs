use clap::Args;

use crate::client::Call;
use crate::client::diff::{format, print_diff};
use crate::client::paths::snapshot_path;
use crate::errors::Exit;

/// Show the changes between two snapshots
#[derive(Debug, Args)]
#[command(after_help = "\
A letter stands for each change: A added, D removed, M changed.

Examples:
  elevo snapshot diff good 1a2b…
  elevo snapshot diff --stat good better
  elevo snapshot diff -p good better | git apply")]
pub(super) struct Diff {
    /// The snapshot to compare from, by id or name
    #[arg(value_name = "A")]
    from: String,

    /// The snapshot to compare to, by id or name
    #[arg(value_name = "B")]
    to: String,

    /// Show the lines added and removed in each file, and the totals
    #[arg(long)]
    stat: bool,

    /// Print a patch for `git apply`
    #[arg(short, long, conflicts_with = "stat")]
    patch: bool,

    /// Maximum number of changes to list
    #[arg(short = 'n', long, value_name = "N", default_value_t = 10_000)]
    limit: u32,

    /// Exit with code 7 if there are differences, and 0 if not
    #[arg(long)]
    exit_code: bool,
}

pub(super) fn run(call: &mut Call, args: &Diff) -> anyhow::Result<Exit> {
    let query = [
        ("from", args.from.clone()),
        ("to", args.to.clone()),
        ("limit", args.limit.to_string()),
    ];
    let form = format(args.stat, args.patch);
    let differ = print_diff(call, &snapshot_path("diff"), &query, form)?;
    if !differ {
        call.note("nothing differs");
    }
    Ok(match differ && args.exit_code {
        true => Exit::Differences,
        false => Exit::Done,
    })
}
