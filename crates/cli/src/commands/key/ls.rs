use clap::Args;
use elevo_api as api;

use crate::client::Call;
use crate::client::paths::KEYS;
use crate::output::relative_time::relative;
use crate::output::table::Table;

/// List keys, including revoked ones
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  elevo key ls
  elevo key ls --json | jq -r .name")]
pub(super) struct Ls {}

pub(super) fn run(call: &mut Call) -> anyhow::Result<()> {
    let list: api::KeyList = call.wait(call.client.get(&KEYS))?;
    let mut table = Table::new(&["ID", "NAME", "STATE", "CREATED", "AGENT", "SCOPES"]);
    for key in &list.items {
        if call.output.is_json() {
            call.output.value(key)?;
            continue;
        }
        let state = match (&key.revoked_at, &key.expires_at) {
            (Some(revoked), _) => format!("revoked {}", relative(revoked)),
            (None, Some(expires)) => format!("expires {}", relative(expires)),
            (None, None) => "valid".into(),
        };
        table.row([
            key.id.clone(),
            key.name.clone(),
            state,
            relative(&key.created_at),
            key.agent.clone().unwrap_or("-".into()),
            key.scopes.join(" "),
        ]);
    }
    match call.output.is_json() {
        true => Ok(()),
        false => table.print(&mut call.output),
    }
}
