use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::Event;

/// A wish to be told of events by HTTP.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CreateWebhook {
    /// Where to: `http` or `https`.
    #[schema(max_length = 2048, example = "https://example.com/elevo")]
    pub url: String,
    /// What deliveries are signed with, by HMAC-SHA256 over the body; they are
    /// not if it is left out. It is shown to nobody.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 256)]
    pub secret: Option<String>,
    /// Which events; all that the key may know of if there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<String>,
}

/// Somebody who is told of events.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Webhook {
    /// Its id.
    pub id: String,
    /// Where to.
    pub url: String,
    /// Whether deliveries are signed.
    pub signed: bool,
    /// Which events.
    pub events: Vec<String>,
    /// When it was made.
    pub created_at: String,
}

/// The webhooks of a tenant.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct WebhookList {
    /// Oldest first.
    pub items: Vec<Webhook>,
}

/// An event on its way.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Delivery {
    /// What is delivered.
    pub event: Event,
    /// `pending`, `delivered` or `failed`.
    pub state: String,
    /// How often it was tried.
    pub attempts: u32,
    /// The status of the last answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// Why the last attempt failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// When it is tried next, if it is pending.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_at: Option<String>,
    /// When it was tried last, or queued.
    pub updated_at: String,
}

/// Deliveries of a webhook.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct DeliveryPage {
    /// Newest event first.
    pub items: Vec<Delivery>,
}
