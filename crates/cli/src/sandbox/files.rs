//! Forks, snapshots and differences of a sandbox.

use clap::Args;
use elevo_api as api;
use reqwest::Method;
use serde_json::json;

use super::{create, life, print_done};
use crate::client::sandbox_path;
use crate::errors::Exit;
use crate::format;
use crate::output::{ADDED, IDENTITY, REMOVED};
use crate::service::Call;
use crate::shapes;

/// Create sandboxes with the current files of another, and print their ids.
#[derive(Debug, Args)]
#[command(after_help = "\
A fork copies files, not processes. All forks have the files of the same moment.
The ids of the created forks are printed even if others failed.

Examples:
  elevo sandbox fork \"$id\"
  elevo sandbox fork \"$id\" -n 10 --name try")]
pub(super) struct Fork {
    /// The sandbox
    id: String,

    /// Number of forks; at most 50
    #[arg(short = 'n', long, value_name = "N", default_value_t = 1)]
    count: u32,

    /// Name of the forks; a number is appended if there are several
    #[arg(long)]
    name: Option<String>,

    /// Seconds until they expire; by default as for the origin
    #[arg(long, value_name = "SECONDS")]
    timeout: Option<u32>,
}

pub(super) fn fork(call: &mut Call, args: Fork) -> anyhow::Result<Exit> {
    let wish = api::Fork {
        count: Some(args.count),
        name: args.name,
        timeout_seconds: args.timeout,
    };
    let path = sandbox_path(&args.id, &["fork"]);
    let asking = call.client.create(&path, &wish);
    let forked: api::Forked = call.watch("forking", asking)?;
    create::print_ids(call, &forked.succeeded)?;
    let mut exit = None;
    for failed in forked.failed {
        let failed = life::report(call, failed)?;
        exit.get_or_insert(failed);
    }
    Ok(exit.unwrap_or(Exit::Done))
}

/// Save the workspace of a sandbox as a snapshot, and print its id.
#[derive(Debug, Args)]
#[command(after_help = "\
The snapshot is durable when the command returns. If nothing has changed, the id
is that of the previous snapshot.

Examples:
  elevo sandbox snapshot \"$id\" -m \"it works\"
  elevo sandbox create python:3.11 --snapshot \"$(elevo sandbox snapshot \"$id\")\"")]
pub(super) struct Snapshot {
    /// The sandbox
    id: String,

    /// Message that explains the snapshot
    #[arg(
        short,
        long,
        value_name = "TEXT",
        default_value = "",
        hide_default_value = true
    )]
    message: String,
}

pub(super) fn snapshot(call: &mut Call, args: Snapshot) -> anyhow::Result<()> {
    let wish = api::TakeSnapshot {
        message: args.message,
    };
    let path = sandbox_path(&args.id, &["snapshot"]);
    let asking = call.client.create(&path, &wish);
    let taken: api::SnapshotTaken = call.watch("reading", asking)?;
    if call.output.is_json() {
        call.output.value(&taken)?;
        return Ok(());
    }
    if !taken.is_new {
        call.note("nothing has changed since the previous snapshot");
    }
    if !taken.not_kept.is_empty() {
        let not_kept = taken.not_kept.join(", ");
        call.note(&format!("not kept: {}", format::first_line(&not_kept)));
    }
    let id = call.output.styled(IDENTITY, &taken.snapshot_id);
    Ok(call.output.line(id)?)
}

/// Restore the workspace of a sandbox to a snapshot.
#[derive(Debug, Args)]
#[command(after_help = "\
Changes since the last snapshot are lost.

Examples:
  elevo sandbox restore \"$id\" 1a2b…")]
pub(super) struct Restore {
    /// The sandbox
    id: String,

    /// Id of the snapshot
    snapshot: String,
}

pub(super) fn restore(call: &mut Call, args: Restore) -> anyhow::Result<()> {
    let wish = api::Restore {
        snapshot_id: args.snapshot,
    };
    let path = sandbox_path(&args.id, &["restore"]);
    let asking = call.client.post(&path, &wish);
    let restored = call.watch("restoring", asking)?;
    print_done(call, &restored, "Restored")
}

/// Show the changes in the workspace of a sandbox since its last snapshot.
#[derive(Debug, Args)]
#[command(after_help = "\
A letter stands for each change: A added, D removed, M changed.

Examples:
  elevo sandbox diff \"$id\"
  elevo sandbox diff -p \"$id\" | git apply
  elevo sandbox diff \"$id\" --from 1a2b…")]
pub(super) struct Diff {
    /// The sandbox
    id: String,

    /// Print a patch for `git apply`
    #[arg(short, long)]
    patch: bool,

    /// Snapshot to compare with instead
    #[arg(long, value_name = "ID")]
    from: Option<String>,

    /// Maximum number of changes to list
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    limit: u32,
}

pub(super) fn diff(call: &mut Call, args: &Diff) -> anyhow::Result<()> {
    let mut query = vec![("limit", args.limit.to_string())];
    query.extend(args.from.clone().map(|from| ("from", from)));
    if args.patch {
        query.push(("format", "patch".into()));
    }
    let request = call
        .client
        .request(Method::GET, &sandbox_path(&args.id, &["diff"]));
    let request = request.query(&query);
    if args.patch {
        let patch = call.watch("comparing", async {
            let answer = call.client.send(request).await?;
            call.client.body(answer).await
        })?;
        return print_patch(call, &patch);
    }
    let diff: api::Diff = call.watch("comparing", call.client.json(request))?;
    if call.output.is_json() {
        call.output.value(&diff)?;
        return Ok(());
    }
    for change in &diff.changes {
        let (style, letter) = match change.kind {
            api::ChangeKind::Added => (ADDED, "A"),
            api::ChangeKind::Removed => (REMOVED, "D"),
            api::ChangeKind::Changed => (IDENTITY, "M"),
        };
        let letter = call.output.styled(style, letter);
        let place = format::first_line(&change.path);
        call.output
            .line([&letter, b"\t".as_slice(), place.as_bytes()].concat())?;
    }
    if diff.truncated {
        let all = diff.totals.added + diff.totals.removed + diff.totals.changed;
        call.note(&format!("there are {all} changes; --limit N lists more"));
    }
    if diff.changes.is_empty() {
        call.note("nothing was changed");
    }
    Ok(())
}

fn print_patch(call: &mut Call, patch: &[u8]) -> anyhow::Result<()> {
    if !call.output.is_json() {
        return Ok(call.output.bytes(patch)?);
    }
    let (patch, patch_base64) = shapes::text(patch);
    let mut shape = json!({ "patch": patch });
    if let Some(exact) = patch_base64 {
        shape["patch_base64"] = exact.into();
    }
    Ok(call.output.value(&shape)?)
}
