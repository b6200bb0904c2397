use clap::Args;
use reqwest::Method;

use crate::client::Call;
use crate::client::names::{Noun, find};
use crate::client::paths::sandbox_path;
use crate::output::sandbox::print_changed_sandbox;

/// Start a sandbox that was stopped or has failed.
#[derive(Debug, Args)]
#[command(after_help = "\
The workspace is unchanged; processes are not restored.

Examples:
  elevo sandbox start \"$id\"")]
pub(super) struct Start {
    /// The sandbox, by id, name or unique prefix of its id
    #[arg(value_name = "SANDBOX")]
    id: String,
}

pub(super) fn run(call: &mut Call, args: &Start) -> anyhow::Result<()> {
    let id = find(call, Noun::Sandbox, &args.id)?;
    let request = call
        .client
        .request(Method::POST, &sandbox_path(&id, &["start"]));
    let started = call.watch("starting", call.client.json(request))?;
    print_changed_sandbox(call, &started, "Started")
}
