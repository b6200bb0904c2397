use std::path::Path;

use clap::Args;
use elevo_workspace::WorkspaceId;

use super::merge_local::OfStore;
use crate::client::Where;
use crate::client::merge::{landed, print_merge};
use crate::client::paths::workspace_path;
use crate::client::workspace::{id_or_here, run_with_global};
use crate::commands::ws::side::Side;
use crate::errors::Exit;
use crate::global::Global;
use crate::local::merge::Take;
use crate::local::workspaces::is_live_in_store;
use crate::options::merge::MergeOptions;

/// Merge the changes of a workspace into its project or into head.
#[derive(Debug, Args)]
#[command(after_help = "\
A workspace of a project: changes without a conflict land, and are durable when
the command returns. The others are held for review or refused, and the exit code
is 8. With --atomic, either all changes land or none. With --rm the workspace is
deleted after the merge, unless changes were refused: changes held for review stay
in the review.

A workspace of a store on this machine: the changes since its start are merged
into `head`, as a new snapshot. If there is a conflict, nothing is merged, and the
exit code is 4; --take resolves the conflicts. Ignored files are left out.

Examples:
  elevo ws merge -m \"a better page\"         the workspace of this directory
  elevo ws merge try-1 --dry-run
  elevo ws merge try-1 --rm                 and delete it
  elevo ws merge try-1 --take workspace
  elevo ws merge ws-… --atomic || elevo ws pull ws-…")]
pub(super) struct Merge {
    /// The workspace, by id, name or unique prefix of its id; by default the one
    /// that contains the current directory
    #[arg(value_name = "WS")]
    id: Option<String>,

    /// Delete the workspace after the merge, unless changes were refused
    #[arg(long)]
    rm: bool,

    #[command(flatten)]
    how: MergeOptions,

    /// Version to take where both sides changed a file; not for projects
    #[arg(long, value_name = "SIDE")]
    take: Option<Take>,

    #[command(flatten)]
    at: Where,
}

impl Merge {
    /// Decides where the workspace is: in a store on this machine if that has
    /// the workspace, otherwise on a server.
    pub(super) fn side(self, global: &Global, root: Option<&Path>) -> Side<OfStore, Self> {
        let id = self.id.as_deref().map(str::parse::<WorkspaceId>);
        match id.transpose() {
            Ok(id) if is_live_in_store(global, root, id.as_ref()) => Side::Store(OfStore {
                id,
                how: self.how.wish(),
                take: self.take,
                rm: self.rm,
            }),
            _ => Side::Server(self),
        }
    }
}

pub(super) fn run(args: Merge, global: &Global) -> anyhow::Result<Exit> {
    run_with_global(&args.at, global, |call| {
        let id = id_or_here(call, args.id)?;
        let verb = match args.rm {
            true => "complete",
            false => "merge",
        };
        let wish = args.how.wish();
        let path = workspace_path(&id, &[verb]);
        let asking = call.watch("merging", call.client.create(&path, &wish));
        let result: elevo_api::MergeResult = landed(call, asking)?;
        let code = print_merge(call, &result)?;
        if args.rm && !wish.dry_run {
            call.note(&match result.refused_count {
                0 => format!("{id} is deleted"),
                _ => format!("{id} is not deleted, because it has the refused changes"),
            });
        }
        Ok(code)
    })
}
