use clap::Args;
use elevo_api as api;

use crate::client::Call;
use crate::client::paths::WEBHOOKS;

/// Create a webhook, which gets all events from now on, and print its id.
#[derive(Debug, Args)]
#[command(after_help = "\
Deliveries are signed with HMAC-SHA256 and the secret, as Standard Webhooks
(https://www.standardwebhooks.com) describes. A secret of the form `whsec_…` is
decoded as that page says. `elevo webhook rotate` changes the secret.
Addresses that are not public are rejected, unless the server's settings allow
them.

Examples:
  elevo webhook create https://example.com/elevo --secret-file hook.key
  elevo webhook create https://example.com/reviews --kind review.opened --kind review.closed")]
pub(super) struct Create {
    /// URL to send events to
    url: String,

    /// Only this kind of event; can be repeated
    #[arg(long = "kind", value_name = "KIND")]
    kinds: Vec<String>,

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
        kinds: args.kinds,
    };
    let made: api::Webhook = call.wait(call.client.post(&WEBHOOKS, &wish))?;
    match call.output.is_json() {
        true => call.output.value(&made)?,
        false => call.output.line(&made.id)?,
    }
    Ok(())
}
