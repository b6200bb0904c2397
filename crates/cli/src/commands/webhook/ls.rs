use clap::Args;
use elevo_api as api;

use crate::client::Call;
use crate::client::paths::WEBHOOKS;
use crate::output::relative_time::relative;
use crate::output::table::Table;

/// List webhooks
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  elevo webhook ls
  elevo webhook ls --json | jq -r .url")]
pub(super) struct Ls {}

pub(super) fn run(call: &mut Call) -> anyhow::Result<()> {
    let list: api::WebhookList = call.wait(call.client.get(&WEBHOOKS))?;
    let mut table = Table::new(&["ID", "URL", "SIGNED", "ADDED", "EVENTS"]);
    for webhook in &list.items {
        if call.output.is_json() {
            call.output.value(webhook)?;
            continue;
        }
        table.row([
            webhook.id.clone(),
            webhook.url.clone(),
            if webhook.signed { "yes" } else { "no" }.into(),
            relative(&webhook.created_at),
            webhook.events.join(","),
        ]);
    }
    match (call.output.is_json(), list.items.is_empty()) {
        (true, _) => {}
        (false, true) => call.note("there are no webhooks; `elevo webhook add URL` adds one"),
        (false, false) => table.print(&mut call.output)?,
    }
    Ok(())
}
