use clap::Args;
use elevo_api as api;

use crate::client::Call;
use crate::client::paths::WEBHOOKS;

/// Create a webhook, which gets all events from now on, and print its id.
#[derive(Debug, Args)]
#[command(after_help = "\
Bodies are signed with HMAC-SHA256 and the secret, in X-Webhook-Signature.
Addresses that are not public are rejected, unless the server's settings allow
them.

Examples:
  elevo webhook create https://example.com/elevo --secret-file hook.key
  elevo webhook create https://example.com/reviews --event review.opened --event review.closed")]
pub(super) struct Create {
    /// URL to send events to
    url: String,

    /// Only this kind of event; can be repeated
    #[arg(long = "event", value_name = "KIND")]
    events: Vec<String>,

    /// File with the secret that signs deliveries
    #[arg(long, value_name = "FILE")]
    secret_file: Option<std::path::PathBuf>,
}

pub(super) fn run(call: &mut Call, args: Create) -> anyhow::Result<()> {
    let secret = match &args.secret_file {
        Some(path) => Some(crate::local::data_directory::read_key(path)?),
        None => None,
    };
    let wish = api::CreateWebhook {
        url: args.url,
        secret,
        events: args.events,
    };
    let made: api::Webhook = call.wait(call.client.post(&WEBHOOKS, &wish))?;
    match call.output.is_json() {
        true => call.output.value(&made)?,
        false => call.output.line(&made.id)?,
    }
    Ok(())
}
