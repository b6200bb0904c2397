use clap::Args;
use elevo_api as api;

use crate::client::Call;
use crate::client::paths::AGENTS;
use crate::output::relative_time::relative;
use crate::output::table::Table;

/// List agents
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  elevo agent ls")]
pub(super) struct Ls {}

pub(super) fn run(call: &mut Call) -> anyhow::Result<()> {
    let list: api::AgentList = call.wait(call.client.get(&AGENTS))?;
    let mut table = Table::new(&["NAME", "CREATED", "ID"]);
    for agent in &list.items {
        match call.output.is_json() {
            true => call.output.value(agent)?,
            false => table.row([
                agent.name.clone(),
                relative(&agent.created_at),
                agent.id.clone(),
            ]),
        }
    }
    match (call.output.is_json(), list.items.is_empty()) {
        (true, _) => Ok(()),
        (false, true) => {
            call.note("there are no agents; `elevo agent create NAME` creates one");
            Ok(())
        }
        (false, false) => table.print(&mut call.output),
    }
}
