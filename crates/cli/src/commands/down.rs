//! `elevo down`: stops the server on this machine.

use clap::Args;

use crate::client::operator::OperatorOptions;
use crate::errors::Exit;
use crate::local::data_directory::DataDirectory;
use crate::local::server_stop::{self, StopArgs};

/// Stop the server on this machine.
#[derive(Debug, Args)]
#[command(after_help = "\
The same as `elevo server stop`. Sandboxes and their commands keep running, and
the next `elevo up` finds them.

Examples:
  elevo down
  elevo down --data /srv/elevo
  elevo down --now              cut off the requests that still run")]
pub(crate) struct Down {
    #[command(flatten)]
    stop: StopArgs,
    #[command(flatten)]
    pub(crate) at: OperatorOptions,
}

pub(crate) fn run(args: &Down) -> anyhow::Result<Exit> {
    let data = DataDirectory::new(args.at.data.clone());
    server_stop::stop(&data, &args.stop, args.at.json, args.at.quiet)
}
