//! The commands of `elevo webhook`.

use clap::{Args, Subcommand};
use elevo_api as api;
use reqwest::Method;

use crate::client::Reach;
use crate::errors::Exit;
use crate::format::harmless;
use crate::service::{self, Call, Table, relative};

/// Manage webhooks, which deliver events by HTTP.
#[derive(Debug, Args)]
#[command(
    arg_required_else_help = true,
    disable_help_subcommand = true,
    after_help = "\
Needs a key with the scope `webhooks`.

Examples:
  elevo webhook add https://example.com/elevo --event sandbox.error --secret-file hook.key
  elevo webhook ls
  elevo webhook deliveries wh-… --state failed
  elevo webhook replay wh-… 4711"
)]
pub(crate) struct Webhook {
    #[command(flatten)]
    pub(crate) reach: Reach,
    #[command(subcommand)]
    command: WebhookCommand,
}

#[derive(Debug, Subcommand)]
enum WebhookCommand {
    Add(Add),
    /// List webhooks
    #[command(after_help = "\
Examples:
  elevo webhook ls
  elevo webhook ls --json | jq -r .url")]
    Ls,
    /// Delete webhooks with their pending deliveries
    #[command(after_help = "\
Examples:
  elevo webhook rm wh-…")]
    Rm {
        /// Ids of the webhooks
        #[arg(required = true, value_name = "ID")]
        ids: Vec<String>,
    },
    Deliveries(Deliveries),
    /// Send an event to a webhook again
    #[command(after_help = "\
Examples:
  elevo webhook replay wh-… 4711")]
    Replay {
        /// Id of the webhook
        id: String,
        /// Number of the event
        event: u64,
    },
}

/// Add a webhook, which gets all events from now on.
#[derive(Debug, Args)]
#[command(after_help = "\
Bodies are signed with HMAC-SHA256 and the secret, in X-Webhook-Signature.
Addresses that are not public are rejected, unless the server's settings allow
them.

Examples:
  elevo webhook add https://example.com/elevo --secret-file hook.key
  elevo webhook add https://example.com/reviews --event review.opened --event review.closed")]
struct Add {
    /// URL to send events to
    url: String,

    /// Only this kind of event; can be repeated
    #[arg(long = "event", value_name = "KIND")]
    events: Vec<String>,

    /// File with the secret that signs deliveries
    #[arg(long, value_name = "FILE")]
    secret_file: Option<std::path::PathBuf>,
}

/// List the deliveries of a webhook, newest first.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  elevo webhook deliveries wh-…
  elevo webhook deliveries wh-… --state failed --json | jq -r .event.id")]
struct Deliveries {
    /// Id of the webhook
    id: String,

    /// Only deliveries in this state: pending, delivered or failed
    #[arg(long)]
    state: Option<String>,

    /// Maximum number of deliveries
    #[arg(short = 'n', long, value_name = "N", default_value_t = 100)]
    limit: u32,
}

const WEBHOOKS: [&str; 3] = ["api", "v1", "webhooks"];

pub(crate) fn run(webhook: Webhook) -> anyhow::Result<Exit> {
    service::run(&webhook.reach, |call| {
        match webhook.command {
            WebhookCommand::Add(args) => add(call, args)?,
            WebhookCommand::Ls => ls(call)?,
            WebhookCommand::Rm { ids } => return call.delete_all("webhooks", &ids, "Removed"),
            WebhookCommand::Deliveries(args) => deliveries(call, &args)?,
            WebhookCommand::Replay { id, event } => replay(call, &id, event)?,
        }
        Ok(Exit::Done)
    })
}

fn add(call: &mut Call, args: Add) -> anyhow::Result<()> {
    let secret = match &args.secret_file {
        Some(path) => Some(crate::data::read_key(path)?),
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

fn ls(call: &mut Call) -> anyhow::Result<()> {
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

fn deliveries(call: &mut Call, args: &Deliveries) -> anyhow::Result<()> {
    let mut query = vec![("limit", args.limit.to_string())];
    if let Some(state) = &args.state {
        query.push(("state", state.clone()));
    }
    let path = [&WEBHOOKS[..], &[&args.id, "deliveries"]].concat();
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
            delivery.event.event.clone(),
            delivery.state.clone(),
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

fn replay(call: &mut Call, id: &str, event: u64) -> anyhow::Result<()> {
    let number = event.to_string();
    let path = [&WEBHOOKS[..], &[id, "deliveries", &number, "replay"]].concat();
    call.wait(call.client.done(call.client.request(Method::POST, &path)))?;
    if !call.output.is_json() {
        call.output
            .line(format!("Event {event} will be sent again"))?;
    }
    Ok(())
}
