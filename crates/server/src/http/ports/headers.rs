//! Headers of requests to ports and of their responses: removes those that
//! belong to one connection, secrets of the server, and headers of a hostile
//! program that would affect other origins.

use std::net::IpAddr;

use axum::http::header::{self, HeaderMap, HeaderName, HeaderValue};
use axum::http::{Method, StatusCode};

use crate::app::ports::port::Port;
use crate::http::ports::cookies;
use crate::http::ports::location::Redirects;
use crate::http::ports::query::LINK;
use crate::http::ports::target::Form;

/// Headers that belong to one connection, except those that `Connection` names.
const HOP_BY_HOP: [&str; 10] = [
    "connection",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "expect",
];

/// Headers of a request that name an earlier hop, and `Proxy`, which CGI programs
/// confuse with a variable.
const CLAIMS: [&str; 3] = ["forwarded", "x-real-ip", "proxy"];

/// Headers of a response that instruct a proxy in front of the server, or that
/// concern more than the response.
const INSTRUCTIONS: [&str; 9] = [
    "alt-svc",
    "strict-transport-security",
    "public-key-pins",
    "public-key-pins-report-only",
    "expect-ct",
    "x-sendfile",
    "x-lighttpd-send-file",
    "x-reproxy-url",
    "x-lighttpd-send-tempfile",
];

/// Further headers of a response that concern the whole origin, which the path
/// form shares with the API.
const OF_ORIGIN: [&str; 16] = [
    "set-cookie",
    "set-cookie2",
    "service-worker-allowed",
    "clear-site-data",
    "content-security-policy",
    "content-security-policy-report-only",
    "www-authenticate",
    "report-to",
    "reporting-endpoints",
    "nel",
    "set-login",
    "sec-session-registration",
    "use-as-dictionary",
    "speculation-rules",
    "origin-agent-cluster",
    "accept-ch",
];

/// Returns true if a request asks for an upgrade to this protocol.
pub(super) fn upgrades_to(method: &Method, headers: &HeaderMap, protocol: &str) -> bool {
    let has = |name: HeaderName, wanted: &str| {
        let lines = headers.get_all(name);
        let lines = lines.iter().filter_map(|line| line.to_str().ok());
        lines
            .flat_map(|line| line.split(','))
            .any(|token| token.trim().eq_ignore_ascii_case(wanted))
    };
    *method == Method::GET && has(header::CONNECTION, "upgrade") && has(header::UPGRADE, protocol)
}

fn remove_hop_by_hop(headers: &mut HeaderMap) {
    // A message with both has the length that its chunks have.
    if headers.contains_key(header::TRANSFER_ENCODING) {
        headers.remove(header::CONTENT_LENGTH);
    }
    let named: Vec<_> = headers
        .get_all(header::CONNECTION)
        .iter()
        .filter_map(|line| line.to_str().ok())
        .flat_map(|line| line.split(','))
        .filter_map(|name| name.trim().parse::<HeaderName>().ok())
        // These frame the message, and are not those of one connection.
        .filter(|name| !matches!(*name, header::CONTENT_LENGTH | header::HOST))
        .collect();
    for name in named {
        headers.remove(name);
    }
    for name in HOP_BY_HOP {
        headers.remove(name);
    }
}

fn remove_with_prefix(headers: &mut HeaderMap, prefix: &str) {
    let found = headers
        .keys()
        .filter(|name| name.as_str().starts_with(prefix));
    let found: Vec<_> = found.cloned().collect();
    for name in found {
        headers.remove(name);
    }
}

/// The facts about a request that the program learns.
pub(super) struct Known<'a> {
    pub(super) form: &'a Form,
    pub(super) port: Port,
    pub(super) scheme: &'static str,
    pub(super) client: Option<IpAddr>,
    pub(super) is_websocket: bool,
}

/// Prepares the headers of a request for the program. The caller has removed
/// the secrets in `Authorization` and in cookies.
pub(super) fn for_program(headers: &mut HeaderMap, known: &Known<'_>) {
    remove_hop_by_hop(headers);
    for name in CLAIMS {
        headers.remove(name);
    }
    remove_with_prefix(headers, "x-forwarded-");
    headers.remove("x-api-key");
    let has_link = |value: &HeaderValue| {
        let link = LINK.as_bytes();
        value
            .as_bytes()
            .windows(link.len())
            .any(|part| part == link)
    };
    if headers.get(header::REFERER).is_some_and(has_link) {
        headers.remove(header::REFERER);
    }
    let mut set = |name: &'static str, value: &str| {
        if let Ok(value) = HeaderValue::from_str(value) {
            headers.insert(HeaderName::from_static(name), value);
        }
    };
    if let Some(client) = known.client {
        set("x-forwarded-for", &client.to_string());
    }
    set("x-forwarded-proto", known.scheme);
    match known.form {
        Form::Path { host, prefix } => {
            set("host", &format!("localhost:{}", known.port));
            set("x-forwarded-prefix", prefix);
            if let Some(host) = host {
                headers.insert("x-forwarded-host", host.clone());
            }
            headers.remove(header::COOKIE);
        }
        Form::Domain { authority } => {
            set("host", authority);
            set("x-forwarded-host", authority);
        }
    }
    if known.is_websocket {
        headers.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
        headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
    }
}

/// Prepares the headers of a program's response for the client.
pub(super) fn for_client(headers: &mut HeaderMap, redirects: &Redirects<'_>, status: StatusCode) {
    remove_hop_by_hop(headers);
    redirects.confine(headers);
    for name in INSTRUCTIONS {
        headers.remove(name);
    }
    remove_with_prefix(headers, "x-accel-");
    match redirects.target.form {
        Form::Path { .. } => {
            for name in OF_ORIGIN {
                headers.remove(name);
            }
            remove_with_prefix(headers, "access-control-");
            isolate(headers);
        }
        Form::Domain { .. } => cookies::confine(headers),
    }
    if status == StatusCode::SWITCHING_PROTOCOLS {
        headers.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
        headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
    }
}

/// Gives a page a separate origin, although its address is one of the API.
pub(super) fn isolate(headers: &mut HeaderMap) {
    for (name, value) in [
        (header::CONTENT_SECURITY_POLICY, "sandbox"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        // The address of a link is a secret.
        (header::REFERRER_POLICY, "no-referrer"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let pairs = pairs.iter().map(|(name, value)| {
            let name = HeaderName::from_static(name);
            (name, HeaderValue::from_str(value).unwrap())
        });
        pairs.collect()
    }

    #[test]
    fn a_program_learns_the_client_from_the_server_alone() {
        let mut headers = map(&[
            ("connection", "close, x-hop, content-length"),
            ("x-hop", "1"),
            ("content-length", "5"),
            ("x-forwarded-for", "1.2.3.4"),
            ("x-forwarded-user", "root"),
            ("forwarded", "for=1.2.3.4"),
            ("proxy", "evil"),
            ("x-api-key", "secret"),
            ("upgrade", "h2c"),
            ("cookie", "a=1"),
            ("referer", "http://x/?elevo-link=t"),
            ("accept", "*/*"),
        ]);
        let form = Form::Path {
            host: Some(HeaderValue::from_static("api.example.com")),
            prefix: "/p".into(),
        };
        let known = Known {
            form: &form,
            port: "3000".parse().unwrap(),
            scheme: "https",
            client: Some("192.0.2.7".parse().unwrap()),
            is_websocket: false,
        };
        for_program(&mut headers, &known);
        let expected = map(&[
            ("content-length", "5"),
            ("accept", "*/*"),
            ("host", "localhost:3000"),
            ("x-forwarded-for", "192.0.2.7"),
            ("x-forwarded-proto", "https"),
            ("x-forwarded-host", "api.example.com"),
            ("x-forwarded-prefix", "/p"),
        ]);
        assert_eq!(headers, expected);
    }

    #[test]
    fn upgrades_need_both_headers_and_the_method_get() {
        let both = map(&[
            ("connection", "keep-alive, Upgrade"),
            ("upgrade", "WebSocket"),
        ]);
        assert!(upgrades_to(&Method::GET, &both, "websocket"));
        assert!(!upgrades_to(&Method::POST, &both, "websocket"));
        assert!(!upgrades_to(&Method::GET, &both, "h2c"));
        let one = map(&[("upgrade", "websocket")]);
        assert!(!upgrades_to(&Method::GET, &one, "websocket"));
    }
}
