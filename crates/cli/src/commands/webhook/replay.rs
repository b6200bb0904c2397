use clap::Args;
use reqwest::Method;

use crate::client::Call;
use crate::client::names::{Noun, find_known};
use crate::client::paths::WEBHOOKS;

/// Send an event to a webhook again
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  elevo webhook replay wh-… 4711")]
pub(super) struct Replay {
    /// The webhook: its id, a unique prefix of it, or its URL
    webhook: String,
    /// Number of the event
    event: u64,
}

pub(super) fn run(call: &mut Call, args: &Replay) -> anyhow::Result<()> {
    let number = args.event.to_string();
    let id = find_known(call, Noun::Webhook, &args.webhook)?;
    let path = [&WEBHOOKS[..], &[&id, "deliveries", &number, "replay"]].concat();
    call.wait(call.client.done(call.client.request(Method::POST, &path)))?;
    if !call.output.is_json() {
        call.output
            .line(format!("Event {number} will be sent again"))?;
    }
    Ok(())
}
