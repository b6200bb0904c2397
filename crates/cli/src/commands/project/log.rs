use clap::Args;
use elevo_api as api;
use reqwest::Method;

use crate::client::Call;
use crate::client::paths::project_path;
use crate::client::project_state::steps;
use crate::output::format::{self, first_line, short_text};
use crate::output::project::change_line;
use crate::output::relative_time::relative;
use crate::output::{FAINT, IDENTITY, STRONG};

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

pub(super) fn run(call: &mut Call, args: &Log) -> anyhow::Result<()> {
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
