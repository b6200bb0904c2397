use clap::Args;
use elevo_api as api;

use crate::client::Call;
use crate::client::names::{Noun, find};
use crate::client::paths::WEBHOOKS;
use crate::input::duration;

/// Give a webhook a new secret, and print the secret if the server created it.
#[derive(Debug, Args)]
#[command(after_help = "\
For --keep, each delivery carries two signatures: by the new secret and by the
present one. So the receiver can change its secret without losing an event. Then
the present secret is deleted.

Examples:
  elevo webhook rotate wh-… > hook.key
  elevo webhook rotate wh-… --secret-file hook.key --keep 1h")]
pub(super) struct Rotate {
    /// The webhook: its id, a unique prefix of it, or its URL
    webhook: String,

    /// File with the new secret; by default the server creates one
    #[arg(long, value_name = "FILE")]
    secret_file: Option<std::path::PathBuf>,

    /// How long the present secret also signs: at most 7d, by default 24h
    #[arg(long, value_name = "DURATION", value_parser = duration::seconds)]
    keep: Option<u32>,
}

pub(super) fn run(call: &mut Call, args: &Rotate) -> anyhow::Result<()> {
    let secret = match &args.secret_file {
        Some(path) => Some(crate::local::data_directory::read_key(path)?),
        None => None,
    };
    let wish = api::RotateWebhook {
        secret,
        keep_seconds: args.keep,
    };
    let id = find(call, Noun::Webhook, &args.webhook)?;
    let path = [&WEBHOOKS[..], &[&id, "rotate"]].concat();
    let rotated: api::RotatedWebhook = call.wait(call.client.post(&path, &wish))?;
    if call.output.is_json() {
        return Ok(call.output.value(&rotated)?);
    }
    if let Some(secret) = &rotated.secret {
        call.output.line(secret)?;
    }
    call.output.finish()?;
    call.note(&match &rotated.webhook.previous_until {
        Some(until) => format!("the previous secret also signs until {until}"),
        None => "only the new secret signs now".to_owned(),
    });
    Ok(())
}
