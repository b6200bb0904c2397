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
    /// Secret that signs deliveries by HMAC-SHA256; deliveries are not signed if
    /// it is absent. A secret of the form `whsec_` and 24 to 64 bytes in base64
    /// is decoded: these bytes are the key. Otherwise the bytes of the secret
    /// are the key. No response contains the secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 256)]
    pub secret: Option<String>,
    /// Kinds of events to deliver, such as `sandbox.created`. If empty, all
    /// events that the key may see.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kinds: Vec<String>,
}

/// Changes to a webhook. Absent fields stay as they are.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ChangeWebhook {
    /// New URL. Pending deliveries are sent there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 2048, example = "https://example.com/elevo")]
    pub url: Option<String>,
    /// New kinds of events to deliver. If empty, all events that the key may
    /// see. Pending deliveries stay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kinds: Option<Vec<String>>,
}

/// Request to give a webhook a new secret.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RotateWebhook {
    /// The new secret, in a form that `POST /webhooks` accepts. If absent, the
    /// server creates one and returns it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 256)]
    pub secret: Option<String>,
    /// Seconds for which deliveries also carry a signature by the present
    /// secret; 86,400 (a day) by default. With 0, the present secret is deleted
    /// at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(maximum = 604800)]
    pub keep_seconds: Option<u32>,
}

/// A webhook with a new secret.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RotatedWebhook {
    /// The webhook.
    #[serde(flatten)]
    pub webhook: Webhook,
    /// The new secret, if the server created it. No other response has it, not
    /// even the response to a retry with the same `Idempotency-Key`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
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
    pub kinds: Vec<String>,
    /// Until when deliveries also carry a signature by the secret before the
    /// last rotation; absent if only one secret signs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous_until: Option<String>,
    /// When the webhook was created.
    pub created_at: String,
}

/// A page of webhooks.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct WebhookPage {
    /// The webhooks, oldest first.
    pub items: Vec<Webhook>,
    /// Cursor of the next page; absent on the last page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// State of a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum DeliveryState {
    /// The event is to be sent, for the first time or again.
    Pending,
    /// The receiver has accepted the event.
    Delivered,
    /// All attempts have failed.
    Failed,
}

/// The delivery of one event to a webhook.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Delivery {
    /// The event.
    pub event: Event,
    /// State of the delivery.
    pub state: DeliveryState,
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

/// A page of the deliveries of a webhook.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct DeliveryPage {
    /// The deliveries, newest event first.
    pub items: Vec<Delivery>,
    /// Cursor of the next page; absent on the last page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}
