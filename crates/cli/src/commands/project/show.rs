use clap::Args;
use elevo_api as api;

use crate::client::Call;
use crate::client::names::{Noun, find};
use crate::client::paths::project_path;
use crate::output::project::print_project;

/// Describe a project.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  elevo project show site
  elevo project show site --json | jq -r .head")]
pub(super) struct Show {
    /// The project, by name or id
    name: String,
}

pub(super) fn run(call: &mut Call, args: &Show) -> anyhow::Result<()> {
    let project = find(call, Noun::Project, &args.name)?;
    let found: api::Project = call.wait(call.client.get(&project_path(&project, &[])))?;
    print_project(call, &found)
}
