use clap::Args;
use elevo_api as api;

use crate::client::Call;
use crate::client::names::{Noun, find};
use crate::client::paths::WEBHOOKS;
use crate::output::notes::field;
use crate::output::relative_time::relative;

/// Describe a webhook
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  elevo webhook show wh-…
  elevo webhook show https://example.com/elevo --json | jq -r .kinds[]")]
pub(super) struct Show {
    /// The webhook: its id, a unique prefix of it, or its URL
    webhook: String,
}

pub(super) fn run(call: &mut Call, args: &Show) -> anyhow::Result<()> {
    let id = find(call, Noun::Webhook, &args.webhook)?;
    let path = [&WEBHOOKS[..], &[&id]].concat();
    let webhook: api::Webhook = call.wait(call.client.get(&path))?;
    if call.output.is_json() {
        return Ok(call.output.value(&webhook)?);
    }
    let signed = match (webhook.signed, &webhook.previous_until) {
        (false, _) => "no".to_owned(),
        (true, None) => "yes".to_owned(),
        (true, Some(until)) => format!("yes, also with the previous secret until {until}"),
    };
    let created = &webhook.created_at;
    let lines = [
        ("id", webhook.id),
        ("url", webhook.url),
        ("signed", signed),
        ("kinds", webhook.kinds.join(", ")),
        ("created", format!("{created} ({})", relative(created))),
    ];
    for (name, value) in lines {
        field(&mut call.output, name, &value)?;
    }
    Ok(())
}
