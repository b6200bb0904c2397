use clap::Args;
use elevo_api as api;

use crate::client::merge::{landed, merge_exit, print_merge};
use crate::client::names::{Noun, find};
use crate::client::paths::project_path;
use crate::client::{Call, ClientError};
use crate::errors::Exit;
use crate::options::merge::MergeOptions;

/// Merge several workspaces into their project.
#[derive(Debug, Args)]
#[command(after_help = "\
The workspaces are merged in the given order, each as by `elevo ws merge`, and
a failure of one does not stop the others. With --atomic, all of them land at
once or none does: the head moves once, and the history gets a step for each.
At most 50 workspaces can be merged by one command. The exit codes are those of
`elevo ws merge`; if a workspace was not merged, the code of its error.

Examples:
  elevo project merge site try-1 try-2 -m \"the best of two\"
  elevo project merge site ws-… ws-… --atomic
  elevo project merge site ws-… ws-… --dry-run --json")]
pub(super) struct Merge {
    /// The project, by name or id
    name: String,

    /// The workspaces: ids, names, or unique prefixes of ids
    #[arg(required = true, value_name = "WS")]
    workspaces: Vec<String>,

    #[command(flatten)]
    how: MergeOptions,
}

pub(super) fn run(call: &mut Call, args: Merge) -> anyhow::Result<Exit> {
    let project = find(call, Noun::Project, &args.name)?;
    let workspaces = args.workspaces.iter();
    let workspaces = workspaces.map(|text| find(call, Noun::Workspace, text));
    let how = args.how.wish();
    let wish = api::MergeWorkspaces {
        workspaces: workspaces.collect::<anyhow::Result<_>>()?,
        atomic: how.atomic,
        message: how.message,
        dry_run: how.dry_run,
        strategy: how.strategy,
        renames: how.renames,
    };
    let path = project_path(&project, &["merge"]);
    let asked = call.watch("merging", call.client.create(&path, &wish));
    let done: api::WorkspacesMerged = landed(call, asked)?;
    print(call, done)
}

/// Prints the result of each workspace. Returns the exit code of the first
/// workspace that was not merged, or else of one with held changes.
fn print(call: &mut Call, done: api::WorkspacesMerged) -> anyhow::Result<Exit> {
    let is_json = call.output.is_json();
    if is_json {
        call.output.value(&done)?;
    }
    let mut code = Exit::Done;
    for merged in &done.succeeded {
        if !is_json {
            call.output.line(format!("{}:", merged.workspace))?;
            print_merge(call, &merged.result)?;
        }
        if merge_exit(&merged.result) == Exit::Held {
            code = Exit::Held;
        }
    }
    let mut first = None;
    for failed in done.failed {
        let context = format!("cannot merge `{}`", failed.id);
        let error = ClientError::Refused(Box::new(failed.error));
        let exit = call.report(anyhow::Error::from(error).context(context))?;
        first.get_or_insert(exit);
    }
    Ok(first.unwrap_or(code))
}
