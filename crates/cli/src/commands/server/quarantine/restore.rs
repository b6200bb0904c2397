use clap::Args;
use reqwest::Method;
use serde_json::json;

use crate::client::Call;

/// Restore a workspace from quarantine
#[derive(Debug, Args)]
#[command(after_help = "\
The workspace is then kept like one that outlives its sandbox.

Examples:
  elevo server quarantine restore ws-…")]
pub(super) struct Restore {
    /// Id of the workspace
    id: String,
}

pub(super) fn run(call: &mut Call, args: &Restore) -> anyhow::Result<()> {
    let id = &args.id;
    let path = ["quarantine", id, "restore"];
    call.wait(call.client.done(call.client.request(Method::POST, &path)))?;
    match call.output.is_json() {
        true => call.output.value(&json!({ "restored": id }))?,
        false => call.output.line(format!("Restored {id}"))?,
    }
    Ok(())
}
