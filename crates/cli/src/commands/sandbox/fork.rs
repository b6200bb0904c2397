use clap::Args;
use elevo_api as api;

use crate::client::Call;
use crate::client::names::{Noun, find};
use crate::client::paths::sandbox_path;
use crate::errors::Exit;
use crate::input::duration::seconds;
use crate::input::variable::{pair, variable};
use crate::output::sandbox;

/// Create sandboxes with the current files of another, and print their ids.
#[derive(Debug, Args)]
#[command(after_help = "\
A fork copies files, not processes. All forks have the files of the same moment.
The ids of the created forks are printed even if others failed.

Examples:
  elevo sandbox fork \"$id\"
  elevo sandbox fork \"$id\" -n 10 --name try
  elevo sandbox fork \"$id\" -n 16 --metadata run=7")]
pub(super) struct Fork {
    /// The sandbox, by id, name or unique prefix of its id
    #[arg(value_name = "SANDBOX")]
    id: String,

    /// Number of forks; at most 50
    #[arg(short = 'n', long, value_name = "N", default_value_t = 1)]
    count: u32,

    /// Name of the forks; a number is appended if there are several
    #[arg(long)]
    name: Option<String>,

    /// Environment variable for all commands in them, over those of the origin; can
    /// be repeated
    #[arg(long = "env", short, value_name = "NAME=VALUE", value_parser = variable)]
    envs: Vec<(String, String)>,

    /// Pair of metadata that labels them, over those of the origin; can be repeated
    #[arg(long, value_name = "KEY=VALUE", value_parser = pair)]
    metadata: Vec<(String, String)>,

    /// Time until they expire: seconds, or with s, m, h or d; by default as for the
    /// origin
    #[arg(long, value_name = "TIME", value_parser = seconds)]
    timeout: Option<u32>,
}

pub(super) fn run(call: &mut Call, args: Fork) -> anyhow::Result<Exit> {
    let id = find(call, Noun::Sandbox, &args.id)?;
    let wish = api::Fork {
        count: Some(args.count),
        name: args.name,
        envs: args.envs.into_iter().collect(),
        metadata: args.metadata.into_iter().collect(),
        timeout_seconds: args.timeout,
    };
    let path = sandbox_path(&id, &["fork"]);
    let asking = call.client.create(&path, &wish);
    let forked: api::Forked = call.watch("forking", asking)?;
    sandbox::print_sandbox_ids(call, &forked.succeeded)?;
    let mut exit = None;
    for failed in forked.failed {
        let failed = sandbox::report_failed_sandbox(call, failed)?;
        exit.get_or_insert(failed);
    }
    Ok(exit.unwrap_or(Exit::Done))
}
