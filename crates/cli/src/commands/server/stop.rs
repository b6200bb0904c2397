use clap::Args;

use crate::client::operator::OperatorOptions;
use crate::errors::Exit;
use crate::local::data_directory::DataDirectory;
use crate::local::server_stop::{self, StopArgs};

/// Stop the server, and wait for its end.
#[derive(Debug, Args)]
#[command(after_help = "\
The server responds to running requests first, for up to STOP_GRACE (30
seconds). Sandboxes and their commands keep running, and the next start finds
them.

Only the process that holds DIR/server.lock is stopped, never another one with
the same id.

Examples:
  elevo server stop
  elevo server stop --timeout 5m
  elevo server stop --now       cut off the requests that still run")]
pub(super) struct Stop {
    #[command(flatten)]
    stop: StopArgs,
}

pub(super) fn run(at: &OperatorOptions, args: &Stop) -> anyhow::Result<Exit> {
    let data = DataDirectory::new(at.data.clone());
    server_stop::stop(&data, &args.stop, at.json, at.quiet)
}
