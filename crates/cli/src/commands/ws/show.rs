use clap::Args;
use elevo_workspace::{State, WorkspaceId};

use crate::local::workspaces::{WorkspaceCall, WorkspaceShape};
use crate::output::STRONG;
use crate::output::format::{self, path_text, short};

/// Describe a workspace.
#[derive(Debug, Args)]
#[command(after_help = "\
`elevo ws status` lists its changes.

Examples:
  elevo ws show try-1
  elevo ws show --json")]
pub(super) struct Show {
    /// The workspace; by default the one around the current directory
    #[arg(value_name = "WS")]
    id: Option<WorkspaceId>,
}

pub(super) fn run(call: &mut WorkspaceCall, args: &Show) -> anyhow::Result<()> {
    let workspaces = call.open_to_read()?;
    let id = call.find(&workspaces, args.id.as_ref())?;
    let record = workspaces.get(&id)?;
    let shape = WorkspaceShape::new(&workspaces, &record)?;
    let output = &mut call.session.output;
    if output.is_json() {
        output.value(&shape)?;
        return Ok(());
    }
    let state = match record.state {
        State::Live => format!("live, by {}", record.provider.name()),
        State::Parked => "parked".to_owned(),
    };
    let mut lines = vec![
        ("workspace", record.id.to_string()),
        ("state", state),
        ("start", short(record.start)),
        ("snapshot", short(record.base)),
        ("created", format::local(record.created)),
    ];
    let path = shape.path().map(|path| path_text(path.as_bytes()));
    lines.extend(path.map(|path| ("path", path)));
    lines.extend(record.limit.map(|limit| ("limit", format::bytes(limit))));
    for (name, value) in lines {
        let mut line = output.styled(STRONG, format!("{name:<11}"));
        line.extend(value.as_bytes());
        output.line(line)?;
    }
    Ok(())
}
