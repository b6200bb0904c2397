//! Errors as answers, all of the same form.

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use elevo_api::{ErrorBody, ErrorEnvelope};
use elevo_core::ErrorCode;

use crate::failure::Failure;
use crate::http::layers;

/// A failure on its way out.
#[derive(Debug)]
pub(crate) struct ApiError(Box<Failure>);

pub(crate) type Answer<T> = Result<T, ApiError>;

impl<F: Into<Failure>> From<F> for ApiError {
    fn from(failure: F) -> Self {
        Self(Box::new(failure.into()))
    }
}

/// A failure as it is told.
pub(crate) fn body_of(failure: &Failure, request_id: &str) -> ErrorBody {
    let remediation = failure.remediation.as_deref();
    ErrorBody {
        code: failure.code.number(),
        name: failure.code.name().into(),
        message: failure.message.clone(),
        details: failure.details.clone(),
        remediation: remediation.unwrap_or(failure.code.remediation()).into(),
        request_id: request_id.into(),
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let failure = *self.0;
        let request_id = layers::request_id();
        if failure.code.http() >= 500 {
            let cause = failure.summary();
            tracing::error!(
                request_id,
                code = failure.code.name(),
                cause,
                "request failed"
            );
        }
        let status = StatusCode::from_u16(failure.code.http());
        let status = status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let error = body_of(&failure, &request_id);
        let mut response = (status, Json(ErrorEnvelope { error })).into_response();
        let is_later = matches!(status.as_u16(), 429 | 503);
        if let Some(seconds) = failure.retry_after.or(is_later.then_some(1)) {
            response
                .headers_mut()
                .insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        if failure.code == ErrorCode::Unauthorized {
            let scheme = HeaderValue::from_static("Bearer");
            response
                .headers_mut()
                .insert(header::WWW_AUTHENTICATE, scheme);
        }
        response
    }
}
