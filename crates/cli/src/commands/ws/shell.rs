use std::ffi::OsString;

use clap::Args;
use elevo_workspace::WorkspaceId;

use super::exec::ExecCall;

/// Run a shell in a workspace.
#[derive(Debug, Args)]
#[command(after_help = "\
Runs the program that the environment variable SHELL names, by default /bin/sh,
as `elevo ws exec` does.

Examples:
  elevo ws shell try-1
  SHELL=/bin/bash elevo ws shell")]
pub(super) struct Shell {
    /// The workspace; by default the one around the current directory
    #[arg(value_name = "WS")]
    id: Option<WorkspaceId>,
}

impl Shell {
    pub(super) fn call(self) -> ExecCall {
        let shell = std::env::var_os("SHELL").filter(|shell| !shell.is_empty());
        ExecCall {
            id: self.id,
            command: vec![shell.unwrap_or_else(|| OsString::from("/bin/sh"))],
        }
    }
}
