//! Delivers events to webhooks, with retries. The events of one sandbox or
//! project are sent in order, and each webhook is served independently of the
//! others. Delivery is at least once: if the server is killed before it records
//! an attempt, it sends the event again with the same id.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use elevo_catalog::{Attempt, Delivery, DeliveryState, Webhook};
use elevo_core::WebhookId;
use futures::StreamExt;
use reqwest::Client;
use tokio::task::JoinSet;

use crate::app::App;
use crate::failure::{Result, chain};
use crate::platform::{clock, outgoing, signing};

/// Maximum pending deliveries of a webhook that are read at a time.
const WINDOW: u32 = 1000;
/// Maximum sandboxes and projects whose events are sent to a webhook at the
/// same time.
const AT_ONCE: usize = 16;
/// Maximum events of one sandbox or project that are sent before the attempts are
/// recorded in the catalog.
const IN_A_ROW: usize = 50;
/// Maximum time to send the events of one sandbox or project before the
/// attempts are recorded.
const ROW: Duration = Duration::from_secs(5);
/// Maximum time between two reads of the webhooks or of the pending deliveries. A
/// notification causes a read at once.
const LOOK: Duration = Duration::from_secs(1);

/// Delivers events until the server stops.
pub(crate) async fn run(app: Arc<App>) -> Result<()> {
    let settings = &app.config.webhooks;
    let client = match outgoing::client(settings.timeout, settings.allow_private) {
        Ok(client) => client,
        Err(error) => {
            tracing::error!(
                cause = format!("{error:#}"),
                "cannot create the HTTP client for webhooks; no event is delivered until the \
                 server is restarted"
            );
            return std::future::pending().await;
        }
    };
    let mut tasks: JoinSet<WebhookId> = JoinSet::new();
    let mut running = HashSet::new();
    loop {
        while let Some(ended) = tasks.try_join_next() {
            if let Ok(id) = ended {
                running.remove(&id);
            }
        }
        match app.catalog.webhooks_of_all_tenants().await {
            Ok(all) => {
                if let Err(failure) = app.webhooks.delete_old_secrets(&all).await {
                    let cause = failure.summary();
                    tracing::warn!(cause, "cannot delete previous secrets of webhooks");
                }
                for webhook in all {
                    if running.insert(webhook.id.clone()) {
                        tasks.spawn(serve(app.clone(), webhook, client.clone()));
                    }
                }
            }
            Err(error) => tracing::warn!(cause = chain(&error), "cannot read webhooks"),
        }
        let _ = tokio::time::timeout(LOOK, app.webhooks.changed()).await;
    }
}

/// Delivers events to one webhook until the webhook is deleted. Returns its id.
async fn serve(app: Arc<App>, served: Webhook, client: Client) -> WebhookId {
    let (owner, id) = (served.tenant, served.id);
    let mut pulse = app.events.pulse();
    loop {
        match app.catalog.webhook(owner, &id).await {
            Ok(None) => return id,
            Ok(Some(webhook)) => match round(&app, &webhook, &client).await {
                Ok(true) => continue,
                Ok(false) => {}
                Err(failure) => {
                    let cause = failure.summary();
                    tracing::warn!(
                        webhook = %id,
                        cause,
                        "cannot deliver to a webhook; the server will retry"
                    );
                }
            },
            Err(error) => tracing::warn!(
                webhook = %id,
                cause = chain(&error),
                "cannot deliver to a webhook; the server will retry"
            ),
        }
        let _ = tokio::time::timeout(LOOK, pulse.changed()).await;
    }
}

/// Sends the deliveries of a webhook that are due, and records the attempts.
/// Returns true if any delivery was due.
async fn round(app: &App, webhook: &Webhook, client: &Client) -> Result<bool> {
    let Webhook { tenant, id, .. } = webhook;
    let read = || app.catalog.pending_deliveries(*tenant, id, WINDOW);
    let mut pending = read().await?;
    // Turns new events into pending deliveries, up to the window.
    while pending.len() < WINDOW as usize / 2 {
        let queued = app
            .catalog
            .queue_deliveries(*tenant, id, WINDOW / 2, clock::now());
        if queued.await? == 0 {
            break;
        }
        pending = read().await?;
    }
    let now = clock::now();
    // If the first delivery of a group waits for its retry, the later ones wait
    // as well, because a group is sent in order.
    let rows = rows(pending).into_iter().filter(|row| row[0].due <= now);
    let rows: Vec<_> = rows.collect();
    if rows.is_empty() {
        return Ok(false);
    }
    let sending: Vec<_> = rows
        .into_iter()
        .map(|row| send_row(app, webhook, client, row))
        .collect();
    let mut sending = futures::stream::iter(sending).buffer_unordered(AT_ONCE);
    let mut attempts = Vec::new();
    while let Some(some) = sending.next().await {
        attempts.extend(some);
        if attempts.len() >= 500 {
            let noted = app
                .catalog
                .note_attempts(*tenant, id, &attempts, clock::now());
            noted.await?;
            attempts.clear();
        }
    }
    let noted = app
        .catalog
        .note_attempts(*tenant, id, &attempts, clock::now());
    noted.await?;
    Ok(true)
}

/// Groups pending deliveries by the sandbox or project of their event. Each group
/// is in order and has at most [`IN_A_ROW`] deliveries.
fn rows(pending: Vec<Delivery>) -> Vec<Vec<Delivery>> {
    let mut places = HashMap::new();
    let mut rows: Vec<Vec<Delivery>> = Vec::new();
    for delivery in pending {
        let subject = delivery.event.event.subject.clone();
        let place = *places.entry(subject).or_insert_with(|| {
            rows.push(Vec::new());
            rows.len() - 1
        });
        if rows[place].len() < IN_A_ROW {
            rows[place].push(delivery);
        }
    }
    rows
}

/// Sends the deliveries of one group one after another, until one of them must be
/// retried. Returns the attempts.
async fn send_row(
    app: &App,
    webhook: &Webhook,
    client: &Client,
    row: Vec<Delivery>,
) -> Vec<Attempt> {
    let began = clock::instant();
    let mut attempts = Vec::new();
    for delivery in row {
        let tried = delivery.attempts + 1;
        let event = delivery.event.id;
        // Checked at each delivery, because WEBHOOK_ALLOW_PRIVATE may have been
        // turned off after the webhook was created.
        let allow_private = app.config.webhooks.allow_private;
        let sent = match outgoing::check_url(&webhook.url, allow_private) {
            Ok(_) => send(app, webhook, client, delivery).await,
            Err(why) => Err((None, why)),
        };
        let now = clock::now();
        let mut attempt = Attempt {
            event,
            state: DeliveryState::Delivered,
            attempts: tried,
            due: now,
            status: None,
            error: None,
        };
        match sent {
            Ok(status) => attempt.status = Some(status),
            Err((status, why)) => {
                (attempt.status, attempt.error) = (status, Some(why));
                match tried > app.config.webhooks.retries {
                    true => attempt.state = DeliveryState::Failed,
                    false => {
                        attempt.state = DeliveryState::Pending;
                        attempt.due = clock::after(now, pause(tried));
                    }
                }
            }
        }
        crate::platform::metrics::delivered(attempt.state);
        let is_blocked = attempt.state == DeliveryState::Pending;
        attempts.push(attempt);
        if is_blocked || began.elapsed() > ROW {
            break;
        }
    }
    attempts
}

/// Returns the time before the next attempt, after this number of failed
/// attempts.
fn pause(attempts: u32) -> Duration {
    let seconds = 5_u64.saturating_pow(attempts.saturating_sub(1));
    Duration::from_secs(seconds.min(600))
}

/// Sends one event. Returns the HTTP status, or the status (if any) and the
/// reason of the failure.
async fn send(
    app: &App,
    webhook: &Webhook,
    client: &Client,
    delivery: Delivery,
) -> std::result::Result<u16, (Option<u16>, String)> {
    let event = crate::app::events::out(delivery.event);
    let body = serde_json::to_vec(&event).unwrap_or_default();
    let millis = clock::millis();
    let (id, seconds) = (format!("{}_{}", webhook.id, event.id), millis / 1000);
    let mut request = client
        .post(&webhook.url)
        .header("content-type", "application/json")
        .header("webhook-id", &id)
        .header("webhook-timestamp", seconds.to_string())
        .header("x-webhook-event", &event.kind)
        .header("x-webhook-id", event.id.to_string())
        .header("x-webhook-timestamp", millis.to_string());
    // If a secret cannot be unsealed, the event is not sent: without a
    // signature the receiver cannot verify the sender.
    let secrets = app.webhooks.secrets_of(webhook).await;
    let secrets = secrets.map_err(|failure| (None, failure.message))?;
    if let Some(newest) = secrets.first() {
        let signature = signing::standard(&secrets, &id, seconds, &body);
        request = request
            .header("webhook-signature", signature)
            .header("x-webhook-signature", signing::of_body(newest, &body));
    }
    match request.body(body).send().await {
        Ok(answer) if answer.status().is_success() => Ok(answer.status().as_u16()),
        Ok(answer) => {
            let status = answer.status();
            Err((
                Some(status.as_u16()),
                format!("the receiver responded with {status}"),
            ))
        }
        // The owner of the webhook can read the recorded error. The URL is
        // removed because it may contain a secret.
        Err(error) => Err((None, chain(&error.without_url()))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_up_to_a_maximum() {
        let pauses = [1, 2, 3, 4, 5, 100].map(|tried| pause(tried).as_secs());
        assert_eq!(pauses, [1, 5, 25, 125, 600, 600]);
    }
}
