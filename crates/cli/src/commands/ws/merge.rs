use clap::Args;

use crate::client::Where;
use crate::client::merge::{landed, print_merge};
use crate::client::paths::workspace_path;
use crate::client::workspace::{id_or_here, run_with_global};
use crate::errors::Exit;
use crate::global::Global;
use crate::options::merge::MergeOptions;

/// Merge the changes of a workspace into its project, on a server.
#[derive(Debug, Args)]
#[command(after_help = "\
Changes without a conflict land, and are durable when the command returns. The
others are held for review or refused, and the exit code is 8. With --atomic,
either all changes land or none. With --rm the workspace is deleted after the
merge, unless changes were refused: changes held for review stay in the review.

Examples:
  elevo ws merge -m \"a better page\"         the workspace of this directory
  elevo ws merge ws-… --dry-run
  elevo ws merge --rm -m \"done\"             merge, then delete the workspace
  elevo ws merge ws-… --atomic || elevo ws pull ws-…")]
pub(super) struct Merge {
    /// The workspace, by id, name or unique prefix of its id; by default the one
    /// that contains the current directory
    #[arg(value_name = "WORKSPACE")]
    id: Option<String>,

    /// Delete the workspace after the merge, unless changes were refused
    #[arg(long)]
    rm: bool,

    #[command(flatten)]
    how: MergeOptions,

    #[command(flatten)]
    at: Where,
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
        let result = landed(call, asking)?;
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
