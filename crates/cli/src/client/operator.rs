//! Options and requests of the operator, on the machine of the server.

use std::path::PathBuf;

use clap::Args;

use crate::client::call::{self, Call};
use crate::client::http::Client;
use crate::errors::Exit;
use crate::local::data_directory::DataDirectory;

/// Options that name the server and the form of the output.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Common options")]
pub(crate) struct OperatorOptions {
    /// Data directory of the server [env: ELEVO_DATA]
    #[arg(long, global = true, value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,

    /// Print JSON, errors included
    #[arg(long, global = true)]
    pub(crate) json: bool,

    /// Show no progress and no notes
    #[arg(short, long, global = true)]
    pub(crate) quiet: bool,
}

impl OperatorOptions {
    /// Runs a command with a client of the server's admin socket.
    pub(crate) fn ask(
        &self,
        work: impl FnOnce(&mut Call) -> anyhow::Result<()>,
    ) -> anyhow::Result<Exit> {
        let client = Client::admin(&DataDirectory::new(self.data.clone()))?;
        call::run_with_client(client, self.json, self.quiet, |call| {
            work(call)?;
            Ok(Exit::Done)
        })
    }
}
