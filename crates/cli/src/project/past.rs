//! The history of a project, of its paths and of their lines.

use clap::Args;
use elevo_api as api;
use reqwest::Method;

use super::at::{resolve, resolve_some, steps};
use super::{look, project_path};
use crate::format::{self, first_line, short_text};
use crate::merging::letter;
use crate::output::{FAINT, IDENTITY, STRONG};
use crate::paint::Line;
use crate::service::{Call, relative};

/// List the steps of a project, newest first.
#[derive(Debug, Args)]
#[command(after_help = "\
A step is a merge, a patch, an import, a revert, a restore or a decision on a
review. Its number and the first digits of its snapshot name it for other
commands. A change that was held keeps its author; the decider is shown
separately.

Examples:
  elevo project log site
  elevo project log site -n 5 --stat
  elevo project log site --json | jq -r 'select(.kind == \"merge\") | .agent'")]
pub(super) struct Log {
    /// The project, by name or id
    name: String,

    /// Maximum number of steps
    #[arg(short = 'n', long, value_name = "N")]
    max_count: Option<u64>,

    /// Show the paths that each step changed
    #[arg(long)]
    stat: bool,
}

/// Steps per request.
const PAGE: u32 = 100;

pub(super) fn log(call: &mut Call, args: &Log) -> anyhow::Result<()> {
    let mut left = args.max_count.unwrap_or(u64::MAX);
    let (mut before, mut any) = (None, false);
    while left > 0 {
        let limit = left.min(u64::from(PAGE)) as u32;
        let page = call.wait(steps(&call.client, &args.name, before, limit))?;
        for step in &page.items {
            any = true;
            print_step(call, step)?;
            if args.stat {
                print_changes(call, &args.name, step)?;
            }
        }
        left = left.saturating_sub(page.items.len() as u64);
        match page.next {
            Some(next) => before = Some(next),
            None => break,
        }
    }
    if !any && args.max_count != Some(0) {
        let name = first_line(&args.name);
        call.note(&format!(
            "there are no steps yet; `elevo project import {name}` and `elevo ws merge` add some"
        ));
    }
    Ok(())
}

fn print_step(call: &mut Call, step: &api::LogEntry) -> anyhow::Result<()> {
    if call.output.is_json() {
        return Ok(call.output.value(step)?);
    }
    let number = call.output.styled(STRONG, format!("{:>5}", step.sequence));
    let id = call.output.styled(IDENTITY, short_text(&step.snapshot));
    let by = step.agent.as_deref().map(first_line).unwrap_or_default();
    let kind = first_line(&step.kind).into_owned();
    let paths = format::count(step.changed, "path", "paths");
    let when = relative(&step.created_at);
    let mut about = format!("{kind}, {paths}, {when}");
    if !by.is_empty() {
        about += &format!(", {by}");
    }
    if let Some(decided) = &step.decided {
        about += &format!(", resolved by {}", first_line(&decided.name));
    }
    if step.dropped_at.is_some() {
        about += ", content dropped";
    }
    let about = call.output.styled(FAINT, format!("({about})"));
    let message = first_line(&step.message).into_owned();
    let mut line = [&number[..], b"  ", &id, b"  "].concat();
    if !message.is_empty() {
        line.extend(message.as_bytes());
        line.push(b' ');
    }
    line.extend(about);
    Ok(call.output.line(line)?)
}

fn print_changes(call: &mut Call, name: &str, step: &api::LogEntry) -> anyhow::Result<()> {
    let sequence = step.sequence.to_string();
    let path = project_path(name, &["log", &sequence]);
    let mut after = None::<String>;
    loop {
        let request = call.client.request(Method::GET, &path);
        let request = match &after {
            Some(after) => request.query(&[("after", after)]),
            None => request,
        };
        let page: api::VersionPage = call.wait(call.client.json(request))?;
        for version in &page.items {
            match call.output.is_json() {
                true => call.output.value(version)?,
                false => {
                    let line = change_line(call, version);
                    call.output.line([b"         ", &line[..]].concat())?;
                }
            }
        }
        match page.next {
            Some(next) => after = Some(next),
            None => return Ok(()),
        }
    }
}

/// Formats a change: a letter, the path, and the path it was moved from.
fn change_line(call: &Call, version: &api::FileVersion) -> Vec<u8> {
    let (letter, style) = letter(&version.kind);
    let mut text = String::new();
    if let Some(from) = &version.from {
        text += &format!("{} -> ", first_line(from));
    }
    text += &first_line(&version.path);
    if version.entries > 1 {
        text += &format!(" ({})", format::count(version.entries, "entry", "entries"));
    }
    let letter = call.output.styled(style, letter);
    [&letter[..], b"  ", text.as_bytes()].concat()
}

/// List the changes of a file or directory, newest first.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  elevo project history site index.html
  elevo project history site docs -n 20
  elevo project history site index.html --json | jq -r .agent | sort | uniq -c")]
pub(super) struct History {
    /// The project, by name or id
    name: String,

    /// The file or directory
    path: String,

    /// Maximum number of changes
    #[arg(short = 'n', long, value_name = "N")]
    max_count: Option<u64>,
}

pub(super) fn history(call: &mut Call, args: &History) -> anyhow::Result<()> {
    let mut left = args.max_count.unwrap_or(u64::MAX);
    let (mut before, mut any) = (None::<String>, false);
    let path = project_path(&args.name, &["history"]);
    while left > 0 {
        let limit = left.min(u64::from(PAGE));
        let request = call.client.request(Method::GET, &path);
        let request = request.query(&[("path", &args.path), ("limit", &limit.to_string())]);
        let request = match &before {
            Some(before) => request.query(&[("before", before)]),
            None => request,
        };
        let page: api::VersionPage = call.wait(call.client.json(request))?;
        for version in &page.items {
            any = true;
            print_version(call, version)?;
        }
        left = left.saturating_sub(page.items.len() as u64);
        match page.next {
            Some(next) => before = Some(next),
            None => break,
        }
    }
    if !any && args.max_count != Some(0) {
        let path = first_line(&args.path);
        call.note(&format!("no step has changed `{path}`"));
    }
    Ok(())
}

fn print_version(call: &mut Call, version: &api::FileVersion) -> anyhow::Result<()> {
    if call.output.is_json() {
        return Ok(call.output.value(version)?);
    }
    let number = format!("{:>5}", version.sequence);
    let number = call.output.styled(STRONG, number);
    let id = call.output.styled(IDENTITY, short_text(&version.snapshot));
    let change = change_line(call, version);
    let mut about = relative(&version.created_at);
    if let Some(agent) = &version.agent {
        about += &format!(", {}", first_line(agent));
    }
    let about = call.output.styled(FAINT, format!("({about})"));
    let line = [&number[..], b"  ", &id, b"  ", &change, b" ", &about].concat();
    Ok(call.output.line(line)?)
}

/// Show which step and agent wrote each line of a file.
#[derive(Debug, Args)]
#[command(after_help = "\
Before each line: the step that added it, the agent and the time.

Examples:
  elevo project blame site index.html
  elevo project blame site index.html --at 3      as it was after step 3
  elevo project blame site index.html --json | jq '.lines[].agent'")]
pub(super) struct Blame {
    /// The project, by name or id
    name: String,

    /// The file
    path: String,

    /// State of the project; the newest by default
    #[arg(long, value_name = "SNAPSHOT")]
    at: Option<String>,
}

pub(super) fn blame(call: &mut Call, args: &Blame) -> anyhow::Result<()> {
    let at = match resolve_some(call, &args.name, args.at.as_ref())? {
        Some(at) => at,
        None => resolve(call, &args.name, "head")?,
    };
    let path = project_path(&args.name, &["blame"]);
    let request = call.client.request(Method::GET, &path);
    let request = request.query(&[("path", &args.path), ("snapshot", &at)]);
    let blame: api::Blame = call.watch("looking", call.client.json(request))?;
    if call.output.is_json() {
        return Ok(call.output.value(&blame)?);
    }
    let text = look::text_of(call, &args.name, &args.path, Some(&blame.snapshot))?;
    let lines: Vec<&str> = text.lines().collect();
    let who = |run: &api::BlamedLines| first_line(run.agent.as_deref().unwrap_or("-")).into_owned();
    let widest = blame.lines.iter().map(|run| who(run).chars().count()).max();
    let (widest, digits) = (widest.unwrap_or(0), lines.len().to_string().len());
    for run in &blame.lines {
        let step = run.sequence.map_or("-".into(), |step| step.to_string());
        let when = run.created_at.as_deref().map(relative).unwrap_or_default();
        let about = format!("{step:>5}  {:<widest$}  {when:<15}", who(run));
        for number in run.start..run.start.saturating_add(run.count) {
            let line = lines.get(number.saturating_sub(1) as usize).copied();
            let Some(line) = line else { break };
            let about = call
                .output
                .styled(FAINT, format!("{about}  {number:>digits$} │ "));
            let mut painted = Line::default();
            painted.push(anstyle::Style::new(), line);
            let line = painted.bytes(&call.output);
            call.output.line([&about[..], &line].concat())?;
        }
    }
    Ok(())
}
