use clap::Args;
use elevo_api as api;
use reqwest::Method;

use crate::client::Call;
use crate::client::names::{Noun, find};
use crate::client::paths::project_path;
use crate::output::project::print_project;

/// Give a project another name or description.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  elevo project rename site handbook
  elevo project rename site --description \"Words for people\"")]
pub(super) struct Rename {
    /// The project, by name or id
    name: String,

    /// New name of the project
    #[arg(required_unless_present = "description")]
    new: Option<String>,

    /// New description
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,
}

pub(super) fn run(call: &mut Call, args: Rename) -> anyhow::Result<()> {
    let project = find(call, Noun::Project, &args.name)?;
    let wish = api::ChangeProject {
        name: args.new,
        description: args.description,
        retention: None,
    };
    let path = project_path(&project, &[]);
    let request = call.client.request(Method::PATCH, &path).json(&wish);
    let changed: api::Project = call.wait(call.client.json(request))?;
    print_project(call, &changed)
}
