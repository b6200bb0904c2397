use clap::Args;
use elevo_api as api;
use reqwest::Method;

use crate::client::Call;
use crate::client::paths::project_path;
use crate::output::format::{first_line, short_text};
use crate::output::project::change_line;
use crate::output::relative_time::relative;
use crate::output::{FAINT, IDENTITY, STRONG};

/// Steps per request.
const PAGE: u32 = 100;

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

pub(super) fn run(call: &mut Call, args: &History) -> anyhow::Result<()> {
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
