use clap::Args;
use serde_json::json;

use crate::client::operator::OperatorOptions;
use crate::errors::Exit;
use crate::options::server_settings::ServerSettings;
use crate::output::Output;

/// Check the settings without a start.
#[derive(Debug, Args)]
#[command(after_help = "\
Reads the options, the environment and the file of --config as `elevo server
run` does, and reports every setting that is invalid (exit code 2).

Examples:
  elevo server config check
  elevo server config check --config /etc/elevo.toml && systemctl restart elevo")]
pub(super) struct Check {
    #[command(flatten)]
    settings: ServerSettings,
}

pub(super) fn run(at: &OperatorOptions, args: &Check) -> anyhow::Result<Exit> {
    let config = args.settings.read(at.data.as_deref())?;
    let mut output = Output::new(at.json);
    match at.json {
        true => output.value(&json!({ "valid": true, "data": config.data_dir }))?,
        false if at.quiet => {}
        false => output.line("The settings are valid")?,
    }
    output.finish()?;
    Ok(Exit::Done)
}
