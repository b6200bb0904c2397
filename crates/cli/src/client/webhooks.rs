//! Requests the list of webhooks.

use elevo_api as api;
use reqwest::Method;

use crate::client::error::Result;
use crate::client::http::Client;
use crate::client::paths::WEBHOOKS;

/// Returns all webhooks that the key may manage, oldest first.
pub(crate) async fn webhooks(client: &Client) -> Result<Vec<api::Webhook>> {
    let (mut found, mut cursor) = (Vec::new(), None::<String>);
    loop {
        let mut query = vec![("limit", "100".to_owned())];
        query.extend(cursor.take().map(|cursor| ("cursor", cursor)));
        let request = client.request(Method::GET, &WEBHOOKS).query(&query);
        let page: api::WebhookPage = client.json(request).await?;
        found.extend(page.items);
        match page.next {
            Some(next) => cursor = Some(next),
            None => return Ok(found),
        }
    }
}
