//! Lists and describes sandboxes, and prints their logs and usage.

use clap::{Args, ValueEnum};
use elevo_api as api;
use reqwest::Method;

use super::state;
use crate::client::sandbox_path;
use crate::format;
use crate::service::{Call, Table, field, relative};

/// States to list.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum State {
    Starting,
    Running,
    Stopping,
    Stopped,
    Error,
}

/// List sandboxes, newest first.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  elevo sandbox ls
  elevo sandbox ls --state running --name try-
  elevo sandbox ls --json | jq -r .id | xargs elevo sandbox rm")]
pub(super) struct Ls {
    /// Only sandboxes in this state
    #[arg(long)]
    state: Option<State>,

    /// Only sandboxes whose name begins with PREFIX
    #[arg(long, value_name = "PREFIX")]
    name: Option<String>,
}

/// Sandboxes per request.
const PAGE: u32 = 100;

pub(super) fn ls(call: &mut Call, args: &Ls) -> anyhow::Result<()> {
    let mut table = Table::new(&["ID", "NAME", "STATE", "TEMPLATE", "CREATED", "EXPIRES"]);
    let (mut page, mut seen) = (1, 0);
    loop {
        let list = call.wait(list(call, args, page))?;
        for sandbox in &list.items {
            match call.output.is_json() {
                true => call.output.value(sandbox)?,
                false => table.row([
                    sandbox.id.clone(),
                    sandbox.name.clone().unwrap_or("-".into()),
                    state(sandbox).into(),
                    sandbox.template.clone(),
                    relative(&sandbox.created_at),
                    relative(&sandbox.expires_at),
                ]),
            }
        }
        seen += list.items.len() as u64;
        if list.items.is_empty() || seen >= list.total {
            break;
        }
        page += 1;
    }
    if call.output.is_json() {
        return Ok(());
    }
    if seen == 0 {
        call.note("there are no sandboxes; `elevo sandbox create` creates one");
        return Ok(());
    }
    table.print(&mut call.output)
}

async fn list(call: &Call, args: &Ls, page: u32) -> crate::client::Result<api::SandboxPage> {
    let mut query = vec![("page", page.to_string()), ("limit", PAGE.to_string())];
    if let Some(state) = args.state.and_then(|state| state.to_possible_value()) {
        query.push(("state", state.get_name().to_owned()));
    }
    if let Some(name) = &args.name {
        query.push(("name_prefix", name.clone()));
    }
    let request = call
        .client
        .request(Method::GET, &["api", "v1", "sandboxes"]);
    call.client.json(request.query(&query)).await
}

/// Describe a sandbox.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  elevo sandbox show \"$id\"
  elevo sandbox show \"$id\" --json | jq -r .expiresAt")]
pub(super) struct Show {
    /// The sandbox
    id: String,
}

pub(super) fn show(call: &mut Call, args: &Show) -> anyhow::Result<()> {
    let found: api::Sandbox = call.wait(call.client.get(&sandbox_path(&args.id, &[])))?;
    if call.output.is_json() {
        call.output.value(&found)?;
        return Ok(());
    }
    let (resources, network) = (&found.resources, found.network);
    let network = match network {
        api::NetworkMode::None => "none",
        api::NetworkMode::Internet => "internet",
    };
    let text = |value: &Option<String>| value.clone().unwrap_or("-".into());
    let lines = [
        ("id", found.id.clone()),
        ("name", text(&found.name)),
        ("state", state(&found).to_owned()),
        ("reason", text(&found.reason)),
        ("workspace", found.workspace_id.clone()),
        ("template", found.template.clone()),
        ("agent", text(&found.agent)),
        ("processors", text(&resources.cpu)),
        ("memory", text(&resources.memory)),
        ("disk", text(&resources.disk)),
        (
            "processes",
            resources.pids.map_or("-".into(), |pids| pids.to_string()),
        ),
        ("network", network.to_owned()),
        ("runtime", text(&found.runtime)),
        (
            "created",
            format!("{} ({})", found.created_at, relative(&found.created_at)),
        ),
        (
            "expires",
            format!("{} ({})", found.expires_at, relative(&found.expires_at)),
        ),
    ];
    for (name, value) in lines {
        if value != "-" {
            field(call, name, &value)?;
        }
    }
    Ok(())
}

/// Print the log of the container's agent, without the output of commands.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  elevo sandbox logs \"$id\"
  elevo sandbox logs \"$id\" --tail 1000")]
pub(super) struct Logs {
    /// The sandbox
    id: String,

    /// Number of lines, counted from the end
    #[arg(long, value_name = "N", default_value_t = 100)]
    tail: u32,
}

pub(super) fn logs(call: &mut Call, args: &Logs) -> anyhow::Result<()> {
    let request = call
        .client
        .request(Method::GET, &sandbox_path(&args.id, &["logs"]));
    let request = request.query(&[("tail", args.tail)]);
    let logs: api::Logs = call.wait(call.client.json(request))?;
    if call.output.is_json() {
        call.output.value(&logs)?;
        return Ok(());
    }
    let text = format::harmless(&logs.logs).into_owned();
    call.output.bytes(text.as_bytes())?;
    if !text.is_empty() && !text.ends_with('\n') {
        call.output.line("")?;
    }
    if logs.truncated {
        call.note("there is more; --tail N shows more lines");
    }
    Ok(())
}

/// Show the resource usage of a sandbox.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  elevo sandbox stats \"$id\"
  elevo sandbox stats \"$id\" --json | jq .memory.percent")]
pub(super) struct Stats {
    /// The sandbox
    id: String,
}

pub(super) fn stats(call: &mut Call, args: &Stats) -> anyhow::Result<()> {
    let stats: api::SandboxStats =
        call.wait(call.client.get(&sandbox_path(&args.id, &["stats"])))?;
    if call.output.is_json() {
        call.output.value(&stats)?;
        return Ok(());
    }
    let (memory, disk) = (&stats.memory, &stats.disk);
    let limit = |limit: Option<u64>| {
        limit.map_or(String::new(), |limit| {
            format!(" of {}", format::bytes(limit))
        })
    };
    let used = disk.usage.map_or("not counted here".into(), format::bytes);
    let lines = [
        (
            "processors",
            format!("{:.1} % of {}", stats.cpu.usage, stats.cpu.limit),
        ),
        (
            "memory",
            format!(
                "{}{}, {:.1} %",
                format::bytes(memory.usage),
                limit(Some(memory.limit)),
                memory.percent
            ),
        ),
        ("disk", format!("{used}{}", limit(disk.limit))),
        ("received", format::bytes(stats.network.rx_bytes)),
        ("sent", format::bytes(stats.network.tx_bytes)),
        ("processes", stats.processes.to_string()),
    ];
    for (name, value) in lines {
        field(call, name, &value)?;
    }
    Ok(())
}
