//! Requests the list of webhooks.

use elevo_api as api;

use crate::client::error::Result;
use crate::client::http::Client;
use crate::client::pages::items;
use crate::client::paths::WEBHOOKS;

/// Returns all webhooks that the key may manage, oldest first.
pub(crate) async fn webhooks(client: &Client) -> Result<Vec<api::Webhook>> {
    items(client, &WEBHOOKS, &[], usize::MAX).await
}
