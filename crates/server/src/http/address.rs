//! The address by which a client reaches the server.

use std::convert::Infallible;

use axum::extract::{ConnectInfo, FromRequestParts};
use axum::http::header::{HOST, HeaderMap};
use axum::http::request::Parts;
use axum::http::uri::Authority;

use crate::config::Config;
use crate::http::shared::Shared;
use crate::http::streams;
use crate::platform::listen::Peer;

/// The address by which the client of a request reaches the server: PUBLIC_URL,
/// or the address of the request. A trusted proxy may state the latter as
/// `X-Forwarded-Proto` and `X-Forwarded-Host`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Address {
    has_tls: bool,
    /// Host, port and the path before that of the API.
    place: String,
}

impl FromRequestParts<Shared> for Address {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, shared: &Shared) -> Result<Self, Infallible> {
        let peer = parts.extensions.get::<ConnectInfo<Peer>>();
        let is_proxy = peer.is_some_and(|ConnectInfo(peer)| peer.is_proxy);
        Ok(Self::of(&shared.app.config, &parts.headers, is_proxy))
    }
}

impl Address {
    fn of(config: &Config, headers: &HeaderMap, is_proxy: bool) -> Self {
        if let Some(url) = &config.public_url {
            let rest = url.as_str().split_once("://").unwrap_or_default().1;
            return Self {
                has_tls: url.scheme() == "https",
                place: rest.trim_end_matches('/').to_owned(),
            };
        }
        let stated = |name| is_proxy.then(|| last(headers, name)).flatten();
        let has_tls = match stated("x-forwarded-proto") {
            Some(scheme) if scheme.eq_ignore_ascii_case("https") => true,
            Some(scheme) if scheme.eq_ignore_ascii_case("http") => false,
            _ => config.tls.is_some(),
        };
        let host = host(headers, is_proxy);
        let place = host.map_or_else(|| config.api.to_string(), str::to_owned);
        Self { has_tls, place }
    }

    /// Returns the URL of a path of the API. The URL of a terminal is that of a
    /// WebSocket.
    pub(super) fn url(&self, path: &str) -> String {
        let scheme = match (streams::is_terminal(path), self.has_tls) {
            (true, true) => "wss",
            (true, false) => "ws",
            (false, true) => "https",
            (false, false) => "http",
        };
        format!("{scheme}://{}{path}", self.place)
    }
}

/// Returns the host and port that the client of a request used.
pub(super) fn host(headers: &HeaderMap, is_proxy: bool) -> Option<&str> {
    let stated = is_proxy
        .then(|| last(headers, "x-forwarded-host"))
        .flatten();
    let own = || headers.get(HOST).and_then(|host| host.to_str().ok());
    let is_valid = |host: &&str| host.parse::<Authority>().is_ok_and(|it| it == **host);
    stated.filter(is_valid).or_else(|| own().filter(is_valid))
}

/// Returns the last value of a header that proxies append to. A client may have
/// forged the earlier ones.
fn last<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let line = headers.get_all(name).iter().next_back()?.to_str().ok()?;
    line.rsplit(',').next().map(str::trim)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn url(public: Option<&str>, headers: &[(&'static str, &str)], is_proxy: bool) -> String {
        let mut config = Config::for_data(Path::new("/data"));
        config.public_url = public.map(|url| url.parse().unwrap());
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, value.parse().unwrap());
        }
        Address::of(&config, &map, is_proxy).url("/api/v1/events")
    }

    #[test]
    fn only_a_trusted_proxy_states_the_address_of_the_server() {
        let host = ("host", "inner:8080");
        let path = "/api/v1/events";
        assert_eq!(url(None, &[], true), format!("http://127.0.0.1:8080{path}"));
        assert_eq!(url(None, &[host], true), format!("http://inner:8080{path}"));
        let stated = [
            host,
            ("x-forwarded-proto", "http, https"),
            ("x-forwarded-host", "forged.example, outer.example:8443"),
        ];
        let outer = format!("https://outer.example:8443{path}");
        assert_eq!(url(None, &stated, true), outer);
        assert_eq!(
            url(None, &stated, false),
            format!("http://inner:8080{path}")
        );
        let nonsense = [
            host,
            ("x-forwarded-proto", "x"),
            ("x-forwarded-host", "a/b?c"),
        ];
        assert_eq!(
            url(None, &nonsense, true),
            format!("http://inner:8080{path}")
        );
        let public = Some("https://elevo.example/base/");
        let expected = format!("https://elevo.example/base{path}");
        assert_eq!(url(public, &stated, true), expected);
    }
}
