//! `elevo up`: starts the server on this machine.

use std::path::PathBuf;

use clap::Args;

use crate::errors::Exit;
use crate::local::data_directory::DataDirectory;
use crate::local::server_run::{self, RunMode};
use crate::local::server_start::{self, StartOptions};
use crate::options::server_settings::ServerSettings;
use crate::output::notes::print_note;
use crate::output::server_greeting::Greeting;
use crate::server_socket::Dispatch;

/// Start the server on this machine.
#[derive(Debug, Args)]
#[command(after_help = "\
Starts the server in the background, waits until it is ready, and prints its
address, the place of its log, and commands to try. `elevo down` stops it. If a
server runs already, prints its address. A server without a template gets that
of the release, `busybox`.
`elevo server start` does the same without the commands to try. The server
starts again after a reboot only if a service manager runs it: see `elevo server
run`.

The first start creates the data directory, a tenant, and the owner's key in
DIR/owner.key, which the other commands on this machine use. They find the
server through DIR/server.json.

The server does not start if the catalog, the store and the workspaces do not
belong together: one of them is missing, is an older copy, or is of another
server. With --adopt it starts with the existing data.

Options override the environment (DATA_DIR, API_PORT …), and the environment
overrides the file of --config; `workspace-server --help` lists all settings.

Examples:
  elevo up
  elevo up --data /srv/elevo --port 8081 --network none
  elevo up --docker-host unix:///run/user/1000/docker.sock
  elevo up --config /etc/elevo.toml --foreground --log-stderr
  elevo up --data /srv/elevo --adopt")]
pub(crate) struct Up {
    #[command(flatten)]
    settings: ServerSettings,

    /// Run the server in this process until Ctrl-C, as `elevo server run` does
    #[arg(short, long)]
    foreground: bool,

    /// Log to standard error instead of DIR/server.log
    #[arg(long, requires = "foreground")]
    log_stderr: bool,

    /// Data directory; by default /var/lib/elevo for root, otherwise
    /// $XDG_DATA_HOME/elevo or ~/.local/share/elevo [env: ELEVO_DATA]
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,

    /// Print JSON, errors included
    #[arg(long)]
    pub(crate) json: bool,

    /// Show no progress and no notes
    #[arg(short, long)]
    quiet: bool,
}

/// Starts or runs the server. `dispatch` runs the commands that it accepts on its
/// socket.
pub(crate) fn run(args: &Up, dispatch: Dispatch) -> anyhow::Result<Exit> {
    let data = args.data.as_deref();
    if args.foreground {
        let mode = RunMode {
            log_stderr: args.log_stderr,
            json: args.json,
            hints: true,
            detached: false,
        };
        server_run::run(args.settings.read(data)?, mode, dispatch)?;
        return Ok(Exit::Done);
    }
    // The package's service may have started it.
    let found = DataDirectory::new(Some(args.settings.read(data)?.data_dir));
    if let Some(running) = found.running() {
        if !args.quiet && !args.json {
            print_note("the server is running already, with the settings of its start");
        }
        let template = server_start::template_of(&found, &running)?;
        Greeting::new(&found, &running, false, true, template).print(args.json, true)?;
        return Ok(Exit::Done);
    }
    server_start::start(&StartOptions {
        settings: &args.settings,
        data,
        json: args.json,
        quiet: args.quiet,
        hints: true,
    })
}
