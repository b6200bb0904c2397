//! Requests all pages of a list.

use reqwest::Method;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::client::call::Call;
use crate::client::error::Result;
use crate::client::http::Client;

/// Items per request, which every list allows.
pub(crate) const PAGE: u32 = 100;

/// A page of any list.
#[derive(Debug, Deserialize)]
pub(crate) struct Page<T> {
    pub(crate) items: Vec<T>,
    pub(crate) next: Option<String>,
}

/// Requests the page after a cursor, or the first page.
pub(crate) async fn page<T: DeserializeOwned>(
    client: &Client,
    path: &[&str],
    query: &[(&str, String)],
    cursor: Option<&str>,
    limit: u32,
) -> Result<Page<T>> {
    let request = client.request(Method::GET, path);
    let request = request.query(query).query(&[("limit", limit)]);
    let request = match cursor {
        Some(cursor) => request.query(&[("cursor", cursor)]),
        None => request,
    };
    client.json(request).await
}

/// Requests the first `most` items of a list, or all.
pub(crate) async fn items<T: DeserializeOwned>(
    client: &Client,
    path: &[&str],
    query: &[(&str, String)],
    most: usize,
) -> Result<Vec<T>> {
    let (mut found, mut cursor) = (Vec::new(), None::<String>);
    while found.len() < most {
        let next = page(client, path, query, cursor.as_deref(), PAGE).await?;
        found.extend(next.items);
        cursor = next.next;
        if cursor.is_none() {
            break;
        }
    }
    Ok(found)
}

/// Requests all pages of a list, and passes each to `take`. Returns the number
/// of items.
pub(crate) fn pages<T: DeserializeOwned>(
    call: &mut Call,
    path: &[&str],
    query: &[(&str, String)],
    mut take: impl FnMut(&mut Call, Vec<T>) -> anyhow::Result<()>,
) -> anyhow::Result<usize> {
    let (mut cursor, mut seen) = (None::<String>, 0);
    loop {
        let next = page(&call.client, path, query, cursor.as_deref(), PAGE);
        let next = call.wait(next)?;
        seen += next.items.len();
        take(call, next.items)?;
        cursor = next.next;
        if cursor.is_none() {
            return Ok(seen);
        }
    }
}
