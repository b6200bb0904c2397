//! The commands of `elevo port`.

mod forward;
mod link;

use clap::{Args, Subcommand};

use crate::client::{self, Reach};
use crate::errors::Exit;

/// Reach programs that listen on ports of sandboxes.
#[derive(Debug, Args)]
#[command(
    arg_required_else_help = true,
    disable_help_subcommand = true,
    after_help = "\
The program must listen on 127.0.0.1 or 0.0.0.0 in the sandbox. The sandbox needs
no network.

Examples:
  elevo port forward \"$id\" 3000           open http://127.0.0.1:3000 on this machine
  elevo port link \"$id\" 3000              print an address for a browser"
)]
pub(crate) struct Port {
    #[command(flatten)]
    pub(crate) reach: Reach,
    #[command(subcommand)]
    command: PortCommand,
}

#[derive(Debug, Subcommand)]
enum PortCommand {
    Link(link::Link),
    Forward(forward::Forward),
}

pub(crate) fn run(port: Port) -> anyhow::Result<Exit> {
    let done = |()| Exit::Done;
    client::run_on_server(&port.reach, |call| match port.command {
        PortCommand::Link(args) => link::run(call, &args).map(done),
        PortCommand::Forward(args) => forward::run(call, &args).map(done),
    })
}
