use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::Event;

/// Request to create a webhook, which delivers events by HTTP.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CreateWebhook {
    /// URL to send deliveries to: `http` or `https`.
    #[schema(max_length = 2048, example = "https://example.com/elevo")]
    pub url: String,
    /// Secret that signs deliveries, by HMAC-SHA256 over the body; deliveries
    /// are not signed if it is absent. No response contains the secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 256)]
    pub secret: Option<String>,
    /// Kinds of events to deliver, such as `sandbox.created`. If empty, all
    /// events that the key may see.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<String>,
}

/// A receiver of events by HTTP.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Webhook {
    /// Id of the webhook.
    pub id: String,
    /// URL that deliveries are sent to.
    pub url: String,
    /// Whether deliveries are signed.
    pub signed: bool,
    /// Kinds of the delivered events.
    pub events: Vec<String>,
    /// When the webhook was created.
    pub created_at: String,
}

/// The webhooks of a tenant.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct WebhookList {
    /// The webhooks, oldest first.
    pub items: Vec<Webhook>,
}

/// The delivery of one event to a webhook.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Delivery {
    /// The event.
    pub event: Event,
    /// State of the delivery: `pending`, `delivered` or `failed`.
    pub state: String,
    /// Number of attempts so far.
    pub attempts: u32,
    /// HTTP status of the last response.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// Why the last attempt failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// When the next attempt is made, if the delivery is pending.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_at: Option<String>,
    /// When the last attempt was made, or the delivery was queued.
    pub updated_at: String,
}

/// Deliveries of a webhook.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct DeliveryPage {
    /// The deliveries, newest event first.
    pub items: Vec<Delivery>,
}
