use clap::Args;
use elevo_workspace::{Error, WorkspaceId};

use crate::local::workspaces::WorkspaceCall;
use crate::options::snapshot::SnapshotOptions;
use crate::output::saved_snapshot::describe_loss;

/// Print the directory of a workspace.
#[derive(Debug, Args)]
#[command(after_help = "\
After a restart of the machine, this command mounts the workspace again. A
workspace of --provider rootless, which only `elevo ws exec` can enter, becomes
an ordinary directory: all its files are written out, as clones or copies.

Examples:
  cd \"$(elevo ws path try-1)\"
  docker run -v \"$(elevo ws path try-1):/workspace\" IMAGE")]
pub(super) struct Path {
    /// The workspace; by default the one around the current directory
    #[arg(value_name = "WS")]
    id: Option<WorkspaceId>,
}

pub(super) fn run(call: &mut WorkspaceCall, args: &Path) -> anyhow::Result<()> {
    let mut workspaces = call.open_to_read()?;
    let id = call.find(&workspaces, args.id.as_ref())?;
    match workspaces.path(&id) {
        Err(Error::Private(_)) if call.held().is_none() => {
            drop(workspaces);
            workspaces = call.open_to_write()?;
            let info = SnapshotOptions::default().into_info(&call.session, Vec::new(), None);
            let taken = call.watch("writing files", |progress| {
                workspaces.make_ordinary(&id, info, progress)
            })?;
            for loss in &taken.losses {
                call.session.note(&describe_loss(loss));
            }
        }
        path => drop(path?),
    }
    let record = workspaces.get(&id)?;
    call.print_path(&workspaces, &record)
}
