//! Webhooks of tenants: adds, lists and deletes them, and lists and repeats
//! their deliveries. `jobs::deliveries` sends the events.

mod rotation;

use elevo_api as api;
use elevo_api::Scope;
use elevo_catalog::Catalog;
use elevo_catalog::{Delivery, DeliveryState, EventKind, Position, Webhook, WebhookChange};
use elevo_core::{ErrorCode, WebhookId};
use std::sync::Arc;
use tokio::sync::Notify;

use crate::app::access::principal::Principal;
use crate::app::access::secrets::Secrets;
use crate::app::events::{self, allowed_kinds, wanted_kinds};
use crate::app::missing::no_webhook;
use crate::app::pages::PageQuery;
use crate::app::requests::once::Once;
use crate::app::resources::Resources;
use crate::app::timekeeping::Timekeeper;
use crate::config::Config;
use crate::failure::{Failure, Result};
use crate::platform::vault::Belonging;
use crate::platform::{clock, outgoing, signing};

/// The filters of a list of deliveries.
#[derive(Clone, Debug, Default)]
pub(crate) struct DeliveriesQuery {
    pub(crate) state: Option<api::DeliveryState>,
    /// Only deliveries of events with a smaller number than this.
    pub(crate) cursor: Option<u64>,
    pub(crate) limit: Option<u32>,
}

/// The id of the webhook that the setting `WEBHOOK_URL` creates.
fn own_id() -> WebhookId {
    let id = "wh-settings".parse();
    id.unwrap_or_else(|_| unreachable!("`wh-settings` is a valid id"))
}

/// Manages the webhooks of tenants and the webhook of the settings.
pub(crate) struct Webhooks {
    catalog: Arc<dyn Catalog>,
    config: Arc<Config>,
    secrets: Arc<Secrets>,
    time: Arc<Timekeeper>,
    /// Notified when a webhook was added or deleted, or when a delivery is to be
    /// repeated.
    hooks: Notify,
}

impl Webhooks {
    pub(crate) fn new(resources: &Resources, secrets: &Arc<Secrets>) -> Self {
        Self {
            catalog: resources.catalog.clone(),
            config: resources.config.clone(),
            secrets: secrets.clone(),
            time: resources.time.clone(),
            hooks: Notify::new(),
        }
    }

    /// Waits until a webhook was added or deleted, or until a delivery is to be
    /// repeated.
    pub(crate) async fn changed(&self) {
        self.hooks.notified().await;
    }

    /// Notifies the job that delivers events, so that it reads the webhooks and
    /// the pending deliveries from the catalog.
    pub(crate) fn look_again(&self) {
        self.hooks.notify_one();
    }

    pub(crate) async fn add(
        &self,
        who: &Principal,
        wish: api::CreateWebhook,
        once: &Once,
    ) -> Result<api::Webhook> {
        who.needs(Scope::Webhooks)?;
        let id = once.id();
        if once.is_again()
            && let Some(made) = self.catalog.webhook(Some(who.tenant), &id).await?
        {
            return Ok(out(made));
        }
        let kinds = kinds_for(who, &wish.kinds)?;
        self.check_url(&wish.url)?;
        let secret = wish.secret.unwrap_or_default();
        if !secret.is_empty() {
            check_secret(&secret)?;
        }
        let belonging = Belonging::webhook(Some(who.tenant));
        let secret = self.secrets.seal_secret(belonging, &secret).await?;
        let webhook = Webhook {
            id,
            tenant: Some(who.tenant),
            agent: who.agent.clone(),
            url: wish.url,
            secret,
            previous_secret: String::new(),
            previous_until: None,
            kinds,
            created: clock::now(),
        };
        self.catalog.add_webhook(&webhook).await?;
        self.look_again();
        Ok(out(webhook))
    }

    pub(crate) async fn list(&self, who: &Principal, query: PageQuery) -> Result<api::WebhookPage> {
        who.needs(Scope::Webhooks)?;
        // A tenant has few webhooks, so the catalog returns all of them.
        let all = self.catalog.webhooks(Some(who.tenant)).await?;
        let own = all.into_iter().filter(|webhook| is_own(who, webhook));
        let (page, next) = query.cut_by_position(own, place)?;
        Ok(api::WebhookPage {
            next,
            items: page.into_iter().map(out).collect(),
        })
    }

    pub(crate) async fn get(&self, who: &Principal, id: &WebhookId) -> Result<api::Webhook> {
        Ok(out(self.own(who, id).await?))
    }

    pub(crate) async fn change(
        &self,
        who: &Principal,
        id: &WebhookId,
        wish: api::ChangeWebhook,
    ) -> Result<api::Webhook> {
        let webhook = self.own(who, id).await?;
        if let Some(url) = &wish.url {
            self.check_url(url)?;
        }
        let kinds = wish.kinds.map(|kinds| kinds_for(who, &kinds));
        let change = WebhookChange {
            url: wish.url,
            kinds: kinds.transpose()?,
        };
        let changed = self
            .catalog
            .change_webhook(webhook.tenant, &webhook.id, &change)
            .await?;
        changed.map(out).ok_or_else(|| no_webhook(id))
    }

    fn check_url(&self, url: &str) -> Result<()> {
        match outgoing::check_url(url, self.config.webhooks.allow_private) {
            Ok(_) => Ok(()),
            Err(why) => Err(Failure::invalid(format!("`url`: {why}"))),
        }
    }

    pub(crate) async fn remove(&self, who: &Principal, id: &WebhookId) -> Result<()> {
        let webhook = self.own(who, id).await?;
        self.catalog
            .remove_webhook(webhook.tenant, &webhook.id)
            .await?;
        self.look_again();
        Ok(())
    }

    /// Returns a webhook that the principal may manage. For other webhooks the
    /// failure is the same as for a missing one.
    async fn own(&self, who: &Principal, id: &WebhookId) -> Result<Webhook> {
        who.needs(Scope::Webhooks)?;
        let found = self.catalog.webhook(Some(who.tenant), id).await?;
        let found = found.filter(|webhook| is_own(who, webhook));
        found.ok_or_else(|| no_webhook(id))
    }

    pub(crate) async fn deliveries(
        &self,
        who: &Principal,
        id: &WebhookId,
        query: &DeliveriesQuery,
    ) -> Result<api::DeliveryPage> {
        let webhook = self.own(who, id).await?;
        let limit = query.limit.unwrap_or(100);
        if !(1..=1000).contains(&limit) {
            return Err(Failure::invalid("`limit` must be 1 to 1000"));
        }
        let state = query.state.map(|state| match state {
            api::DeliveryState::Pending => DeliveryState::Pending,
            api::DeliveryState::Delivered => DeliveryState::Delivered,
            api::DeliveryState::Failed => DeliveryState::Failed,
        });
        let found = self
            .catalog
            .deliveries(webhook.tenant, &webhook.id, state, query.cursor, limit)
            .await?;
        let last = found.last().filter(|_| found.len() >= limit as usize);
        Ok(api::DeliveryPage {
            next: last.map(|last| last.event.id.to_string()),
            items: found.into_iter().map(delivery_out).collect(),
        })
    }

    /// Schedules a new delivery of an event, even if an earlier delivery
    /// succeeded.
    pub(crate) async fn replay(&self, who: &Principal, id: &WebhookId, event: u64) -> Result<()> {
        let webhook = self.own(who, id).await?;
        match self
            .catalog
            .replay(webhook.tenant, &webhook.id, event, clock::now())
            .await?
        {
            true => {
                self.look_again();
                Ok(())
            }
            false => {
                let message = format!("there is no delivery of event {event} to this webhook");
                Err(Failure::new(ErrorCode::NotFound, message))
            }
        }
    }

    /// Makes the catalog match the webhook in the settings: adds, replaces or
    /// deletes its row.
    pub(crate) async fn adopt_configured(&self) -> Result<()> {
        let settings = &self.config.webhooks;
        let id = own_id();
        let there = self.catalog.webhook(None, &id).await?;
        let secret = settings.secret.as_ref().map_or("", |secret| &secret.0);
        let is_same = |webhook: &Webhook| {
            let has_secret = |kept: Option<String>| kept.as_deref().unwrap_or("") == secret;
            Some(&webhook.url) == settings.url.as_ref()
                && self.secrets.secret_of(webhook).is_ok_and(has_secret)
        };
        if there.as_ref().is_some_and(is_same) {
            return Ok(());
        }
        if there.is_some() {
            self.catalog.remove_webhook(None, &id).await?;
        }
        if let Some(url) = &settings.url {
            let webhook = Webhook {
                id,
                tenant: None,
                agent: None,
                url: url.clone(),
                secret: self
                    .secrets
                    .seal_secret(Belonging::webhook(None), secret)
                    .await?,
                previous_secret: String::new(),
                previous_until: None,
                // An empty list means all kinds of events.
                kinds: Vec::new(),
                created: clock::now(),
            };
            self.catalog.add_webhook(&webhook).await?;
        }
        Ok(())
    }
}

/// Returns true if the principal may manage a webhook of its tenant. A key that
/// is bound to an agent may manage only that agent's webhooks.
fn is_own(who: &Principal, webhook: &Webhook) -> bool {
    who.agent.is_none() || who.agent == webhook.agent
}

fn out(webhook: Webhook) -> api::Webhook {
    api::Webhook {
        id: webhook.id.to_string(),
        url: webhook.url,
        signed: !webhook.secret.is_empty(),
        kinds: webhook.kinds.into_iter().map(String::from).collect(),
        previous_until: webhook.previous_until.map(clock::text),
        created_at: clock::text(webhook.created),
    }
}

/// Returns the kinds of events of a webhook: the requested ones, or all that the
/// principal may see.
fn kinds_for(who: &Principal, kinds: &[String]) -> Result<Vec<EventKind>> {
    let allowed = allowed_kinds(who)?;
    match kinds.is_empty() {
        true => Ok(allowed),
        false => wanted_kinds(kinds.iter().map(String::as_str), &allowed),
    }
}

fn check_secret(secret: &str) -> Result<()> {
    let checked = signing::check_secret(secret);
    checked.map_err(|why| Failure::invalid(format!("`secret`: {why}")))
}

/// Returns the position of a webhook in the list.
fn place(webhook: &Webhook) -> Position {
    Position {
        created: webhook.created,
        id: webhook.id.to_string(),
    }
}

fn delivery_out(delivery: Delivery) -> api::Delivery {
    let is_pending = delivery.state == DeliveryState::Pending;
    api::Delivery {
        event: events::out(delivery.event),
        state: match delivery.state {
            DeliveryState::Pending => api::DeliveryState::Pending,
            DeliveryState::Delivered => api::DeliveryState::Delivered,
            DeliveryState::Failed => api::DeliveryState::Failed,
        },
        attempts: delivery.attempts,
        status: delivery.status,
        error: delivery.error,
        next_at: is_pending.then(|| clock::text(delivery.due)),
        updated_at: clock::text(delivery.updated),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_api_lists_all_kinds_of_events() {
        assert_eq!(
            elevo_catalog::EventKind::ALL.map(|kind| kind.name()),
            api::EVENT_KINDS
        );
    }
}
