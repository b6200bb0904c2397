//! `workspace-server`: the service as a separate process. Releases contain the
//! same command as a second name of `elevo`.

use std::process::ExitCode;

fn main() -> ExitCode {
    elevo_server::run_command(None)
}
