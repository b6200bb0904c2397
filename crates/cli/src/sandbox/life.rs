//! Deletes, stops, starts and extends sandboxes.

use clap::Args;
use elevo_api as api;
use reqwest::Method;
use serde_json::json;

use super::print_done;
use crate::client::{ClientError, sandbox_path};
use crate::errors::Exit;
use crate::service::{Call, not_removed, relative};

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
    /// The sandboxes
    #[arg(required = true, value_name = "ID")]
    ids: Vec<String>,

    /// Park the workspaces; `elevo ws ls --parked` lists them
    #[arg(long)]
    keep_workspace: bool,
}

/// Maximum number of sandboxes in a request.
const BATCH: usize = 50;

pub(super) fn rm(call: &mut Call, args: Rm) -> anyhow::Result<Exit> {
    let mut exit = None;
    for ids in args.ids.chunks(BATCH) {
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
            let failed = report(call, failed)?;
            exit.get_or_insert(failed);
        }
    }
    Ok(exit.unwrap_or(Exit::Done))
}

/// Reports the failure of one sandbox of several. Returns its exit code.
pub(super) fn report(call: &mut Call, failed: api::Failed) -> anyhow::Result<Exit> {
    call.report(ClientError::Refused(Box::new(failed.error)).into())
}

/// Stop a sandbox: its processes are stopped, its workspace stays.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  elevo sandbox stop \"$id\"
  elevo sandbox start \"$id\"")]
pub(super) struct Stop {
    /// The sandbox
    id: String,
}

pub(super) fn stop(call: &mut Call, args: &Stop) -> anyhow::Result<()> {
    let request = call
        .client
        .request(Method::POST, &sandbox_path(&args.id, &["stop"]));
    let stopped = call.watch("stopping", call.client.json(request))?;
    print_done(call, &stopped, "Stopped")
}

/// Start a sandbox that was stopped or has failed.
#[derive(Debug, Args)]
#[command(after_help = "\
The workspace is unchanged; processes are not restored.

Examples:
  elevo sandbox start \"$id\"")]
pub(super) struct Start {
    /// The sandbox
    id: String,
}

pub(super) fn start(call: &mut Call, args: &Start) -> anyhow::Result<()> {
    let request = call
        .client
        .request(Method::POST, &sandbox_path(&args.id, &["start"]));
    let started = call.watch("starting", call.client.json(request))?;
    print_done(call, &started, "Started")
}

/// Extend the lifetime of a sandbox.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  elevo sandbox extend \"$id\" 1800")]
pub(super) struct Extend {
    /// The sandbox
    id: String,

    /// Seconds to add; at most 3600 at a time
    seconds: u32,
}

pub(super) fn extend(call: &mut Call, args: &Extend) -> anyhow::Result<()> {
    let wish = api::Extend {
        seconds: args.seconds,
    };
    let path = sandbox_path(&args.id, &["extend"]);
    let asking = call.client.post(&path, &wish);
    let extended: api::Sandbox = call.wait(asking)?;
    if call.output.is_json() {
        return print_done(call, &extended, "");
    }
    let (id, until) = (&extended.id, &extended.expires_at);
    let line = format!("{id} expires at {until}, {}", relative(until));
    Ok(call.output.line(line)?)
}
