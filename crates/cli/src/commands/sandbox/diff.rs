use clap::Args;
use elevo_api as api;
use reqwest::Method;
use serde_json::json;

use crate::client::Call;
use crate::client::names::{Noun, find};
use crate::client::paths::sandbox_path;
use crate::output::{ADDED, IDENTITY, REMOVED, format, json};

/// Show the changes in the workspace of a sandbox since its last snapshot.
#[derive(Debug, Args)]
#[command(after_help = "\
A letter stands for each change: A added, D removed, M changed.

Examples:
  elevo sandbox diff \"$id\"
  elevo sandbox diff -p \"$id\" | git apply
  elevo sandbox diff \"$id\" --from 1a2b…")]
pub(super) struct Diff {
    /// The sandbox, by id, name or unique prefix of its id
    #[arg(value_name = "SANDBOX")]
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

pub(super) fn run(call: &mut Call, args: &Diff) -> anyhow::Result<()> {
    let id = find(call, Noun::Sandbox, &args.id)?;
    let mut query = vec![("limit", args.limit.to_string())];
    query.extend(args.from.clone().map(|from| ("from", from)));
    if args.patch {
        query.push(("format", "patch".into()));
    }
    let request = call
        .client
        .request(Method::GET, &sandbox_path(&id, &["diff"]));
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
    let (patch, patch_base64) = json::text(patch);
    let mut shape = json!({ "patch": patch });
    if let Some(exact) = patch_base64 {
        shape["patch_base64"] = exact.into();
    }
    Ok(call.output.value(&shape)?)
}
