use clap::Args;
use elevo_api as api;

use crate::client::paths::workspace_path;
use crate::client::workspace::{id_or_here, run_with_global};
use crate::client::{Call, Where, merge};
use crate::errors::Exit;
use crate::global::Global;
use crate::output::format::{count, first_line, short_text};
use crate::output::{IDENTITY, STRONG};

/// Bring the newer head of the project into a workspace, on a server.
#[derive(Debug, Args)]
#[command(after_help = "\
In a conflict, a text file gets conflict markers, and any other file keeps the
workspace's version. The exit code is then 8. Edit these files before the next
merge.

Examples:
  elevo ws pull                             the workspace of this directory
  elevo ws pull ws-… --dry-run")]
pub(super) struct Pull {
    /// The workspace, by id, name or unique prefix of its id; by default the one
    /// that contains the current directory
    #[arg(value_name = "WORKSPACE")]
    id: Option<String>,

    /// Show the result without changing the workspace
    #[arg(long)]
    dry_run: bool,

    #[command(flatten)]
    at: Where,
}

pub(super) fn run(args: Pull, global: &Global) -> anyhow::Result<Exit> {
    run_with_global(&args.at, global, |call| {
        let id = id_or_here(call, args.id)?;
        pull(call, &id, args.dry_run)
    })
}

fn pull(call: &mut Call, id: &str, dry_run: bool) -> anyhow::Result<Exit> {
    let wish = api::Refresh { dry_run };
    let path = workspace_path(id, &["refresh"]);
    let asking = call.client.post(&path, &wish);
    let done: api::Refreshed = call.watch("pulling", asking)?;
    let code = match done.conflicts.is_empty() {
        true => Exit::Done,
        false => Exit::Held,
    };
    if call.output.is_json() {
        call.output.value(&done)?;
        return Ok(code);
    }
    let changed = count(done.changed_count, "path", "paths");
    let text = match (dry_run, done.changed_count) {
        (true, _) => format!("{changed} would be updated"),
        (false, 0) => "Up to date with ".to_owned(),
        (false, _) => format!("{changed} updated to "),
    };
    let mut line = call.output.styled(STRONG, text);
    if !dry_run {
        line.extend(call.output.styled(IDENTITY, short_text(&done.head)));
    }
    call.output.line(line)?;
    for path in &done.changed {
        let path = first_line(path).into_owned();
        call.output.line(format!("  {path}"))?;
    }
    let rest = done.changed_count.saturating_sub(done.changed.len() as u64);
    if rest > 0 {
        call.output.line(format!("  … and {rest} more"))?;
    }
    print_conflicts(call, &done, dry_run)?;
    Ok(code)
}

/// Prints the conflicts of a pull, those with markers first.
fn print_conflicts(call: &mut Call, done: &api::Refreshed, dry_run: bool) -> anyhow::Result<()> {
    let conflicts = done.conflicts.iter();
    let (marked, kept): (Vec<_>, Vec<_>) =
        conflicts.partition(|conflict| done.marked.contains(&conflict.path));
    let headings = match dry_run {
        true => [
            "Would get conflict markers:",
            "Would keep the workspace's version:",
        ],
        false => [
            "Has conflict markers; edit it, then merge:",
            "Keeps the workspace's version; change it, then merge:",
        ],
    };
    for (heading, conflicts) in headings.into_iter().zip([marked, kept]) {
        if conflicts.is_empty() {
            continue;
        }
        let heading = call.output.styled(STRONG, heading);
        call.output.line(heading)?;
        for conflict in conflicts {
            print_conflict(call, conflict)?;
        }
    }
    Ok(())
}

fn print_conflict(call: &mut Call, conflict: &api::Conflict) -> anyhow::Result<()> {
    let path = first_line(&conflict.path);
    let why = match conflict.kind.as_str() {
        "removed-in-project" | "removed-in-workspace" => {
            "removed on one side, changed on the other".to_owned()
        }
        kind => merge::conflict_reason(kind),
    };
    call.output.line(format!("  {path}: {why}"))?;
    Ok(())
}
