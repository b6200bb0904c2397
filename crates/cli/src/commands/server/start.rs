use clap::Args;

use crate::client::operator::OperatorOptions;
use crate::errors::Exit;
use crate::local::server_start::{self, StartOptions};
use crate::options::server_settings::ServerSettings;

/// Start the server in the background, and wait until it is ready.
#[derive(Debug, Args)]
#[command(after_help = "\
Prints the address of the server and the place of its log. The server keeps
running when this command or the terminal ends. `elevo up` does the same and
prints commands to try.

Examples:
  elevo server start
  elevo server start --data /srv/elevo --port 8081
  elevo server start --json | jq -r .server")]
pub(super) struct Start {
    #[command(flatten)]
    settings: ServerSettings,
}

pub(super) fn run(at: &OperatorOptions, args: &Start) -> anyhow::Result<Exit> {
    server_start::start(&StartOptions {
        settings: &args.settings,
        data: at.data.as_deref(),
        json: at.json,
        quiet: at.quiet,
        hints: false,
    })
}
