//! Requests and prints the differences between two states on a server.

use clap::Args;
use elevo_api as api;
use elevo_api::DiffFormat;
use reqwest::{Method, RequestBuilder};
use serde_json::json;

use crate::client::call::Call;
use crate::client::merge::change_letter;
use crate::output::{ADDED, REMOVED, format, json, patch};

/// Options of the diff of a workspace on a server.
#[derive(Clone, Debug, Args)]
pub(crate) struct WorkspaceDiffOptions {
    /// Show the lines added and removed in each file, and the totals
    #[arg(long)]
    pub(crate) stat: bool,

    /// Print a patch for `git apply`
    #[arg(short, long, conflicts_with = "stat")]
    pub(crate) patch: bool,

    /// Snapshot to compare with, by id or name; `start` or `last`
    #[arg(long, value_name = "SNAPSHOT")]
    pub(crate) from: Option<String>,

    /// Maximum number of changes to list
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    pub(crate) limit: u32,
}

impl WorkspaceDiffOptions {
    /// Prints the changes of the workspace with this path of the API. Returns
    /// whether there are any.
    pub(crate) fn print(&self, call: &mut Call, path: &[&str]) -> anyhow::Result<bool> {
        let mut query = vec![("limit", self.limit.to_string())];
        query.extend(self.from.clone().map(|from| ("from", from)));
        let differ = print_diff(call, path, &query, format(self.stat, self.patch))?;
        if !differ {
            call.note("nothing was changed");
        }
        Ok(differ)
    }
}

/// Returns the form that two options choose.
pub(crate) const fn format(stat: bool, patch: bool) -> DiffFormat {
    match (stat, patch) {
        (true, _) => DiffFormat::Stat,
        (_, true) => DiffFormat::Patch,
        _ => DiffFormat::Json,
    }
}

/// Requests and prints a diff. Returns whether there are differences.
pub(crate) fn print_diff(
    call: &mut Call,
    path: &[&str],
    query: &[(&str, String)],
    format: DiffFormat,
) -> anyhow::Result<bool> {
    let request = call.client.request(Method::GET, path).query(query);
    let request = request.query(&[("format", format)]);
    match format {
        DiffFormat::Patch => print_patch(call, request),
        DiffFormat::Stat => print_stat(call, request),
        DiffFormat::Json => print_names(call, request),
    }
}

fn print_patch(call: &mut Call, request: RequestBuilder) -> anyhow::Result<bool> {
    let found = call.watch("comparing", async {
        let answer = call.client.send(request).await?;
        call.client.body(answer).await
    })?;
    match call.output.is_json() {
        false => patch::print_patch(&mut call.output, &found)?,
        true => {
            let (text, exact) = json::text(&found);
            let mut shape = json!({ "patch": text });
            if let Some(exact) = exact {
                shape["patch_base64"] = exact.into();
            }
            call.output.value(&shape)?;
        }
    }
    Ok(!found.is_empty())
}

fn word(kind: api::ChangeKind) -> &'static str {
    match kind {
        api::ChangeKind::Added => "added",
        api::ChangeKind::Removed => "removed",
        api::ChangeKind::Changed => "modified",
    }
}

fn print_names(call: &mut Call, request: RequestBuilder) -> anyhow::Result<bool> {
    let diff: api::Diff = call.watch("comparing", call.client.json(request))?;
    if call.output.is_json() {
        call.output.value(&diff)?;
        return Ok(!diff.changes.is_empty());
    }
    for change in &diff.changes {
        let (letter, style) = change_letter(word(change.kind));
        let letter = call.output.styled(style, letter);
        let path = format::first_line(&change.path);
        call.output
            .line([&letter, b"\t".as_slice(), path.as_bytes()].concat())?;
    }
    if diff.truncated {
        let all = diff.totals.added + diff.totals.removed + diff.totals.changed;
        call.note(&format!("there are {all} changes; --limit N lists more"));
    }
    Ok(!diff.changes.is_empty())
}

fn print_stat(call: &mut Call, request: RequestBuilder) -> anyhow::Result<bool> {
    let stat: api::DiffStat = call.watch("comparing", call.client.json(request))?;
    if call.output.is_json() {
        call.output.value(&stat)?;
        return Ok(stat.files > 0);
    }
    for change in &stat.changes {
        let (letter, style) = change_letter(word(change.kind));
        let letter = call.output.styled(style, letter);
        let count = |sign, count: Option<u64>| match count {
            Some(0) => String::new(),
            Some(count) => format!("{sign}{count}"),
            None => "binary".into(),
        };
        let added = format!("{:>7}", count('+', change.added));
        let removed = match change.added {
            Some(_) => format!("{:>7}", count('-', change.removed)),
            None => " ".repeat(7),
        };
        let (added, removed) = (
            call.output.styled(ADDED, added),
            call.output.styled(REMOVED, removed),
        );
        let path = format::first_line(&change.path);
        let line = [
            &letter[..],
            b" ",
            &added,
            b" ",
            &removed,
            b"  ",
            path.as_bytes(),
        ]
        .concat();
        call.output.line(line)?;
    }
    if stat.truncated {
        call.note("there are more changes; --limit N lists more");
    }
    let paths = format::count(stat.files, "path", "paths");
    let (added, removed) = (stat.added, stat.removed);
    call.output
        .line(format!("{paths}, +{added} -{removed} lines"))?;
    Ok(stat.files > 0)
}
