//! `elevo attach`: shows the output of a command in a sandbox.

use clap::Args;

use crate::client::command::{Signals, show_command};
use crate::client::names::{Noun, find};
use crate::client::{self, Follow, Reach};
use crate::errors::Exit;

/// Show the output of a command, from the beginning or from an offset.
#[derive(Debug, Args)]
#[command(after_help = "\
Runs until the command ends, and exits with its exit code. Ctrl-C leaves the
command running. The server keeps only the newest output, and a note reports how
much is missing. The exit code is 125 if elevo itself fails.

Examples:
  elevo attach \"$id\" \"$command\"
  elevo attach \"$id\" \"$command\" --offset 4096")]
pub(crate) struct Attach {
    /// The sandbox, by id, name or unique prefix of its id
    sandbox: String,

    /// Id of the command; `elevo ps` lists them
    command: String,

    /// Bytes of output to skip
    #[arg(long, value_name = "N", default_value_t = 0)]
    offset: u64,

    #[command(flatten)]
    pub(crate) reach: Reach,
}

pub(crate) fn run(args: &Attach) -> anyhow::Result<Exit> {
    client::run_on_server(&args.reach, |call| {
        let (sandbox, command) = (find(call, Noun::Sandbox, &args.sandbox)?, &args.command);
        let (signals, follow) = call.wait(async {
            let signals = Signals::new()?;
            let attaching = Follow::attach(&call.client, &sandbox, command, args.offset);
            anyhow::Ok((signals, attaching.await?))
        })?;
        show_command(call, follow, signals, None, None)
    })
}
