use clap::{Args, ValueEnum};

use crate::client::Call;
use crate::client::sandboxes::print_sandboxes;
use crate::input::variable::pair;

/// States to list.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum State {
    Starting,
    Running,
    Stopping,
    Stopped,
    Error,
}

/// List sandboxes, newest first.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  elevo sandbox ls
  elevo sandbox ls --state running --name try-
  elevo sandbox ls --metadata run=7
  elevo sandbox ls --json | jq -r .id | xargs elevo sandbox rm")]
pub(super) struct Ls {
    /// Only sandboxes in this state
    #[arg(long)]
    state: Option<State>,

    /// Only sandboxes whose name begins with PREFIX
    #[arg(long, value_name = "PREFIX")]
    name: Option<String>,

    /// Only sandboxes with this pair of metadata; with several, only sandboxes with all
    #[arg(long, value_name = "KEY=VALUE", value_parser = pair)]
    metadata: Vec<(String, String)>,

    /// Show complete ids
    #[arg(short, long)]
    long: bool,
}

pub(super) fn run(call: &mut Call, args: &Ls) -> anyhow::Result<()> {
    let mut query = Vec::new();
    if let Some(state) = args.state.and_then(|state| state.to_possible_value()) {
        query.push(("state", state.get_name().to_owned()));
    }
    query.extend(args.name.clone().map(|name| ("name_prefix", name)));
    let pairs = args.metadata.iter();
    query.extend(pairs.map(|(key, value)| ("metadata", format!("{key}:{value}"))));
    print_sandboxes(call, &query, args.long)
}
