//! `Idempotency-Key`: a create that is repeated is carried out once, and the
//! repetition has the same answer.

use std::time::Duration;

use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use elevo_catalog::{Begun, IdempotentRequest};
use elevo_core::{ErrorCode, TenantId};

use crate::clock;
use crate::failure::Failure;
use crate::http::answer::{Answer, ApiError};
use crate::http::{BODY, Shared, request};

/// Here the body is an archive, which is not held in memory to be compared: the
/// key alone says that it is the same request.
const ARCHIVES: &str = "/api/v1/snapshots";
/// Routes that make something.
const CREATES: &[&str] = &[
    "/api/v1/sandboxes",
    "/api/v1/sandboxes/{id}/fork",
    "/api/v1/sandboxes/{id}/snapshot",
    "/api/v1/sandboxes/{id}/pty",
    "/api/v1/sandboxes/{id}/process/run",
    "/api/v1/templates",
    "/api/v1/keys",
    "/api/v1/agents",
    "/api/v1/tenants",
    ARCHIVES,
];
const KEPT: Duration = Duration::from_secs(24 * 3600);
const LARGEST: usize = elevo_catalog::MAX_BODY_BYTES;

pub(super) async fn once(State(shared): State<Shared>, request: Request, next: Next) -> Response {
    let path = request.extensions().get::<MatchedPath>();
    let is_create = path.is_some_and(|path| CREATES.contains(&path.as_str()));
    let key = request.headers().get("idempotency-key").cloned();
    match key {
        Some(key) if is_create && request.method() == Method::POST => {
            let answer = run_once(&shared, &key, request, next).await;
            answer.unwrap_or_else(IntoResponse::into_response)
        }
        _ => next.run(request).await,
    }
}

async fn run_once(
    shared: &Shared,
    key: &HeaderValue,
    request: Request,
    next: Next,
) -> Answer<Response> {
    let key = key
        .to_str()
        .ok()
        .filter(|key| (1..=200).contains(&key.len()));
    let key = key
        .ok_or_else(|| Failure::invalid("`Idempotency-Key` must have 1 to 200 plain characters"))?;
    let (parts, body) = request.into_parts();
    let secret = request::secret(&parts.headers);
    let Some(secret) = secret else {
        // The handler says what is missing.
        return Ok(next.run(Request::from_parts(parts, body)).await);
    };
    let who = shared.app.authenticate(secret).await?;
    let route = format!("{} {}", parts.method, parts.uri.path());
    let (fingerprint, body) = match parts.uri.path() == ARCHIVES {
        true => ([0; 32], body),
        false => {
            let bytes = to_bytes(body, BODY).await;
            let too_large = |_| Failure::new(ErrorCode::PayloadTooLarge, "the body is too large");
            let bytes = bytes.map_err(too_large)?;
            (*blake3::hash(&bytes).as_bytes(), Body::from(bytes))
        }
    };
    // Keys of different owners never meet.
    let name = format!("{}:{key}", who.key);
    let begun = begin(shared, who.tenant, &name, route, fingerprint).await?;
    if let Some(answer) = begun {
        return Ok(answer);
    }
    let request = Request::from_parts(parts, body);
    let answer = next.run(request).await;
    finish(shared, who.tenant, &name, answer).await
}

/// Notes the request; what it was answered before, if it was.
async fn begin(
    shared: &Shared,
    tenant: TenantId,
    key: &str,
    route: String,
    fingerprint: [u8; 32],
) -> Answer<Option<Response>> {
    let now = clock::now();
    let request = IdempotentRequest {
        tenant,
        key: key.into(),
        route,
        fingerprint,
        now,
        keep_until: clock::after(now, KEPT),
    };
    let catalog = &shared.app.catalog;
    match catalog.begin(&request).await.map_err(Failure::from)? {
        Begun::New => Ok(None),
        Begun::Done { status, body } => {
            let status = StatusCode::from_u16(status).unwrap_or(StatusCode::OK);
            let json = HeaderValue::from_static("application/json");
            let mut answer = (status, body).into_response();
            answer.headers_mut().insert(header::CONTENT_TYPE, json);
            let yes = HeaderValue::from_static("true");
            answer.headers_mut().insert("idempotency-replayed", yes);
            Ok(Some(answer))
        }
        Begun::Running => {
            let message = "a request with this `Idempotency-Key` is at work";
            Err(Failure::new(ErrorCode::IdempotencyRunning, message)
                .retry_after(1)
                .into())
        }
        Begun::Mismatch => {
            let message = "this `Idempotency-Key` was used for another request";
            Err(Failure::new(ErrorCode::IdempotencyMismatch, message).into())
        }
    }
}

/// Keeps an answer that a repetition should have, too. Failures of the server
/// and streams are not kept: they may be tried again.
async fn finish(
    shared: &Shared,
    tenant: TenantId,
    key: &str,
    answer: Response,
) -> Answer<Response> {
    let catalog = &shared.app.catalog;
    let (parts, body) = answer.into_parts();
    let is_json = parts.headers.get(header::CONTENT_TYPE);
    let is_json = is_json.is_some_and(|kind| kind.as_bytes().starts_with(b"application/json"));
    let is_final = parts.status.is_success();
    if !is_json || !is_final {
        catalog.abandon(tenant, key).await.map_err(Failure::from)?;
        return Ok(Response::from_parts(parts, body));
    }
    let bytes = to_bytes(body, usize::MAX).await;
    let bytes = bytes.map_err(|error| Failure::internal(&error))?;
    let kept = without_secret(&bytes);
    let done = match kept.len() <= LARGEST {
        true => {
            catalog
                .finish(tenant, key, parts.status.as_u16(), &kept)
                .await
        }
        false => catalog.abandon(tenant, key).await,
    };
    done.map_err(Failure::from).map_err(ApiError::from)?;
    Ok(Response::from_parts(parts, Body::from(bytes)))
}

/// A secret is told once and kept nowhere.
fn without_secret(body: &Bytes) -> Vec<u8> {
    let mut value: serde_json::Value = serde_json::from_slice(body).unwrap_or_default();
    match value
        .as_object_mut()
        .and_then(|object| object.remove("secret"))
    {
        Some(_) => serde_json::to_vec(&value).unwrap_or_default(),
        None => body.to_vec(),
    }
}
