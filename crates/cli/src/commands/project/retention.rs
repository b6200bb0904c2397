use clap::Args;
use elevo_api as api;
use reqwest::Method;

use crate::client::Call;
use crate::client::names::{Noun, find};
use crate::client::paths::project_path;
use crate::options::retention::{parse_retention, retention_text};

/// Print or set which versions of a project keep their content.
#[derive(Debug, Args)]
#[command(after_help = "\
RULE is one of:
  all        all versions; this is the default
  last:N     the last N versions
  daily:N    the last version of each day (UTC), for N days
  named      only the versions that every rule keeps, see below

The entry of a version in `log` stays forever; the next garbage collection
deletes its files, and they cannot be restored. Every rule keeps the head,
versions with a tag, versions that a workspace, a sandbox or an open review
needs, and versions younger than GC_KEEP_UNNAMED of the server (90 days if not
set).

Examples:
  elevo project retention site
  elevo project retention site last:100")]
pub(super) struct Retention {
    /// The project, by name or id
    name: String,

    /// The new rule
    #[arg(value_parser = parse_retention)]
    rule: Option<api::Retention>,
}

pub(super) fn run(call: &mut Call, args: &Retention) -> anyhow::Result<()> {
    let project = find(call, Noun::Project, &args.name)?;
    let path = project_path(&project, &[]);
    let found: api::Project = match args.rule {
        None => call.wait(call.client.get(&path))?,
        Some(rule) => {
            let wish = api::ChangeProject {
                retention: Some(rule),
                ..api::ChangeProject::default()
            };
            let request = call.client.request(Method::PATCH, &path).json(&wish);
            call.wait(call.client.json(request))?
        }
    };
    match call.output.is_json() {
        true => call.output.value(&found.retention)?,
        false => call.output.line(retention_text(found.retention))?,
    }
    Ok(())
}
