use clap::Args;
use elevo_api as api;

use crate::client::Call;
use crate::client::pages::items;
use crate::client::paths::TEMPLATES;
use crate::output::format;
use crate::output::relative_time::relative;
use crate::output::table::Table;

/// List templates
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  elevo template ls
  elevo template ls --json | jq -r .name")]
pub(super) struct Ls {}

pub(super) fn run(call: &mut Call) -> anyhow::Result<()> {
    let list: Vec<api::Template> = call.wait(items(&call.client, &TEMPLATES, &[], usize::MAX))?;
    let mut table = Table::new(&["NAME", "SIZE", "ROOT", "CREATED", "DESCRIPTION"]);
    for template in &list {
        if call.output.is_json() {
            call.output.value(template)?;
            continue;
        }
        let root = if template.writable_root {
            "writable"
        } else {
            "read-only"
        };
        let mut words = template.description.clone().unwrap_or_default();
        if !template.tags.is_empty() {
            words = format!("{words} [{}]", template.tags.join(", "));
        }
        table.row([
            template.name.clone(),
            format::bytes(template.size),
            root.into(),
            relative(&template.created_at),
            words.trim().to_owned(),
        ]);
    }
    match (call.output.is_json(), list.is_empty()) {
        (true, _) => {}
        (false, true) => {
            call.note("there are no templates; `elevo template create IMAGE` creates one")
        }
        (false, false) => table.print(&mut call.output)?,
    }
    Ok(())
}
