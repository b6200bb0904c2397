use clap::Args;
use elevo_api as api;
use elevo_workspace::{NeverFreeze, WorkspaceId};

use crate::client::Where;
use crate::client::paths::workspace_path;
use crate::client::workspace::{id_or_here, print_workspace, run_with_global};
use crate::errors::{Exit, WorkspaceProblem};
use crate::global::Global;
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
    pub(super) id: Option<WorkspaceId>,

    /// Ids of the forks; by default one fork with a new id
    #[arg(value_name = "NEW")]
    into: Vec<WorkspaceId>,

    #[command(flatten)]
    about: SnapshotOptions,

    /// On a server, the number of forks; at most 50
    #[arg(short = 'n', long, value_name = "N", conflicts_with = "into")]
    count: Option<u32>,

    /// On a server, the name of the forks; a number is appended if there are several
    #[arg(long, conflicts_with = "into")]
    name: Option<String>,

    #[command(flatten)]
    pub(super) at: Where,
}

/// Forks a workspace on a server, and prints the directories of the forks. A fork
/// there gets a new id; NEW is its name.
pub(super) fn run_on_server(args: Fork, global: &Global) -> anyhow::Result<Exit> {
    run_with_global(&args.at, global, |call| {
        let id = id_or_here(call, args.id.map(|id| id.to_string()))?;
        let path = workspace_path(&id, &["fork"]);
        let named = args.into.iter().map(|name| api::ForkWorkspace {
            count: None,
            name: Some(name.to_string()),
        });
        let wishes = match args.into.is_empty() {
            false => named.collect(),
            true => vec![api::ForkWorkspace {
                count: args.count,
                name: args.name,
            }],
        };
        for wish in &wishes {
            let forked: api::WorkspacesForked =
                call.watch("forking", call.client.create(&path, wish))?;
            for fork in &forked.succeeded {
                print_workspace(call, fork)?;
            }
        }
        Ok(Exit::Done)
    })
}

pub(super) fn run(call: &mut WorkspaceCall, args: Fork) -> anyhow::Result<()> {
    if args.count.is_some() || args.name.is_some() {
        return Err(WorkspaceProblem::OnlyOnServer.into());
    }
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
