use clap::Args;
use elevo_api as api;

use crate::client::Call;
use crate::client::paths::AGENTS;

/// Create an agent and print its id
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  elevo agent create reviewer")]
pub(super) struct Create {
    /// Name of the agent
    name: String,
}

pub(super) fn run(call: &mut Call, args: Create) -> anyhow::Result<()> {
    let wish = api::CreateAgent { name: args.name };
    let made: api::Agent = call.wait(call.client.post(&AGENTS, &wish))?;
    match call.output.is_json() {
        true => call.output.value(&made)?,
        false => call.output.line(&made.id)?,
    }
    Ok(())
}
