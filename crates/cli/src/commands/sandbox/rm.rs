use clap::Args;
use elevo_api as api;
use serde_json::json;

use crate::client::names::{Noun, find};
use crate::client::{Call, not_removed};
use crate::errors::Exit;
use crate::output::sandbox::report_failed_sandbox;

/// Delete sandboxes with their files.
#[derive(Debug, Args)]
#[command(after_help = "\
Snapshots stay. With --keep-workspace the workspace is parked: it is kept for a
while, and `elevo sandbox create --workspace ID` continues in it. If a sandbox
cannot be deleted, the command reports it and deletes the others.

Examples:
  elevo sandbox rm \"$id\"
  elevo sandbox ls --json --name try- | jq -r .id | xargs elevo sandbox rm")]
pub(super) struct Rm {
    /// The sandboxes, by id, name or unique prefix of the id
    #[arg(required = true, value_name = "SANDBOX")]
    ids: Vec<String>,

    /// Park the workspaces; `elevo ws ls --parked` lists them
    #[arg(long)]
    keep_workspace: bool,
}

/// Maximum number of sandboxes in a request.
const BATCH: usize = 50;

pub(super) fn run(call: &mut Call, args: Rm) -> anyhow::Result<Exit> {
    let mut exit = None;
    let mut found = Vec::new();
    for text in &args.ids {
        match find(call, Noun::Sandbox, text) {
            Ok(id) => found.push(id),
            Err(error) => {
                let failed = call.report(error.context(not_removed(text)))?;
                exit.get_or_insert(failed);
            }
        }
    }
    for ids in found.chunks(BATCH) {
        let wish = api::BatchDelete {
            ids: ids.to_vec(),
            keep_workspace: args.keep_workspace,
        };
        let at = ["api", "v1", "sandboxes", "batch-delete"];
        let asked = call.watch("deleting", call.client.post(&at, &wish));
        let done: api::BatchDeleted = match asked {
            Ok(done) => done,
            Err(error) => {
                let which = not_removed(&ids.join("`, `"));
                let failed = call.report(anyhow::Error::from(error).context(which))?;
                exit.get_or_insert(failed);
                continue;
            }
        };
        for id in &done.succeeded {
            match call.output.is_json() {
                true => call.output.value(&json!({ "removed": id }))?,
                false => call.output.line(format!("Removed {id}"))?,
            }
        }
        for failed in done.failed {
            let failed = report_failed_sandbox(call, failed)?;
            exit.get_or_insert(failed);
        }
    }
    Ok(exit.unwrap_or(Exit::Done))
}
