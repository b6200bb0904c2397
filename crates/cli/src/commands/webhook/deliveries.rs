use clap::Args;
use elevo_api as api;
use reqwest::Method;

use crate::client::Call;
use crate::client::names::{Noun, find_known};
use crate::client::paths::WEBHOOKS;
use crate::output::format::harmless;
use crate::output::relative_time::relative;
use crate::output::table::Table;

/// List the deliveries of a webhook, newest first.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  elevo webhook deliveries wh-…
  elevo webhook deliveries wh-… --state failed --json | jq -r .event.id")]
pub(super) struct Deliveries {
    /// The webhook: its id, a unique prefix of it, or its URL
    webhook: String,

    /// Only deliveries in this state: pending, delivered or failed
    #[arg(long)]
    state: Option<String>,

    /// Maximum number of deliveries
    #[arg(short = 'n', long, value_name = "N", default_value_t = 100)]
    limit: u32,
}

pub(super) fn run(call: &mut Call, args: &Deliveries) -> anyhow::Result<()> {
    let mut query = vec![("limit", args.limit.to_string())];
    if let Some(state) = &args.state {
        query.push(("state", state.clone()));
    }
    let id = find_known(call, Noun::Webhook, &args.webhook)?;
    let path = [&WEBHOOKS[..], &[&id, "deliveries"]].concat();
    let request = call.client.request(Method::GET, &path).query(&query);
    let page: api::DeliveryPage = call.wait(call.client.json(request))?;
    let mut table = Table::new(&["EVENT", "KIND", "STATE", "TRIED", "ANSWER", "LAST", "WHY"]);
    for delivery in &page.items {
        if call.output.is_json() {
            call.output.value(delivery)?;
            continue;
        }
        let status = delivery.status.map(|status| status.to_string());
        table.row([
            delivery.event.id.to_string(),
            delivery.event.kind.clone(),
            state(delivery.state).to_owned(),
            delivery.attempts.to_string(),
            status.unwrap_or_default(),
            relative(&delivery.updated_at),
            harmless(delivery.error.as_deref().unwrap_or_default()).into_owned(),
        ]);
    }
    match (call.output.is_json(), page.items.is_empty()) {
        (true, _) => {}
        (false, true) => call.note("there are no deliveries"),
        (false, false) => table.print(&mut call.output)?,
    }
    Ok(())
}

fn state(state: api::DeliveryState) -> &'static str {
    match state {
        api::DeliveryState::Pending => "pending",
        api::DeliveryState::Delivered => "delivered",
        api::DeliveryState::Failed => "failed",
    }
}
