use clap::Args;
use elevo_workspace::{NeverFreeze, WorkspaceId};

use crate::local::workspaces::{WorkspaceCall, new_workspace_id};
use crate::options::snapshot::SnapshotOptions;

/// Create workspaces with the current files of another; print their directories.
#[derive(Debug, Args)]
#[command(after_help = "\
Forks include changes that are in no snapshot. If the workspace has a limit (and
so is in the pool), all forks have the same limit and the files of the same
moment, and no snapshot is created. Otherwise a snapshot is created first, and a
file that is written at the same time has its state of some moment during the
snapshot.

Examples:
  elevo ws fork try-1                  create one fork, with a new id
  elevo ws fork try-1 try-2 try-3      create two forks")]
pub(super) struct Fork {
    /// The workspace; by default the one around the current directory
    #[arg(value_name = "WS")]
    id: Option<WorkspaceId>,

    /// Ids of the forks; by default one fork with a new id
    #[arg(value_name = "NEW")]
    into: Vec<WorkspaceId>,

    #[command(flatten)]
    about: SnapshotOptions,
}

pub(super) fn run(call: &mut WorkspaceCall, args: Fork) -> anyhow::Result<()> {
    let workspaces = call.open_to_write()?;
    let from = call.find(&workspaces, args.id.as_ref())?;
    let into = match args.into.is_empty() {
        true => vec![new_workspace_id()?],
        false => args.into,
    };
    let is_described = args.about.is_given();
    let info = args.about.into_info(&call.session, Vec::new(), None);
    let taken = call.watch("forking", |progress| {
        workspaces.fork(&from, &into, info, &NeverFreeze, progress)
    })?;
    if is_described && !taken.is_some_and(|taken| taken.is_new) {
        call.session
            .note("no snapshot was created, so the message and labels were not saved");
    }
    for id in &into {
        let record = workspaces.get(id)?;
        call.print_path(&workspaces, &record)?;
    }
    Ok(())
}
