use clap::Args;
use elevo_api as api;

use crate::client::paths::PROJECTS;
use crate::client::{Call, pages};
use crate::output::format;
use crate::output::relative_time::relative;
use crate::output::table::Table;

/// List projects, newest first.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  elevo project ls
  elevo project ls --json | jq -r .name")]
pub(super) struct Ls {}

pub(super) fn run(call: &mut Call) -> anyhow::Result<()> {
    let mut table = Table::new(&["NAME", "STEPS", "ENTRIES", "SIZE", "CHANGED", "DESCRIPTION"]);
    let found = pages(call, &PROJECTS, &[], |call, items: Vec<api::Project>| {
        for project in &items {
            match call.output.is_json() {
                true => call.output.value(project)?,
                false => table.row([
                    project.name.clone(),
                    project.step.to_string(),
                    project
                        .entries
                        .map(|count| count.to_string())
                        .unwrap_or_default(),
                    project.bytes.map(format::bytes).unwrap_or_default(),
                    relative(&project.updated_at),
                    project.description.clone().unwrap_or_default(),
                ]),
            }
        }
        Ok(())
    })?;
    match (call.output.is_json(), found) {
        (true, _) => Ok(()),
        (false, 0) => {
            call.note("there are no projects; `elevo project create NAME` creates one");
            Ok(())
        }
        (false, _) => table.print(&mut call.output),
    }
}
