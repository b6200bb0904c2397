use std::path::PathBuf;

use clap::Args;
use elevo_api as api;

use crate::client::Call;
use crate::client::paths::PROJECTS;
use crate::options::{policy, retention};

/// Create a project and print its id.
#[derive(Debug, Args)]
#[command(after_help = "\
The project is empty unless it starts with a snapshot; `import` adds files.
Without a policy, every agent may read and change all files.

Examples:
  elevo project create site
  elevo project create site --description \"The handbook\" --policy policy.json
  elevo project create site --from-snapshot \"$(elevo sandbox snapshot \"$id\")\"")]
pub(super) struct Create {
    /// Unique name of the project
    name: String,

    /// Description of the project
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,

    /// Snapshot that the project starts with
    #[arg(long, value_name = "ID")]
    from_snapshot: Option<String>,

    /// File with the policy: JSON, or TOML if its name ends with .toml
    #[arg(long, value_name = "FILE")]
    policy: Option<PathBuf>,

    /// Which versions keep their content: all, last:N, daily:N or named
    #[arg(long, value_name = "RULE", value_parser = retention::parse_retention)]
    retention: Option<api::Retention>,
}

pub(super) fn run(call: &mut Call, args: Create) -> anyhow::Result<()> {
    let policy = args
        .policy
        .as_deref()
        .map(policy::read_policy)
        .transpose()?;
    let wish = api::CreateProject {
        name: args.name,
        description: args.description,
        snapshot: args.from_snapshot,
        policy,
        retention: args.retention,
    };
    let asking = call.client.create(&PROJECTS, &wish);
    let made: api::Project = call.watch("creating the project", asking)?;
    match call.output.is_json() {
        true => call.output.value(&made)?,
        false => call.output.line(&made.id)?,
    }
    Ok(())
}
