use clap::Args;
use elevo_api as api;

use crate::client::Call;
use crate::client::names::{Noun, find};
use crate::client::paths::sandbox_path;
use crate::output::format;
use crate::output::notes::field;

/// Show the resource usage of a sandbox.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  elevo sandbox stats \"$id\"
  elevo sandbox stats \"$id\" --json | jq .memory.percent")]
pub(super) struct Stats {
    /// The sandbox, by id, name or unique prefix of its id
    #[arg(value_name = "SANDBOX")]
    id: String,
}

pub(super) fn run(call: &mut Call, args: &Stats) -> anyhow::Result<()> {
    let id = find(call, Noun::Sandbox, &args.id)?;
    let stats: api::SandboxStats = call.wait(call.client.get(&sandbox_path(&id, &["stats"])))?;
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
        field(&mut call.output, name, &value)?;
    }
    Ok(())
}
