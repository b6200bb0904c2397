//! Reads files of a project.

use reqwest::{Method, RequestBuilder};

use crate::client::call::Call;
use crate::client::paths::project_path;

/// Returns the content of a file, and the headers that describe it.
pub(crate) fn read_file(
    call: &Call,
    name: &str,
    path: &str,
    at: Option<&String>,
) -> anyhow::Result<(reqwest::header::HeaderMap, bytes::Bytes)> {
    let request = call
        .client
        .request(Method::GET, &project_path(name, &["files"]));
    let request = request.query(&[("path", path)]);
    let request = at_snapshot(request, at);
    let answer = call.watch("reading", async {
        let answer = call.client.send(request).await?;
        let headers = answer.headers().clone();
        let body = call.client.body(answer).await?;
        Ok::<_, crate::client::error::ClientError>((headers, body))
    });
    Ok(answer?)
}

fn at_snapshot(request: RequestBuilder, at: Option<&String>) -> RequestBuilder {
    match at {
        Some(at) => request.query(&[("snapshot", at)]),
        None => request,
    }
}

/// Returns the content of a file as text, with invalid UTF-8 replaced.
pub(crate) fn read_text(
    call: &Call,
    name: &str,
    path: &str,
    at: Option<&String>,
) -> anyhow::Result<String> {
    let (_, bytes) = read_file(call, name, path, at)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
