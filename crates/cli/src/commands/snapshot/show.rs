use clap::Args;
use elevo_api as api;

use crate::client::Call;
use crate::client::paths::snapshot_path;
use crate::output::STRONG;
use crate::output::format::first_line;
use crate::output::relative_time::relative;

/// Describe a snapshot
#[derive(Debug, Args)]
#[command(after_help = "\
Two snapshots with the same tree have the same files.

Examples:
  elevo snapshot show good
  elevo snapshot show 1a2b… --json")]
pub(super) struct Show {
    /// The snapshot, by id or name
    #[arg(value_name = "SNAPSHOT")]
    id: String,
}

pub(super) fn run(call: &mut Call, args: &Show) -> anyhow::Result<()> {
    let path = snapshot_path(&args.id);
    let found: api::Snapshot = call.wait(call.client.get(&path))?;
    print(call, &found)
}

/// Prints a snapshot.
pub(super) fn print(call: &mut Call, snapshot: &api::Snapshot) -> anyhow::Result<()> {
    if call.output.is_json() {
        return Ok(call.output.value(snapshot)?);
    }
    let lines = [
        ("snapshot", Some(snapshot.id.clone())),
        ("tree", Some(snapshot.tree.clone())),
        ("name", snapshot.name.clone()),
        ("workspace", snapshot.workspace.clone()),
        ("agent", snapshot.agent.clone()),
        ("created", Some(relative(&snapshot.created_at))),
        ("message", Some(snapshot.message.clone())),
    ];
    for (title, value) in lines {
        let Some(value) = value.filter(|value| !value.is_empty()) else {
            continue;
        };
        let mut line = call.output.styled(STRONG, format!("{title:<11}"));
        line.extend(first_line(&value).as_bytes());
        call.output.line(line)?;
    }
    Ok(())
}
