use clap::Args;
use elevo_api as api;

use crate::client::Call;
use crate::client::names::{AgentNames, Noun, find};
use crate::client::pages::{page, pages};
use crate::client::paths::project_path;
use crate::local::tree_path::tree_path;
use crate::output::format::{self, first_line, short_text};
use crate::output::project::change_line;
use crate::output::relative_time::relative;
use crate::output::{FAINT, IDENTITY, STRONG};

/// List the steps of a project, or the changes of a path, newest first.
#[derive(Debug, Args)]
#[command(after_help = "\
A step is a merge, a patch, an import, a revert, a restore or a decision on a
review. Its number and the first digits of its snapshot name it for other
commands. A change that was held keeps its author; the decider is shown
separately. With a path, one line for each change at or below it.

Examples:
  elevo project log site
  elevo project log site -n 5 --stat
  elevo project log site -- docs
  elevo project log site --json | jq -r 'select(.kind == \"merge\") | .agent'")]
pub(super) struct Log {
    /// The project, by name or id
    name: String,

    /// Maximum number of steps
    #[arg(short = 'n', long, value_name = "N")]
    limit: Option<u64>,

    /// Show the paths that each step changed
    #[arg(long, conflicts_with = "path")]
    stat: bool,

    /// Show ids of agents instead of names
    #[arg(long)]
    ids: bool,

    /// Only the changes of this file, or in this directory
    #[arg(last = true)]
    path: Option<String>,
}

/// Steps per request.
const PAGE: u32 = 100;

pub(super) fn run(call: &mut Call, args: &Log) -> anyhow::Result<()> {
    let project = find(call, Noun::Project, &args.name)?;
    let agents = match args.ids || call.output.is_json() {
        true => AgentNames::default(),
        false => AgentNames::request(call),
    };
    match &args.path {
        Some(path) => {
            let path = tree_path(path.as_ref())?.to_string();
            print_history(call, &project, &path, args.limit, &agents)
        }
        None => print_steps(call, &project, args, &agents),
    }
}

fn print_steps(
    call: &mut Call,
    project: &str,
    args: &Log,
    agents: &AgentNames,
) -> anyhow::Result<()> {
    let mut left = args.limit.unwrap_or(u64::MAX);
    let (mut cursor, mut any) = (None::<String>, false);
    let path = project_path(project, &["steps"]);
    while left > 0 {
        let limit = left.min(u64::from(PAGE)) as u32;
        let page = page::<api::Step>(&call.client, &path, &[], cursor.as_deref(), limit);
        let page = call.wait(page)?;
        for step in &page.items {
            any = true;
            print_step(call, step, agents)?;
            if args.stat {
                print_changes(call, project, step)?;
            }
        }
        left = left.saturating_sub(page.items.len() as u64);
        cursor = page.next;
        if cursor.is_none() {
            break;
        }
    }
    if !any && args.limit != Some(0) {
        let name = first_line(&args.name);
        call.note(&format!(
            "there are no steps yet; `elevo project import {name}` and `elevo ws merge` add some"
        ));
    }
    Ok(())
}

fn print_step(call: &mut Call, step: &api::Step, agents: &AgentNames) -> anyhow::Result<()> {
    if call.output.is_json() {
        return Ok(call.output.value(step)?);
    }
    let number = call.output.styled(STRONG, format!("{:>5}", step.number));
    let id = call.output.styled(IDENTITY, short_text(&step.snapshot));
    let by = step.agent.as_deref().map(|agent| agents.of(agent));
    let kind = first_line(&step.kind).into_owned();
    let paths = format::count(step.changed, "path", "paths");
    let when = relative(&step.created_at);
    let mut about = format!("{kind}, {paths}, {when}");
    if let Some(by) = by {
        about += &format!(", {}", first_line(&by));
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

fn print_changes(call: &mut Call, name: &str, step: &api::Step) -> anyhow::Result<()> {
    let number = step.number.to_string();
    let path = project_path(name, &["steps", &number, "changes"]);
    let take = |call: &mut Call, changes: Vec<api::FileVersion>| {
        for change in &changes {
            match call.output.is_json() {
                true => call.output.value(change)?,
                false => {
                    let line = change_line(call, change);
                    call.output.line([b"         ", &line[..]].concat())?;
                }
            }
        }
        Ok(())
    };
    pages(call, &path, &[], take)?;
    Ok(())
}

/// Prints the changes of a path, newest first.
fn print_history(
    call: &mut Call,
    project: &str,
    path: &str,
    limit: Option<u64>,
    agents: &AgentNames,
) -> anyhow::Result<()> {
    let mut left = limit.unwrap_or(u64::MAX);
    let (mut cursor, mut any) = (None::<String>, false);
    let at = project_path(project, &["history"]);
    let query = [("path", path.to_owned())];
    while left > 0 {
        let limit = left.min(u64::from(PAGE)) as u32;
        let page = page::<api::FileVersion>(&call.client, &at, &query, cursor.as_deref(), limit);
        let page = call.wait(page)?;
        for version in &page.items {
            any = true;
            print_version(call, version, agents)?;
            if is_below(&version.path, path) {
                print_others(call, project, path, version, agents)?;
            }
        }
        left = left.saturating_sub(page.items.len() as u64);
        cursor = page.next;
        if cursor.is_none() {
            break;
        }
    }
    if !any && limit != Some(0) {
        let path = first_line(path);
        call.note(&format!("no step has changed `{path}`"));
    }
    Ok(())
}

fn is_below(path: &str, directory: &str) -> bool {
    match directory {
        "" => !path.is_empty(),
        directory => path
            .strip_prefix(directory)
            .is_some_and(|rest| rest.starts_with('/')),
    }
}

/// Prints the other changes of a step below a directory, because the history
/// lists only the first of them.
fn print_others(
    call: &mut Call,
    project: &str,
    directory: &str,
    first: &api::FileVersion,
    agents: &AgentNames,
) -> anyhow::Result<()> {
    let step = first.step.to_string();
    let at = project_path(project, &["steps", &step, "changes"]);
    let query = [("path", directory.to_owned())];
    let take = |call: &mut Call, changes: Vec<api::FileVersion>| {
        for change in changes.iter().filter(|it| it.path != first.path) {
            print_version(call, change, agents)?;
        }
        Ok(())
    };
    pages(call, &at, &query, take)?;
    Ok(())
}

fn print_version(
    call: &mut Call,
    version: &api::FileVersion,
    agents: &AgentNames,
) -> anyhow::Result<()> {
    if call.output.is_json() {
        return Ok(call.output.value(version)?);
    }
    let number = call.output.styled(STRONG, format!("{:>5}", version.step));
    let id = call.output.styled(IDENTITY, short_text(&version.snapshot));
    let change = change_line(call, version);
    let mut about = relative(&version.created_at);
    if let Some(agent) = &version.agent {
        about += &format!(", {}", first_line(&agents.of(agent)));
    }
    let about = call.output.styled(FAINT, format!("({about})"));
    let line = [&number[..], b"  ", &id, b"  ", &change, b" ", &about].concat();
    Ok(call.output.line(line)?)
}
