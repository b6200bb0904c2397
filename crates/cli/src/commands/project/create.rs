use std::path::PathBuf;

use clap::Args;
use elevo_api as api;
use reqwest::Method;

use crate::client::Call;
use crate::client::import::{ImportOptions, Source, import};
use crate::client::paths::{PROJECTS, project_path};
use crate::options::{policy, retention};
use crate::output::format::count;

/// Create a project and print its id.
#[derive(Debug, Args)]
#[command(after_help = "\
The project is empty unless --from names files to start with: a directory or a
bare git repository on the server's machine, a tar on this one (- for standard
input), or the id of a snapshot. `elevo project import` has more options.
Without a policy, every agent may read and change all files.

Examples:
  elevo project create site
  elevo project create site --from ~/src/site
  elevo project create site --description \"The handbook\" --policy policy.json
  elevo project create site --from \"$(elevo sandbox snapshot \"$id\")\"")]
pub(super) struct Create {
    /// Unique name of the project
    name: String,

    /// Description of the project
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,

    /// Files that the project starts with: a directory, a git repository, a tar or
    /// a snapshot
    #[arg(long, value_name = "SRC")]
    from: Option<PathBuf>,

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
    let (snapshot, source) = match args.from.map(Source::parse) {
        Some(Source::Snapshot(id)) => (Some(id), None),
        source => (None, source),
    };
    let wish = api::CreateProject {
        name: args.name,
        description: args.description,
        snapshot,
        policy,
        retention: args.retention,
    };
    let asking = call.client.create(&PROJECTS, &wish);
    let mut made: api::Project = call.watch("creating the project", asking)?;
    if let Some(source) = source {
        made = fill(call, made, source)?;
    }
    match call.output.is_json() {
        true => call.output.value(&made)?,
        false => call.output.line(&made.id)?,
    }
    Ok(())
}

/// Imports the first files of a project. Deletes the project if that fails, so
/// that the command can be repeated.
fn fill(call: &Call, made: api::Project, source: Source) -> anyhow::Result<api::Project> {
    let path = project_path(&made.id, &[]);
    let result = import(call, &made.id, source, ImportOptions::default()).inspect_err(|_| {
        let request = call.client.request(Method::DELETE, &path);
        let _ = call.wait(call.client.done(request));
    })?;
    let landed = count(result.merge.landed_count, "change", "changes");
    call.note(&format!("{landed} imported"));
    Ok(call.wait(call.client.get(&path))?)
}
