use clap::Args;

use crate::client::names::{Noun, find};
use crate::client::paths::project_path;
use crate::client::project_state::resolve;
use crate::client::{Call, diff};
use crate::errors::Exit;

/// Show the changes between two states of a project.
#[derive(Debug, Args)]
#[command(after_help = "\
With A..B or A B, from A to B; with A, from it to the newest state; without any,
the changes of the newest step. A letter stands for each change: A added,
D removed, M changed.

Examples:
  elevo project diff site
  elevo project diff site 3                   since step 3
  elevo project diff site --stat 3..7         lines
  elevo project diff site -p 3..7 | git apply as a patch")]
pub(super) struct Diff {
    /// The project, by name or id
    name: String,

    /// State of the project to compare from, or both states
    #[arg(value_name = "A[..B]")]
    from: Option<String>,

    /// State of the project to compare to
    #[arg(value_name = "B")]
    to: Option<String>,

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
    let mut query = vec![("limit", args.limit.to_string())];
    let project = find(call, Noun::Project, &args.name)?;
    for (name, state) in ["from", "to"].into_iter().zip(states(args)) {
        let state = state.map(|state| resolve(call, &project, state));
        query.extend(state.transpose()?.map(|state| (name, state)));
    }
    let format = diff::format(args.stat, args.patch);
    let path = project_path(&project, &["diff"]);
    let differ = diff::print_diff(call, &path, &query, format)?;
    if !differ {
        call.note("nothing differs");
    }
    Ok(match differ && args.exit_code {
        true => Exit::Differences,
        false => Exit::Done,
    })
}

/// The states to compare. A side of `..` that is left out is the newest state.
fn states(args: &Diff) -> [Option<&str>; 2] {
    let (from, to) = (args.from.as_deref(), args.to.as_deref());
    let split = from.filter(|_| to.is_none());
    match split.and_then(|both| both.split_once("..")) {
        None => [from, to],
        Some((from, to)) => {
            let or_head = |text| {
                Some(text)
                    .filter(|it: &&str| !it.is_empty())
                    .or(Some("head"))
            };
            [or_head(from), or_head(to)]
        }
    }
}
