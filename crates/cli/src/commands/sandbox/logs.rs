use clap::Args;
use elevo_api as api;
use reqwest::Method;

use crate::client::Call;
use crate::client::names::{Noun, find};
use crate::client::paths::sandbox_path;
use crate::output::format;

/// Print the log of the container's agent, without the output of commands.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  elevo sandbox logs \"$id\"
  elevo sandbox logs \"$id\" --tail 1000")]
pub(super) struct Logs {
    /// The sandbox, by id, name or unique prefix of its id
    #[arg(value_name = "SANDBOX")]
    id: String,

    /// Number of lines, counted from the end
    #[arg(long, value_name = "N", default_value_t = 100)]
    tail: u32,
}

pub(super) fn run(call: &mut Call, args: &Logs) -> anyhow::Result<()> {
    let id = find(call, Noun::Sandbox, &args.id)?;
    let request = call
        .client
        .request(Method::GET, &sandbox_path(&id, &["logs"]));
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
        call.note("the log has more lines; a larger --tail N prints them");
    }
    Ok(())
}
