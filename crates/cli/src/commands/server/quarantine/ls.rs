use clap::Args;
use elevo_api::QuarantineList;

use crate::client::Call;
use crate::output::relative_time::relative;
use crate::output::table::Table;

/// List workspaces in quarantine, oldest first
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  elevo server quarantine ls
  elevo server quarantine ls --json | jq -r .id")]
pub(super) struct Ls {}

pub(super) fn run(call: &mut Call) -> anyhow::Result<()> {
    let list: QuarantineList = call.wait(call.client.get(&["quarantine"]))?;
    let mut table = Table::new(&["ID", "TENANT", "FOUND", "DELETED"]);
    for workspace in &list.items {
        if call.output.is_json() {
            call.output.value(workspace)?;
            continue;
        }
        table.row([
            workspace.id.clone(),
            workspace.tenant.clone(),
            relative(&workspace.found_at),
            relative(&workspace.deleted_at),
        ]);
    }
    match (call.output.is_json(), list.items.is_empty()) {
        (true, _) => {}
        (false, true) => call.note("the quarantine is empty"),
        (false, false) => table.print(&mut call.output)?,
    }
    Ok(())
}
