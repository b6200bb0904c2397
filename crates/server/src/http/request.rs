//! Extractors of request parts. A rejection is an error response in the same
//! format as every other API error.

use axum::extract::rejection::JsonRejection;
use axum::extract::{FromRequest, FromRequestParts, MatchedPath, Request};
use axum::http::header::{AUTHORIZATION, HeaderMap};
use axum::http::request::Parts;
use axum::http::{Method, StatusCode};
use elevo_core::{AgentId, ErrorCode, KeyId, ReviewId, SandboxId, WebhookId, WorkspaceId};
use serde::de::DeserializeOwned;

use crate::app::access::principal::Principal;
use crate::app::missing::{no_key, no_review, no_webhook};
use crate::app::projects::project_ref::ProjectRef;
use crate::app::requests::once::Once;
use crate::failure::{Failure, short};
use crate::http::answer::ApiError;
use crate::http::enter::Entered;
use crate::http::shared::Shared;

/// The caller. Extraction succeeds only if the key is valid and within its rate
/// limits, and there is space for the request.
pub(crate) struct Who(pub(crate) Principal);

impl FromRequestParts<Shared> for Who {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &Shared) -> Result<Self, ApiError> {
        let missing = || Failure::new(ErrorCode::Unauthorized, "the request has no key");
        let entered = parts.extensions.get::<Entered>().ok_or_else(missing)?;
        Ok(Self(entered.who()?))
    }
}

/// Extracts the state that the idempotency layer added to the request.
impl FromRequestParts<Shared> for Once {
    type Rejection = std::convert::Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &Shared) -> Result<Self, Self::Rejection> {
        Ok(parts.extensions.remove().unwrap_or_default())
    }
}

/// Returns the secret key that a request was sent with.
pub(crate) fn secret(headers: &HeaderMap) -> Option<&str> {
    let bearer = headers
        .get(AUTHORIZATION)
        .and_then(|value| value.to_str().ok());
    let bearer = bearer.and_then(|value| {
        let (scheme, secret) = value.split_once(' ')?;
        scheme
            .eq_ignore_ascii_case("bearer")
            .then_some(secret.trim())
    });
    let key = || {
        headers
            .get("x-api-key")
            .and_then(|value| value.to_str().ok())
    };
    bearer
        .or_else(key)
        .filter(|secret| !secret.is_empty() && secret.len() <= 1024)
}

/// A JSON body.
pub(crate) struct Body<T>(pub(crate) T);

impl<T: DeserializeOwned> FromRequest<Shared> for Body<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, shared: &Shared) -> Result<Self, ApiError> {
        let read = axum::Json::<T>::from_request(request, shared).await;
        read.map(|axum::Json(value)| Self(value)).map_err(refused)
    }
}

/// An optional JSON body; an absent body counts as `{}`.
pub(crate) struct MaybeBody<T>(pub(crate) T);

impl<T: DeserializeOwned + Default> FromRequest<Shared> for MaybeBody<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, shared: &Shared) -> Result<Self, ApiError> {
        let (parts, body) = request.into_parts();
        let bytes = Request::from_parts(parts.clone(), body);
        let bytes = axum::body::Bytes::from_request(bytes, shared).await;
        let bytes = bytes.map_err(|error| match error.status() {
            StatusCode::PAYLOAD_TOO_LARGE => too_large(&error.body_text()),
            _ => Failure::invalid(error.body_text()),
        })?;
        if bytes.is_empty() {
            return Ok(Self(T::default()));
        }
        let request = Request::from_parts(parts, bytes.into());
        Body::from_request(request, shared)
            .await
            .map(|Body(value)| Self(value))
    }
}

fn refused(rejection: JsonRejection) -> ApiError {
    match (&rejection, rejection.status()) {
        (JsonRejection::MissingJsonContentType(_), _) => unsupported().into(),
        (_, StatusCode::PAYLOAD_TOO_LARGE) => too_large(&rejection.body_text()).into(),
        _ => Failure::invalid(rejection.body_text()).into(),
    }
}

fn unsupported() -> Failure {
    let message = "the body must have the content type `application/json`";
    Failure::new(ErrorCode::UnsupportedMediaType, message)
}

fn too_large(why: &str) -> Failure {
    Failure::new(ErrorCode::PayloadTooLarge, why)
}

pub(crate) struct Query<T>(pub(crate) T);

impl<T: DeserializeOwned> FromRequestParts<Shared> for Query<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &Shared) -> Result<Self, ApiError> {
        // In contrast to the extractor of `axum`, reads a parameter that occurs
        // several times into a list.
        let read = serde_html_form::from_str(parts.uri.query().unwrap_or_default());
        let invalid = |error| Failure::invalid(format!("the query is not valid: {error}"));
        Ok(Self(read.map_err(invalid)?))
    }
}

/// The parameters in the path of a request: one [`PathPart`], or two.
pub(crate) struct Path<T>(pub(crate) T);

/// A parameter in a path: the id of a record or, for sandboxes, workspaces,
/// projects and agents, its name. A text that is not a
/// valid id gets the response of a record that does not exist.
pub(crate) trait PathPart: Sized {
    fn decode(
        text: String,
        shared: &Shared,
        who: &Principal,
    ) -> impl Future<Output = Result<Self, Failure>> + Send;

    /// Fails if the record is on the node of another server.
    fn check_here(
        &self,
        _shared: &Shared,
        _who: &Principal,
    ) -> impl Future<Output = Result<(), Failure>> + Send {
        std::future::ready(Ok(()))
    }
}

/// Routes that every server answers from the catalog, wherever the record is.
const ANYWHERE: [&str; 2] = ["/api/v1/sandboxes/{id}", "/api/v1/workspaces/{id}"];

fn is_answered_anywhere(parts: &Parts) -> bool {
    let path = parts.extensions.get::<MatchedPath>();
    let path = path.map_or("", MatchedPath::as_str);
    parts.method == Method::GET && ANYWHERE.contains(&path)
}

impl<T: PathPart + Send + Sync> FromRequestParts<Shared> for Path<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, shared: &Shared) -> Result<Self, ApiError> {
        let Who(who) = Who::from_request_parts(parts, shared).await?;
        let text = texts(parts, shared).await?;
        let found = T::decode(text, shared, &who).await?;
        if !is_answered_anywhere(parts) {
            found.check_here(shared, &who).await?;
        }
        Ok(Self(found))
    }
}

impl<T: PathPart + Send + Sync, U: PathPart + Send> FromRequestParts<Shared> for Path<(T, U)> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, shared: &Shared) -> Result<Self, ApiError> {
        let Who(who) = Who::from_request_parts(parts, shared).await?;
        let (first, second) = texts(parts, shared).await?;
        let first = T::decode(first, shared, &who).await?;
        first.check_here(shared, &who).await?;
        let second = U::decode(second, shared, &who).await?;
        Ok(Self((first, second)))
    }
}

async fn texts<T: DeserializeOwned + Send>(
    parts: &mut Parts,
    shared: &Shared,
) -> Result<T, Failure> {
    let read = axum::extract::Path::<T>::from_request_parts(parts, shared).await;
    let read = read.map_err(|error| Failure::invalid(error.body_text()))?;
    Ok(read.0)
}

impl PathPart for String {
    async fn decode(text: String, _: &Shared, _: &Principal) -> Result<Self, Failure> {
        Ok(text)
    }
}

impl PathPart for u64 {
    async fn decode(text: String, _: &Shared, _: &Principal) -> Result<Self, Failure> {
        let invalid = |_| Failure::invalid(format!("`{}` is not a number", short(&text)));
        text.parse().map_err(invalid)
    }
}

impl PathPart for SandboxId {
    async fn decode(text: String, shared: &Shared, who: &Principal) -> Result<Self, Failure> {
        shared.app.names.sandbox(who, &text).await
    }

    async fn check_here(&self, shared: &Shared, who: &Principal) -> Result<(), Failure> {
        shared.app.here.check_sandbox(who, self).await
    }
}

impl PathPart for WorkspaceId {
    async fn decode(text: String, shared: &Shared, who: &Principal) -> Result<Self, Failure> {
        shared.app.names.workspace(who, &text).await
    }

    async fn check_here(&self, shared: &Shared, who: &Principal) -> Result<(), Failure> {
        shared.app.here.check_workspace(who, self).await
    }
}

impl PathPart for ReviewId {
    async fn decode(text: String, _: &Shared, _: &Principal) -> Result<Self, Failure> {
        text.parse().map_err(|_| no_review(&text))
    }
}

impl PathPart for WebhookId {
    async fn decode(text: String, _: &Shared, _: &Principal) -> Result<Self, Failure> {
        text.parse().map_err(|_| no_webhook(&text))
    }
}

impl PathPart for KeyId {
    async fn decode(text: String, _: &Shared, _: &Principal) -> Result<Self, Failure> {
        text.parse().map_err(|_| no_key())
    }
}

impl PathPart for AgentId {
    async fn decode(text: String, shared: &Shared, who: &Principal) -> Result<Self, Failure> {
        match (shared.app.names.agent(who, &text).await, text.parse()) {
            (Ok(agent), _) => Ok(agent.id),
            // The handler checks the rights of the caller before it responds.
            (Err(_), Ok(id)) => Ok(id),
            (Err(failure), Err(_)) => Err(failure),
        }
    }
}

impl PathPart for ProjectRef {
    async fn decode(text: String, _: &Shared, _: &Principal) -> Result<Self, Failure> {
        Ok(text.as_str().into())
    }
}
