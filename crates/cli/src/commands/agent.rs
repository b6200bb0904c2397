//! The commands of `elevo agent`.

mod create;
mod ls;

use clap::{Args, Subcommand};

use crate::client::{self, Reach};
use crate::errors::Exit;

/// Manage agents, whose keys see only the agent's own sandboxes.
#[derive(Debug, Args)]
#[command(
    arg_required_else_help = true,
    disable_help_subcommand = true,
    after_help = "\
Examples:
  elevo agent create reviewer
  elevo key create --agent reviewer -o reviewer.key"
)]
pub(crate) struct Agent {
    #[command(flatten)]
    pub(crate) reach: Reach,
    #[command(subcommand)]
    command: AgentCommand,
}

#[derive(Debug, Subcommand)]
enum AgentCommand {
    Create(create::Create),
    #[command(alias = "list")]
    Ls(ls::Ls),
}

pub(crate) fn run(agent: Agent) -> anyhow::Result<Exit> {
    let done = |()| Exit::Done;
    client::run_on_server(&agent.reach, |call| match agent.command {
        AgentCommand::Create(args) => create::run(call, args).map(done),
        AgentCommand::Ls(_) => ls::run(call).map(done),
    })
}
