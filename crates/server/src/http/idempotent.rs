//! `Idempotency-Key`: a retried request is carried out once, and every retry
//! receives the response of the first.
//!
//! The layer wraps every `POST` and `PUT`. A request with a key runs in a
//! separate task, so that a client that disconnects neither cancels the request
//! nor leaves its key marked as running.

use axum::body::{Body, HttpBody, to_bytes};
use axum::extract::{MatchedPath, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use elevo_core::ErrorCode;
use serde_json::Value;
use utoipa::openapi::path::{Operation, ParameterBuilder, ParameterIn};
use utoipa::openapi::schema::{ObjectBuilder, Type};
use utoipa::openapi::{OpenApi, Required};

use crate::app::requests::{Beginning, Sent, Turn};
use crate::failure::Failure;
use crate::http::answer::{Answer, ApiError};
use crate::http::enter::Entered;
use crate::http::layers;
use crate::http::route_rules::RouteRule;
use crate::http::shared::Shared;

/// Maximum length of an idempotency key.
const KEY_BYTES: usize = 200;

/// Adds the header `Idempotency-Key` to the OpenAPI description of every route
/// that this layer wraps.
pub(super) fn describe(api: &mut OpenApi) {
    for item in api.paths.paths.values_mut() {
        for operation in [&mut item.post, &mut item.put].into_iter().flatten() {
            describe_one(operation);
        }
    }
}

fn describe_one(operation: &mut Operation) {
    let text = ObjectBuilder::new().schema_type(Type::String);
    let text = text.min_length(Some(1)).max_length(Some(KEY_BYTES));
    let header = ParameterBuilder::new()
        .name("Idempotency-Key")
        .parameter_in(ParameterIn::Header)
        .required(Required::False)
        .description(Some(
            "A retry with the same idempotency key, route and body returns the first result \
             instead of repeating the operation. The server keeps an idempotency key for a day.",
        ))
        .schema(Some(text));
    operation
        .parameters
        .get_or_insert_default()
        .push(header.build().into());
}

pub(super) async fn once(State(shared): State<Shared>, request: Request, next: Next) -> Response {
    let is_change = matches!(*request.method(), Method::POST | Method::PUT);
    let path = request.extensions().get::<MatchedPath>().cloned();
    let key = request.headers().get("idempotency-key").cloned();
    match (key, path) {
        (Some(key), Some(path)) if is_change => {
            let answer = run_once(shared, &key, path.as_str(), request, next).await;
            answer.unwrap_or_else(IntoResponse::into_response)
        }
        _ => next.run(request).await,
    }
}

async fn run_once(
    shared: Shared,
    key: &HeaderValue,
    pattern: &str,
    request: Request,
    next: Next,
) -> Answer<Response> {
    let key = key
        .to_str()
        .ok()
        .filter(|key| (1..=KEY_BYTES).contains(&key.len()));
    let key = key
        .ok_or_else(|| Failure::invalid("`Idempotency-Key` must have 1 to 200 ASCII characters"))?;
    let (parts, body) = request.into_parts();
    let Some(entered) = parts.extensions.get::<Entered>() else {
        // The request has no API key, so its handler rejects it.
        return Ok(next.run(Request::from_parts(parts, body)).await);
    };
    let who = entered.who()?;
    let route = format!("{} {}", parts.method, parts.uri.path());
    let rule = shared.rules.of(&parts.method, pattern);
    let (content, body) = content(rule, &parts, body).await?;
    let content: Vec<_> = content.iter().map(Vec::as_slice).collect();
    let sent = Sent::new(&who, &route, key, &content);
    let request = Request::from_parts(parts, body);
    let task = layers::in_own_task(async move { carry_out(shared, &sent, request, next).await });
    task.await
        .unwrap_or_else(|error| Err(Failure::internal(&error).into()))
}

/// Returns the parts of a request that a retry must repeat, and the body.
async fn content(rule: &RouteRule, parts: &Parts, body: Body) -> Answer<(Vec<Vec<u8>>, Body)> {
    // The query counts as content, because the route contains only the path.
    let query = parts.uri.query().unwrap_or_default().into();
    // An archive is too large to hold in memory: its length and, if the client
    // sends one, its digest are compared instead.
    let Some(limit) = rule.body_limit() else {
        let header = |name| {
            parts
                .headers
                .get(name)
                .map_or(&b""[..], HeaderValue::as_bytes)
        };
        let length = header("content-length").to_vec();
        return Ok((vec![query, length, header("content-digest").to_vec()], body));
    };
    let bytes = to_bytes(body, limit).await;
    let bytes = bytes.map_err(|error| {
        let cause = std::error::Error::source(&error);
        match cause.is_some_and(|cause| cause.is::<http_body_util::LengthLimitError>()) {
            true => Failure::new(ErrorCode::PayloadTooLarge, "the body is too large"),
            false => Failure::invalid(format!("the body cannot be read: {error}")),
        }
    })?;
    Ok((vec![query, bytes.to_vec()], Body::from(bytes)))
}

async fn carry_out(
    shared: Shared,
    sent: &Sent,
    mut request: Request,
    next: Next,
) -> Answer<Response> {
    match shared.app.requests.begin(sent).await? {
        Beginning::Run(turn) => {
            request.extensions_mut().insert(turn.once());
            let answer = next.run(request).await;
            settle(turn, answer).await
        }
        Beginning::Look(once) => {
            request.extensions_mut().insert(once);
            let answer = next.run(request).await;
            Ok(match answer.status().is_success() {
                true => replayed(answer),
                false => answer,
            })
        }
        Beginning::Answered { status, body } => {
            crate::platform::audit::detail("replayed", true);
            let status = StatusCode::from_u16(status).unwrap_or(StatusCode::OK);
            let mut answer = Response::new(Body::from(body));
            *answer.status_mut() = status;
            if !answer.body().is_end_stream() {
                let json = HeaderValue::from_static("application/json");
                answer.headers_mut().insert(header::CONTENT_TYPE, json);
            }
            Ok(replayed(answer))
        }
    }
}

fn replayed(mut answer: Response) -> Response {
    let yes = HeaderValue::from_static("true");
    answer.headers_mut().insert("idempotency-replayed", yes);
    answer
}

/// Stores a response for retries. A failure is not stored, because a retry may
/// succeed.
async fn settle(turn: Turn, answer: Response) -> Answer<Response> {
    let (parts, body) = answer.into_parts();
    let status = parts.status;
    if !status.is_success() {
        turn.fail(status.is_client_error()).await;
        return Ok(Response::from_parts(parts, body));
    }
    // A retry reads the output of the command instead of a stored response.
    if turn.is_command() {
        turn.finish(status.as_u16(), None).await;
        return Ok(Response::from_parts(parts, body));
    }
    let is_json = parts.headers.get(header::CONTENT_TYPE);
    let is_json = is_json.is_some_and(|kind| kind.as_bytes().starts_with(b"application/json"));
    let is_kept = is_json || body.is_end_stream();
    // A body that is neither JSON nor empty is the progress of an image pull; a
    // retry finds the pulled image.
    if turn.is_unstored() || !is_kept {
        turn.forget().await;
        return Ok(Response::from_parts(parts, body));
    }
    let bytes = to_bytes(body, usize::MAX).await;
    let bytes = bytes.map_err(|error| ApiError::from(Failure::internal(&error)))?;
    turn.finish(status.as_u16(), Some(&kept(&bytes))).await;
    Ok(Response::from_parts(parts, Body::from(bytes)))
}

/// Returns the part of a response that is stored: without the secret, which
/// only the first response contains, and with shortened lists if the response
/// is too long.
fn kept(body: &[u8]) -> Vec<u8> {
    let Ok(mut value) = serde_json::from_slice::<Value>(body) else {
        return Vec::new();
    };
    let secret = value.as_object_mut().and_then(|it| it.remove("secret"));
    if secret.is_none() && body.len() <= elevo_catalog::MAX_BODY_BYTES {
        return body.to_vec();
    }
    loop {
        let text = value.to_string().into_bytes();
        let longest = longest_list(&mut value);
        match longest {
            Some(list) if text.len() > elevo_catalog::MAX_BODY_BYTES => {
                list.truncate(list.len() / 2);
            }
            _ => return text,
        }
    }
}

/// Returns the largest non-empty list in a value.
fn longest_list(value: &mut Value) -> Option<&mut Vec<Value>> {
    let inside: Vec<_> = match value {
        Value::Array(list) if list.is_empty() => return None,
        Value::Array(list) => return Some(list),
        Value::Object(fields) => fields.values_mut().filter_map(longest_list).collect(),
        _ => return None,
    };
    let size = |list: &Vec<Value>| {
        list.iter()
            .map(|item| item.to_string().len())
            .sum::<usize>()
    };
    inside.into_iter().max_by_key(|list| size(list))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn stores_a_response_without_its_secret() {
        let body = br#"{"id": "key-1", "secret": "hidden"}"#;
        assert_eq!(kept(body), br#"{"id":"key-1"}"#);
        assert_eq!(kept(br#"{ "id": 1 }"#), br#"{ "id": 1 }"#);
        assert_eq!(kept(b""), b"");
    }

    #[test]
    fn stores_a_long_response_with_shorter_lists() {
        let long: Vec<_> = (0..10_000).map(|n| format!("path/{n}")).collect();
        let body = json!({"step": 7, "merge": {"landed": long, "refused": ["one"]}});
        let found = kept(body.to_string().as_bytes());
        assert!(found.len() <= elevo_catalog::MAX_BODY_BYTES);
        let found: Value = serde_json::from_slice(&found).unwrap();
        assert_eq!(found["step"], 7);
        assert_eq!(found["merge"]["refused"], json!(["one"]));
        let landed = found["merge"]["landed"].as_array().unwrap();
        assert!(
            landed.len() > 1000 && landed.len() < 10_000,
            "{}",
            landed.len()
        );
    }
}
