//! The origins of web pages that may use the API.
//!
//! A browser sends the origin of the page with a request to another server, and
//! lets the page read the response only if the server allows that origin. It does
//! not do so for WebSockets, and a ticket is all that a stream needs. So the
//! server itself checks the origin of both.

use std::time::Duration;

use axum::extract::ConnectInfo;
use axum::http::header::{self, HeaderName, ORIGIN, UPGRADE};
use axum::http::request::Parts;
use axum::http::{HeaderValue, Method};
use elevo_core::ErrorCode;
use reqwest::Url;
use tower_http::cors::{AllowOrigin, CorsLayer};

use crate::config::Config;
use crate::failure::{Failure, Result, short};
use crate::http::address;
use crate::platform::listen::Peer;

/// Headers of requests that a page may set.
const SENT: [HeaderName; 13] = [
    header::ACCEPT,
    header::AUTHORIZATION,
    header::CONTENT_TYPE,
    header::IF_MATCH,
    header::IF_NONE_MATCH,
    header::IF_RANGE,
    header::RANGE,
    HeaderName::from_static("idempotency-key"),
    HeaderName::from_static("last-event-id"),
    HeaderName::from_static("traceparent"),
    HeaderName::from_static("tracestate"),
    HeaderName::from_static("x-api-key"),
    HeaderName::from_static("x-request-id"),
];

/// Headers of responses that a page may read.
const READ: [HeaderName; 14] = [
    header::ACCEPT_RANGES,
    header::CONTENT_DISPOSITION,
    header::CONTENT_LENGTH,
    header::CONTENT_RANGE,
    header::ETAG,
    header::LAST_MODIFIED,
    header::RETRY_AFTER,
    HeaderName::from_static("idempotency-replayed"),
    HeaderName::from_static("ratelimit"),
    HeaderName::from_static("ratelimit-policy"),
    HeaderName::from_static("x-elevo-id"),
    HeaderName::from_static("x-elevo-mode"),
    HeaderName::from_static("x-elevo-type"),
    HeaderName::from_static("x-request-id"),
];

/// Time that a browser may keep the response to a preflight request.
const PREFLIGHT: Duration = Duration::from_secs(600);

/// Returns the layer that lets pages of the allowed origins use the API; `None`
/// if there are no such origins. Cookies are never allowed.
pub(super) fn layer(config: &Config) -> Option<CorsLayer> {
    let origins = config.allowed_origins.iter();
    let origins: Vec<HeaderValue> = origins.filter_map(|it| it.parse().ok()).collect();
    let methods = [
        Method::GET,
        Method::HEAD,
        Method::POST,
        Method::PUT,
        Method::PATCH,
        Method::DELETE,
    ];
    (!origins.is_empty()).then(|| {
        CorsLayer::new()
            .allow_origin(AllowOrigin::list(origins))
            .allow_methods(methods)
            .allow_headers(SENT)
            .expose_headers(READ)
            .max_age(PREFLIGHT)
    })
}

/// Denies a request with a ticket, or for a WebSocket, from a page of another
/// site.
pub(super) fn check(config: &Config, parts: &Parts, has_ticket: bool) -> Result<()> {
    let upgrade = parts.headers.get(UPGRADE).map(HeaderValue::as_bytes);
    let is_socket = upgrade.is_some_and(|name| name.eq_ignore_ascii_case(b"websocket"));
    let Some(origin) = parts.headers.get(ORIGIN) else {
        return Ok(());
    };
    if !is_socket && !has_ticket {
        return Ok(());
    }
    let peer = parts.extensions.get::<ConnectInfo<Peer>>();
    let is_proxy = peer.is_some_and(|ConnectInfo(peer)| peer.is_proxy);
    let host = address::host(&parts.headers, is_proxy);
    let origin = origin.to_str().unwrap_or_default();
    match is_allowed(config, origin, host) {
        true => Ok(()),
        false => {
            let message = format!("pages of the origin `{}` may not do this", short(origin));
            Err(Failure::new(ErrorCode::OriginNotAllowed, message))
        }
    }
}

/// Returns whether pages of an origin may open streams: those of the server
/// itself, and those of the allowed origins.
fn is_allowed(config: &Config, origin: &str, host: Option<&str>) -> bool {
    // Fails for `null`, the origin of pages that have none.
    let Ok(parsed) = Url::parse(origin) else {
        return false;
    };
    let is_listed = config.allowed_origins.iter().any(|one| one == origin);
    let is = |url: &Url| url.origin().is_tuple() && url.origin() == parsed.origin();
    // The server may not know whether a proxy has TLS, so the scheme is not
    // compared with its own.
    let own = host.and_then(|host| Url::parse(&format!("{}://{host}", parsed.scheme())).ok());
    is_listed || own.as_ref().is_some_and(is) || config.public_url.as_ref().is_some_and(is)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn only_the_server_and_the_allowed_origins_open_streams() {
        let mut config = Config::for_data(Path::new("/data"));
        config.allowed_origins = vec!["https://app.example".into()];
        config.public_url = Some("https://elevo.example/base".parse().unwrap());
        let host = Some("127.0.0.1:8080");
        let allowed = [
            "https://app.example",
            "https://elevo.example",
            "http://127.0.0.1:8080",
            "https://127.0.0.1:8080",
        ];
        for origin in allowed {
            assert!(is_allowed(&config, origin, host), "{origin}");
        }
        let denied = [
            "http://app.example",
            "https://app.example:8443",
            "https://app.example.evil.example",
            "http://127.0.0.1:8081",
            "http://127.0.0.1",
            "file://",
            "null",
            "",
        ];
        for origin in denied {
            assert!(!is_allowed(&config, origin, host), "{origin}");
        }
        assert!(is_allowed(
            &config,
            "https://one.example",
            Some("one.example")
        ));
        assert!(is_allowed(
            &config,
            "https://one.example",
            Some("one.example:443")
        ));
        assert!(!is_allowed(&config, "file://", Some("")));
        assert!(!is_allowed(&config, "http://one.example", None));
    }
}
