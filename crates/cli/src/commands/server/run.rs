use clap::Args;

use crate::client::operator::OperatorOptions;
use crate::errors::Exit;
use crate::local::server_run::{self, RunMode};
use crate::options::server_settings::ServerSettings;
use crate::server_socket::Dispatch;

/// Run the server in this process until SIGTERM or Ctrl-C.
#[derive(Debug, Args)]
#[command(after_help = "\
For service managers and containers; `elevo server start` runs the server in the
background. SIGTERM or Ctrl-C stops the server once it has responded to all
requests; sandboxes and their commands keep running, and the next start finds
them. A second signal stops the server at once.

Options override the environment (DATA_DIR, API_PORT …), and the environment
overrides the file of --config; `workspace-server --help` lists all settings.

Examples:
  elevo server run
  elevo server run --config /etc/elevo.toml --log-stderr
  elevo server run --data /srv/elevo --port 8081")]
pub(super) struct Run {
    #[command(flatten)]
    settings: ServerSettings,

    /// Log to standard error instead of DIR/server.log
    #[arg(long)]
    log_stderr: bool,

    /// Leave the terminal, and print the address as JSON
    #[arg(long, hide = true)]
    detached: bool,
}

pub(super) fn run(at: &OperatorOptions, args: &Run, dispatch: Dispatch) -> anyhow::Result<Exit> {
    let mode = RunMode {
        log_stderr: args.log_stderr,
        json: at.json,
        hints: false,
        detached: args.detached,
    };
    server_run::run(args.settings.read(at.data.as_deref())?, mode, dispatch)?;
    Ok(Exit::Done)
}
