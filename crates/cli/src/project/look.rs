//! Prints files, directories and differences of a project.

use clap::Args;
use elevo_api as api;
use reqwest::{Method, RequestBuilder};
use serde_json::json;

use super::at::{resolve, resolve_some};
use super::project_path;
use crate::errors::Exit;
use crate::format;
use crate::merging::letter;
use crate::output::{ADDED, PLACE, REMOVED};
use crate::service::Call;
use crate::{patch, shapes};

/// Print a file of a project, from the current or an earlier state.
#[derive(Debug, Args)]
#[command(after_help = "\
For a symbolic link, prints its target. With --json also the kind and the mode.

Examples:
  elevo project cat site index.html
  elevo project cat site index.html --at 3      after step 3")]
pub(super) struct Cat {
    /// The project, by name or id
    name: String,

    /// The file
    path: String,

    /// A state of the project; the newest by default
    #[arg(long, value_name = "SNAPSHOT")]
    at: Option<String>,
}

/// Returns the content of a file, and the headers that describe it.
fn file(
    call: &Call,
    name: &str,
    path: &str,
    at: Option<&String>,
) -> anyhow::Result<(reqwest::header::HeaderMap, bytes::Bytes)> {
    let request = call
        .client
        .request(Method::GET, &project_path(name, &["file"]));
    let request = request.query(&[("path", path)]);
    let request = at_snapshot(request, at);
    let answer = call.watch("reading", async {
        let answer = call.client.send(request).await?;
        let headers = answer.headers().clone();
        let body = call.client.body(answer).await?;
        Ok::<_, crate::client::ClientError>((headers, body))
    });
    Ok(answer?)
}

fn at_snapshot(request: RequestBuilder, at: Option<&String>) -> RequestBuilder {
    match at {
        Some(at) => request.query(&[("snapshot", at)]),
        None => request,
    }
}

/// Returns the content of a file as text, with invalid UTF-8 replaced.
pub(super) fn text_of(
    call: &Call,
    name: &str,
    path: &str,
    at: Option<&String>,
) -> anyhow::Result<String> {
    let (_, bytes) = file(call, name, path, at)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

pub(super) fn cat(call: &mut Call, args: &Cat) -> anyhow::Result<()> {
    let at = resolve_some(call, &args.name, args.at.as_ref())?;
    let (headers, bytes) = file(call, &args.name, &args.path, at.as_ref())?;
    if !call.output.is_json() {
        return Ok(call.output.bytes(&bytes)?);
    }
    let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let mut shape = json!({
        "path": args.path,
        "type": header("x-elevo-type"),
        "mode": header("x-elevo-mode"),
        "id": header("x-elevo-id").filter(|id| !id.is_empty()),
    });
    match std::str::from_utf8(&bytes) {
        Ok(text) => shape["text"] = text.into(),
        Err(_) => shape["base64"] = shapes::base64(&bytes).into(),
    }
    Ok(call.output.value(&shape)?)
}

/// List a directory of a project, from the current or an earlier state.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  elevo project tree site
  elevo project tree site -l docs
  elevo project ls-files site -r --at 3         all files after step 3")]
pub(super) struct Tree {
    /// The project, by name or id
    name: String,

    /// The directory; the root of the project by default
    path: Option<String>,

    /// A state of the project; the newest by default
    #[arg(long, value_name = "SNAPSHOT")]
    at: Option<String>,

    /// Show permissions and sizes
    #[arg(short, long)]
    long: bool,

    /// List subdirectories too
    #[arg(short, long)]
    recursive: bool,
}

/// Entries per request.
const PAGE: u32 = 1000;

pub(super) fn tree(call: &mut Call, args: &Tree) -> anyhow::Result<()> {
    // Resolved once, so that all pages are of one state even if the head moves.
    let at = args.at.as_deref().unwrap_or("head");
    let at = resolve(call, &args.name, at)?;
    let start = args.path.clone().unwrap_or_default();
    let mut open = vec![Open::Page(start, None)];
    while let Some(next) = open.pop() {
        match next {
            Open::Entry(entry) => {
                print_entry(call, &entry, args.long)?;
                if args.recursive && entry.version.kind == "directory" {
                    open.push(Open::Page(entry.path, None));
                }
            }
            Open::Page(path, after) => {
                let page = page(call, &args.name, &at, &path, after.as_deref())?;
                open.extend(page.next.map(|next| Open::Page(path, Some(next))));
                open.extend(page.items.into_iter().rev().map(Open::Entry));
            }
        }
    }
    Ok(())
}

/// Work that is still to do; at most one page of entries per directory level.
enum Open {
    Entry(api::TreeEntry),
    /// A directory, from the beginning or after a cursor.
    Page(String, Option<String>),
}

fn page(
    call: &Call,
    name: &str,
    at: &str,
    path: &str,
    after: Option<&str>,
) -> anyhow::Result<api::TreePage> {
    let request = call
        .client
        .request(Method::GET, &project_path(name, &["tree"]));
    let request = request.query(&[("snapshot", at), ("path", path)]);
    let request = request.query(&[("limit", PAGE)]);
    let request = match after {
        Some(after) => request.query(&[("after", after)]),
        None => request,
    };
    Ok(call.wait(call.client.json(request))?)
}

fn print_entry(call: &mut Call, entry: &api::TreeEntry, long: bool) -> anyhow::Result<()> {
    if call.output.is_json() {
        return Ok(call.output.value(entry)?);
    }
    let version = &entry.version;
    let mut path = format::first_line(&entry.path).into_owned();
    let style = match version.kind.as_str() {
        "directory" => {
            path.push('/');
            PLACE
        }
        "symlink" => ADDED,
        _ => anstyle::Style::new(),
    };
    let path = call.output.styled(style, path);
    if !long {
        return Ok(call.output.line(path)?);
    }
    let (kind, mode) = (&version.kind, &version.mode);
    let size = version.size.map(format::bytes).unwrap_or_default();
    let about = format!("{kind:<9}  {mode:>4}  {size:>12}  ");
    Ok(call.output.line([about.as_bytes(), &path].concat())?)
}

/// Show the changes between two states of a project.
#[derive(Debug, Args)]
#[command(after_help = "\
With two states, from the first to the second; with one, from it to the newest;
without any, the changes of the newest step. A letter stands for each change:
A added, D removed, M changed.

Examples:
  elevo project diff site
  elevo project diff site 3                   since step 3
  elevo project diff site --stat 3 7          lines
  elevo project diff site -p 3 7 | git apply  as a patch")]
pub(super) struct Diff {
    /// The project, by name or id
    name: String,

    /// State of the project to compare from
    from: Option<String>,

    /// State of the project to compare to
    to: Option<String>,

    /// Show the lines added and removed in each file, and the totals
    #[arg(long)]
    stat: bool,

    /// Print a patch for `git apply`
    #[arg(short, long, conflicts_with = "stat")]
    patch: bool,

    /// Maximum number of changes to list
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    limit: u32,

    /// Exit with code 7 if there are differences, and 0 if not
    #[arg(long)]
    exit_code: bool,
}

pub(super) fn diff(call: &mut Call, args: &Diff) -> anyhow::Result<Exit> {
    let mut query = vec![("limit", args.limit.to_string())];
    let from = resolve_some(call, &args.name, args.from.as_ref())?;
    let to = resolve_some(call, &args.name, args.to.as_ref())?;
    query.extend(from.map(|from| ("from", from)));
    query.extend(to.map(|to| ("to", to)));
    let format = match (args.stat, args.patch) {
        (true, _) => "stat",
        (_, true) => "patch",
        _ => "json",
    };
    query.push(("format", format.into()));
    let path = project_path(&args.name, &["diff"]);
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

fn print_patch(call: &mut Call, request: RequestBuilder) -> anyhow::Result<bool> {
    let found = call.watch("comparing", async {
        let answer = call.client.send(request).await?;
        call.client.body(answer).await
    })?;
    match call.output.is_json() {
        false => patch::print(&mut call.output, &found)?,
        true => {
            let (text, exact) = shapes::text(&found);
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
        let (letter, style) = letter(word(change.kind));
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
        let (letter, style) = letter(word(change.kind));
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
