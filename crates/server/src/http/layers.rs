//! Layers around every request: request ids, logging, metrics and shutdown.

use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderName, HeaderValue, Method, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use elevo_core::ErrorCode;
use tokio::task::JoinHandle;
use tracing::Instrument;

use crate::failure::Failure;
use crate::http::answer::ApiError;
use crate::http::shared::Shared;
use crate::platform::audit::NOTE;
use crate::platform::{clock, trace};

tokio::task_local! {
    static REQUEST_ID: String;
}

/// HTTP methods that the API accepts.
const METHODS: [Method; 7] = [
    Method::GET,
    Method::HEAD,
    Method::POST,
    Method::PUT,
    Method::PATCH,
    Method::DELETE,
    Method::OPTIONS,
];

/// The name of a request's endpoint, for requests that match no route.
#[derive(Clone, Copy, Debug)]
pub(super) struct Endpoint(pub(super) &'static str);

/// Marks a response of a program in a sandbox.
#[derive(Clone, Copy, Debug)]
pub(super) struct OfProgram;

const HEADER: HeaderName = HeaderName::from_static("x-request-id");

/// Returns the id of the current request.
pub(crate) fn request_id() -> String {
    REQUEST_ID.try_with(Clone::clone).unwrap_or_default()
}

/// Assigns an id to a request: the id that the client sent, if that is valid,
/// or else a new one. Records the request in the log and the metrics.
pub(super) async fn observe(request: Request, next: Next) -> Response {
    let given = request
        .headers()
        .get(HEADER)
        .and_then(|id| id.to_str().ok());
    let id = match given.filter(|id| is_plain(id)) {
        Some(id) => id.to_owned(),
        None => clock::name("req-"),
    };
    let path = request.extensions().get::<MatchedPath>();
    let named = request.extensions().get().map(|Endpoint(name)| *name);
    let endpoint = path.map(MatchedPath::as_str).or(named);
    let endpoint = endpoint.unwrap_or("unknown").to_owned();
    // Clients choose method names, and each new name would add a time series to
    // the metrics.
    let is_known = METHODS.contains(request.method());
    let method = match is_known {
        true => request.method().to_string(),
        false => "other".into(),
    };
    let began = clock::instant();
    let span = trace::request(&method, &endpoint, request.headers(), &id);
    let answering = async {
        match is_known {
            true => next.run(request).await,
            false => {
                let message = "the API does not support the method of the request";
                let failure = Failure::new(ErrorCode::MethodNotAllowed, message);
                let mut response = ApiError::from(failure).into_response();
                let allowed = METHODS.map(|method| method.to_string()).join(", ");
                if let Ok(allowed) = HeaderValue::from_str(&allowed) {
                    response.headers_mut().insert(header::ALLOW, allowed);
                }
                response
            }
        }
    };
    let answering = REQUEST_ID.scope(id.clone(), answering);
    let mut response = answering.instrument(span.clone()).await;
    let (status, elapsed) = (response.status().as_u16(), began.elapsed());
    trace::answered(&span, status);
    if let Ok(value) = HeaderValue::from_str(&id) {
        response.headers_mut().insert(HEADER, value);
    }
    // Programs choose statuses, and each new one would add a time series.
    let counted = match response.extensions().get::<OfProgram>() {
        Some(_) => status / 100 * 100,
        None => status,
    };
    crate::platform::metrics::answered(&format!("{method} {endpoint}"), counted, elapsed);
    let ms = elapsed.as_millis() as u64;
    tracing::info!(
        request_id = id,
        method,
        endpoint,
        status,
        ms,
        "responded to a request"
    );
    response
}

/// Runs a part of the current request in its own task, which continues when the
/// client disconnects.
pub(super) fn in_own_task<T: Send + 'static>(
    work: impl Future<Output = T> + Send + 'static,
) -> JoinHandle<T> {
    let note = NOTE.try_with(Clone::clone).unwrap_or_default();
    let work = REQUEST_ID.scope(request_id(), NOTE.scope(note, work));
    tokio::spawn(work.in_current_span())
}

fn is_plain(id: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    (1..=64).contains(&id.len()) && id.bytes().all(plain)
}

/// Rejects all requests except probes while the server is stopping. Counts
/// running requests, which the server waits for before it stops.
pub(super) async fn refuse_when_stopping(
    State(shared): State<Shared>,
    request: Request,
    next: Next,
) -> Response {
    let is_probe = matches!(request.uri().path(), "/health" | "/ready");
    let _work = shared.app.stopping.work();
    if shared.app.stopping.is_stopping() && !is_probe {
        let message = "the server is stopping and accepts no new requests";
        let failure = Failure::new(ErrorCode::ShuttingDown, message).retry_after(5);
        return ApiError::from(failure).into_response();
    }
    next.run(request).await
}
