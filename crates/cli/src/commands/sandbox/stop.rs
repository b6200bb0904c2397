use clap::Args;
use reqwest::Method;

use crate::client::Call;
use crate::client::names::{Noun, find};
use crate::client::paths::sandbox_path;
use crate::output::sandbox::print_changed_sandbox;

/// Stop a sandbox: its processes are stopped, its workspace stays.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  elevo sandbox stop \"$id\"
  elevo sandbox start \"$id\"")]
pub(super) struct Stop {
    /// The sandbox, by id, name or unique prefix of its id
    #[arg(value_name = "SANDBOX")]
    id: String,
}

pub(super) fn run(call: &mut Call, args: &Stop) -> anyhow::Result<()> {
    let id = find(call, Noun::Sandbox, &args.id)?;
    let request = call
        .client
        .request(Method::POST, &sandbox_path(&id, &["stop"]));
    let stopped = call.watch("stopping", call.client.json(request))?;
    print_changed_sandbox(call, &stopped, "Stopped")
}
