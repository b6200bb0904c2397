use clap::Args;
use elevo_api as api;

use crate::client::Call;
use crate::client::pages::items;
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
    let list: Vec<api::Agent> = call.wait(items(&call.client, &AGENTS, &[], usize::MAX))?;
    let mut table = Table::new(&["NAME", "CREATED", "ID"]);
    for agent in &list {
        match call.output.is_json() {
            true => call.output.value(agent)?,
            false => table.row([
                agent.name.clone(),
                relative(&agent.created_at),
                agent.id.clone(),
            ]),
        }
    }
    match (call.output.is_json(), list.is_empty()) {
        (true, _) => Ok(()),
        (false, true) => {
            call.note("there are no agents; `elevo agent create NAME` creates one");
            Ok(())
        }
        (false, false) => table.print(&mut call.output),
    }
}
