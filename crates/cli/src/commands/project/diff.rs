use clap::Args;
use elevo_api as api;
use reqwest::{Method, RequestBuilder};
use serde_json::json;

use crate::client::Call;
use crate::client::merge::change_letter;
use crate::client::names::{Noun, find};
use crate::client::paths::project_path;
use crate::client::project_state::resolve;
use crate::errors::Exit;
use crate::output::{ADDED, REMOVED, format, json, patch};

/// Show the changes between two states of a project.
#[derive(Debug, Args)]
#[command(after_help = "\
With A..B or A B, from A to B; with A, from it to the newest state; without any,
the changes of the newest step. A letter stands for each change: A added,
D removed, M changed.

Examples:
  elevo project diff site
  elevo project diff site 3                   since step 3
  elevo project diff site --stat 3..7         lines
  elevo project diff site -p 3..7 | git apply as a patch")]
pub(super) struct Diff {
    /// The project, by name or id
    name: String,

    /// State of the project to compare from, or both states
    #[arg(value_name = "A[..B]")]
    from: Option<String>,

    /// State of the project to compare to
    #[arg(value_name = "B")]
    to: Option<String>,

    /// Show the lines added and removed in each file, and the totals
    #[arg(long)]
    stat: bool,

    /// Print a patch for `git apply`
    #[arg(short, long, conflicts_with = "stat")]
    patch: bool,

    /// Maximum number of changes to list
    #[arg(short = 'n', long, value_name = "N", default_value_t = 10_000)]
    limit: u32,

    /// Exit with code 7 if there are differences, and 0 if not
    #[arg(long)]
    exit_code: bool,
}

pub(super) fn run(call: &mut Call, args: &Diff) -> anyhow::Result<Exit> {
    let mut query = vec![("limit", args.limit.to_string())];
    let project = find(call, Noun::Project, &args.name)?;
    for (name, state) in ["from", "to"].into_iter().zip(states(args)) {
        let state = state.map(|state| resolve(call, &project, state));
        query.extend(state.transpose()?.map(|state| (name, state)));
    }
    let format = match (args.stat, args.patch) {
        (true, _) => "stat",
        (_, true) => "patch",
        _ => "json",
    };
    query.push(("format", format.into()));
    let path = project_path(&project, &["diff"]);
    let request = call.client.request(Method::GET, &path).query(&query);
    let differ = match format {
        "patch" => print_patch(call, request)?,
        "stat" => print_stat(call, request)?,
        _ => print_names(call, request)?,
    };
    if !differ {
        call.note("nothing differs");
    }
    Ok(match differ && args.exit_code {
        true => Exit::Differences,
        false => Exit::Done,
    })
}

/// The states to compare. A side of `..` that is left out is the newest state.
fn states(args: &Diff) -> [Option<&str>; 2] {
    let (from, to) = (args.from.as_deref(), args.to.as_deref());
    let split = from.filter(|_| to.is_none());
    match split.and_then(|both| both.split_once("..")) {
        None => [from, to],
        Some((from, to)) => {
            let or_head = |text| {
                Some(text)
                    .filter(|it: &&str| !it.is_empty())
                    .or(Some("head"))
            };
            [or_head(from), or_head(to)]
        }
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
