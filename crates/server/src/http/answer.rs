//! Error responses, which all have the same form, and large response bodies.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use axum::Json;
use axum::body::{Body, HttpBody};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use elevo_api::{ErrorEnvelope, Failed};
use elevo_core::{ErrorCode, Retry};
use futures::TryStreamExt;
use hyper::body::{Frame, SizeHint};
use serde::Serialize;

use crate::app::files::content::Content;
use crate::failure::Failure;
use crate::http::layers;
use crate::platform::share::Held;

/// A failure that is sent as an error response.
#[derive(Debug)]
pub(crate) struct ApiError(Box<Failure>);

pub(crate) type Answer<T> = Result<T, ApiError>;

impl<F: Into<Failure>> From<F> for ApiError {
    fn from(failure: F) -> Self {
        Self(Box::new(failure.into()))
    }
}

/// Creates a JSON response that is sent in pieces, so that its memory counts
/// towards the tenant's share until the client has received nearly all of it.
pub(crate) fn counted(value: &impl Serialize, held: Held) -> Response {
    match serde_json::to_vec(value) {
        Ok(text) => {
            let kind = [(header::CONTENT_TYPE, "application/json")];
            let bytes = text.into();
            (kind, Body::new(Pieces { bytes, _held: held })).into_response()
        }
        Err(error) => ApiError::from(Failure::internal(&error)).into_response(),
    }
}

/// Creates a response with the content of a file, which is read while it is
/// sent.
pub(crate) fn file_answer(content: Content) -> Response {
    let headers = [
        (header::CONTENT_TYPE, "application/octet-stream".to_owned()),
        (header::CONTENT_LENGTH, content.size().to_string()),
    ];
    let pieces = content
        .pieces()
        .map_err(|failure| std::io::Error::other(failure.summary()));
    (headers, Body::from_stream(pieces)).into_response()
}

/// Sets the id of the request in the errors of a batch.
pub(crate) fn name_request(failed: &mut [Failed]) {
    let request_id = layers::request_id();
    for one in failed {
        one.error.request_id.clone_from(&request_id);
    }
}

/// Maximum size of a piece of a response.
const PIECE: usize = 64 << 10;

/// A body that sends its bytes in pieces.
#[derive(Debug)]
struct Pieces {
    bytes: Bytes,
    /// Counts the memory of `bytes` towards the tenant's share until it is
    /// dropped.
    _held: Held,
}

impl HttpBody for Pieces {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let size = self.bytes.len().min(PIECE);
        let piece = self.bytes.split_to(size);
        Poll::Ready((size > 0).then_some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.bytes.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.bytes.len() as u64)
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let failure = *self.0;
        let request_id = layers::request_id();
        // A workspace that has reached its limit and a program that does not
        // respond are not failures of the server.
        let is_of_client = matches!(
            failure.code,
            ErrorCode::DiskFull | ErrorCode::PortNotOpen | ErrorCode::PortFailed
        );
        if failure.code.http() >= 500 && !is_of_client {
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
        let error = failure.body(&request_id);
        let mut response = (status, Json(ErrorEnvelope { error })).into_response();
        // A client that obeys the header would repeat a request in vain that
        // cannot succeed before something else changes.
        let is_later = matches!(status.as_u16(), 429 | 503)
            && matches!(failure.code.retry(), Retry::Later | Retry::Unknown);
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
