//! `elevo version`: prints the version of this program and of the server.

use clap::Args;
use elevo_api::Health;
use serde_json::json;

use crate::client::{Reach, Where, run_on_server};
use crate::errors::Exit;
use crate::output::Output;

const OWN: &str = env!("CARGO_PKG_VERSION");

/// Print the version.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  elevo version
  elevo version --server        also that of the server")]
pub(crate) struct Version {
    /// Also print the version of the server that commands use
    #[arg(long)]
    server: bool,

    /// Print JSON, errors included
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) fn run(args: &Version) -> anyhow::Result<Exit> {
    if !args.server {
        let mut output = Output::new(args.json);
        match args.json {
            true => output.value(&json!({ "version": OWN }))?,
            false => output.line(format!("elevo {OWN}"))?,
        }
        output.finish()?;
        return Ok(Exit::Done);
    }
    let reach = Reach {
        at: Where::default(),
        json: args.json,
        quiet: true,
    };
    run_on_server(&reach, |call| {
        let health: Health = call.wait(call.client.get(&["health"]))?;
        let (version, url) = (health.version, call.client.url().to_owned());
        match call.output.is_json() {
            true => call.output.value(&json!({
                "version": OWN,
                "server": { "url": url, "version": version },
            }))?,
            false => {
                call.output.line(format!("elevo {OWN}"))?;
                call.output.line(format!("server {version} at {url}"))?;
            }
        }
        Ok(Exit::Done)
    })
}
