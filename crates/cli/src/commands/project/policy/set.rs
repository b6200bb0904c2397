use std::path::PathBuf;

use clap::Args;

use crate::client::Call;
use crate::client::policy::set_policy;
use crate::options::policy::read_policy;

/// Set the policy of a project to the content of a file.
#[derive(Debug, Args)]
#[command(after_help = "\
Agents are named by name or id; the stored policy has ids.

Examples:
  elevo project policy set site policy.json
  elevo project policy set site policy.toml
  elevo project policy show other | elevo project policy set site -")]
pub(super) struct Set {
    /// The project, by name or id
    name: String,

    /// The policy: JSON, or TOML if the name ends with .toml; - for JSON on
    /// standard input
    file: PathBuf,
}

pub(super) fn run(call: &mut Call, args: &Set) -> anyhow::Result<()> {
    let policy = read_policy(&args.file)?;
    set_policy(call, &args.name, policy, None)
}
