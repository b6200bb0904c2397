use clap::Args;
use elevo_api as api;
use reqwest::Method;

use crate::client::Call;
use crate::client::names::{Noun, find};
use crate::client::paths::sandbox_path;
use crate::input::variable::pair;
use crate::output::sandbox::print_changed_sandbox;

/// Change the name, the metadata or the expiry of a sandbox.
#[derive(Debug, Args)]
#[command(after_help = "\
Pairs of metadata that are not named stay as they are.

Examples:
  elevo sandbox set \"$id\" --name try-2
  elevo sandbox set \"$id\" --metadata run=7 --metadata team=web
  elevo sandbox set \"$id\" --no-name --no-metadata run
  elevo sandbox set \"$id\" --expires-at 2030-01-15T10:00:00Z")]
pub(super) struct Set {
    /// The sandbox, by id, name or unique prefix of its id
    #[arg(value_name = "SANDBOX")]
    id: String,

    #[command(flatten)]
    changes: Changes,
}

#[derive(Debug, Args)]
#[group(required = true, multiple = true)]
struct Changes {
    /// New name; need not be unique
    #[arg(long)]
    name: Option<String>,

    /// Remove the name
    #[arg(long, conflicts_with = "name")]
    no_name: bool,

    /// Pair of metadata to set; can be repeated
    #[arg(long, value_name = "KEY=VALUE", value_parser = pair)]
    metadata: Vec<(String, String)>,

    /// Key of a pair of metadata to remove; can be repeated
    #[arg(long, value_name = "KEY")]
    no_metadata: Vec<String>,

    /// Time at which the sandbox expires, such as 2030-01-15T10:00:00Z
    #[arg(long, value_name = "TIME")]
    expires_at: Option<String>,
}

pub(super) fn run(call: &mut Call, args: Set) -> anyhow::Result<()> {
    let id = find(call, Noun::Sandbox, &args.id)?;
    let changes = args.changes;
    let set = changes.metadata.into_iter();
    let set = set.map(|(key, value)| (key, Some(value)));
    let removed = changes.no_metadata.into_iter().map(|key| (key, None));
    let wish = api::ChangeSandbox {
        name: match changes.no_name {
            true => Some(None),
            false => changes.name.map(Some),
        },
        metadata: set.chain(removed).collect(),
        expires_at: changes.expires_at,
    };
    let path = sandbox_path(&id, &[]);
    let request = call.client.request(Method::PATCH, &path).json(&wish);
    let changed: api::Sandbox = call.wait(call.client.json(request))?;
    print_changed_sandbox(call, &changed, "changed")
}
