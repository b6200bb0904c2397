//! The right of a request to use a port: a key, a link, or the cookie of a
//! browser that opened a link. Removes them from the request, so that they do
//! not reach the program.

use axum::extract::ConnectInfo;
use axum::http::header::{AUTHORIZATION, HeaderMap, ORIGIN};
use axum::http::request::Parts;
use axum::http::{HeaderValue, Method};
use elevo_catalog::secret::ApiKeySecret;
use elevo_core::{ErrorCode, SandboxId, Timestamp};

use crate::app::access::principal::Principal;
use crate::app::ports::links::{Grant, Kind};
use crate::app::ports::port::Port;
use crate::failure::{Failure, Result};
use crate::http::ports::cookies;
use crate::http::request;
use crate::http::shared::Shared;
use crate::platform::clock;
use crate::platform::listen::Peer;

/// The key of a request, in a header for the server alone.
const KEY: &str = "x-api-key";

/// The principal of an admitted request.
#[derive(Clone, Debug)]
pub(super) struct Admitted {
    pub(super) who: Principal,
    /// The grant of the link that the request used.
    pub(super) link: Option<Grant>,
    /// The end of the link or of its cookie, in seconds since 1970; `None` for a
    /// key.
    expires: Option<i64>,
}

impl Admitted {
    /// Returns true if the request was admitted by a key.
    pub(super) fn is_by_key(&self) -> bool {
        self.expires.is_none()
    }

    /// Waits until the link or its cookie expires. Waits forever for a key.
    pub(super) async fn expired(&self) {
        match self.expires {
            Some(expires) => {
                let left = Timestamp::new(expires, 0).map(clock::until);
                tokio::time::sleep(left.unwrap_or_default()).await;
            }
            None => std::future::pending().await,
        }
    }
}

/// Admits a request by a key. The header `X-API-Key` has precedence, so that
/// `Authorization` can be for the program.
pub(super) async fn by_key(shared: &Shared, parts: &mut Parts) -> Result<Option<Admitted>> {
    let own = parts.headers.remove(KEY);
    let secret = match &own {
        Some(own) => own.to_str().ok().map(str::to_owned),
        None => request::secret(&parts.headers).map(str::to_owned),
    };
    let Some(secret) = secret.filter(|secret| (1..=1024).contains(&secret.len())) else {
        return Ok(None);
    };
    let who = {
        let _turn = turn(shared, parts).await;
        shared.app.principals.authenticate(&secret, None).await?
    };
    show(parts, &who)?;
    match own {
        Some(_) => hide_key(shared, &mut parts.headers).await?,
        None => drop(parts.headers.remove(AUTHORIZATION)),
    }
    Ok(Some(Admitted {
        who,
        link: None,
        expires: None,
    }))
}

/// Admits a request by the token of a link.
pub(super) async fn by_link(
    shared: &Shared,
    parts: &mut Parts,
    token: &str,
    (sandbox, port): (&SandboxId, Port),
) -> Result<Admitted> {
    let grant = shared.app.ports.grant(Kind::Link, token, sandbox, port);
    let grant = grant.await?;
    let who = again(shared, parts, &grant).await?;
    Ok(Admitted {
        who,
        expires: Some(grant.expires),
        link: Some(grant),
    })
}

/// Admits a request by one of the cookies that were in it. Returns `None` if
/// none of them is for this port.
pub(super) async fn by_cookie(
    shared: &Shared,
    parts: &mut Parts,
    tokens: &[String],
    (sandbox, port): (&SandboxId, Port),
) -> Result<Option<Admitted>> {
    for token in tokens {
        let grant = shared.app.ports.grant(Kind::Cookie, token, sandbox, port);
        let Ok(grant) = grant.await else {
            continue;
        };
        check_origin(&parts.method, &parts.headers)?;
        let who = again(shared, parts, &grant).await?;
        return Ok(Some(Admitted {
            who,
            link: None,
            expires: Some(grant.expires),
        }));
    }
    Ok(None)
}

async fn again(shared: &Shared, parts: &mut Parts, grant: &Grant) -> Result<Principal> {
    let who = {
        let _turn = turn(shared, parts).await;
        let principals = &shared.app.principals;
        principals.again(grant.tenant, &grant.key).await?
    };
    show(parts, &who)?;
    parts.headers.remove(KEY);
    hide_key(shared, &mut parts.headers).await?;
    Ok(who)
}

/// Waits for a turn to look up a key, unless the connection has shown one.
async fn turn<'a>(shared: &'a Shared, parts: &Parts) -> Option<tokio::sync::SemaphorePermit<'a>> {
    let peer = parts.extensions.get::<ConnectInfo<Peer>>();
    match peer.is_some_and(|peer| peer.0.place.is_known()) {
        true => None,
        false => shared.rates.strangers.acquire().await.ok(),
    }
}

/// Counts the connection towards the limit of the key.
fn show(parts: &Parts, who: &Principal) -> Result<()> {
    crate::platform::audit::asked_by(who);
    match parts.extensions.get::<ConnectInfo<Peer>>() {
        Some(peer) => peer.0.place.show(&who.key),
        None => Ok(()),
    }
}

/// Removes `Authorization` if it holds a key of this server, which the program
/// must not learn. Another `Authorization` is for the program.
async fn hide_key(shared: &Shared, headers: &mut HeaderMap) -> Result<()> {
    let has_prefix = |value: &HeaderValue| {
        let prefix = ApiKeySecret::PREFIX.as_bytes();
        let mut parts = value.as_bytes().windows(prefix.len());
        parts.any(|part| part == prefix)
    };
    let values = headers.get_all(AUTHORIZATION);
    let is_key = match values.iter().any(has_prefix) {
        true => true,
        false => match request::secret(headers) {
            Some(secret) => shared.app.principals.is_key(secret).await?,
            None => false,
        },
    };
    // A second header could hold a key that the check of the first misses.
    if is_key || headers.get_all(AUTHORIZATION).iter().count() > 1 {
        headers.remove(AUTHORIZATION);
    }
    Ok(())
}

/// Returns the cookies for a port, and removes them from the request.
pub(super) fn take_cookies(headers: &mut HeaderMap, is_secure: bool) -> Vec<String> {
    cookies::take(headers, is_secure)
}

/// Denies a request that the page of another host caused: the browser adds the
/// cookie to it. The hosts of all sandboxes are one site for a browser, so the
/// attribute `SameSite` does not separate them.
fn check_origin(method: &Method, headers: &HeaderMap) -> Result<()> {
    let text = |name: &str| {
        let value = headers.get(name);
        value.and_then(|value| value.to_str().ok()).unwrap_or("")
    };
    let is_read = matches!(*method, Method::GET | Method::HEAD);
    let is_upgrade = headers.contains_key("upgrade");
    let origin = text(ORIGIN.as_str());
    let origin_host = origin.split_once("://").map_or("", |(_, host)| host);
    let is_same = !origin_host.is_empty() && origin_host.eq_ignore_ascii_case(text("host"));
    let is_allowed = match (is_upgrade, text("sec-fetch-site")) {
        (true, _) => is_same,
        (false, "same-origin" | "none") => true,
        // A click on a link, which the program expects from anywhere.
        // A frame of another page also navigates, but has another destination.
        (false, "same-site" | "cross-site") => {
            let is_navigation = text("sec-fetch-mode") == "navigate";
            is_read && is_navigation && text("sec-fetch-dest") == "document"
        }
        (false, _) => is_same || (origin.is_empty() && is_read),
    };
    match is_allowed {
        true => Ok(()),
        false => {
            let message = "a page of another host sent this request with the cookie of this port";
            Err(Failure::new(ErrorCode::Forbidden, message).remediation(
                "Send the request from a page of this host, or with a key in `X-API-Key`.",
            ))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_of_other_hosts_cannot_use_the_cookie() {
        let check = |method: Method, pairs: &[(&'static str, &str)]| {
            let mut headers = HeaderMap::new();
            headers.insert("host", "3000-sbx-a.box:81".parse().unwrap());
            for (name, value) in pairs {
                headers.insert(*name, value.parse().unwrap());
            }
            check_origin(&method, &headers).is_ok()
        };
        let own = ("origin", "https://3000-sbx-a.box:81");
        let sibling = ("origin", "https://3000-sbx-b.box:81");
        let upgrade = ("upgrade", "websocket");
        assert!(check(Method::GET, &[]));
        assert!(check(Method::POST, &[own]));
        assert!(check(Method::GET, &[own, upgrade]));
        assert!(check(
            Method::POST,
            &[("sec-fetch-site", "same-origin"), ("origin", "null")]
        ));
        let link = [
            ("sec-fetch-site", "cross-site"),
            ("sec-fetch-mode", "navigate"),
            ("sec-fetch-dest", "document"),
        ];
        assert!(check(Method::GET, &link));
        assert!(!check(Method::GET, &link[..2]));
        for dest in ["iframe", "frame", "object", "embed"] {
            for site in ["same-site", "cross-site"] {
                let frame = [("sec-fetch-site", site), link[1], ("sec-fetch-dest", dest)];
                assert!(!check(Method::GET, &frame), "{site} {dest}");
            }
        }
        assert!(!check(Method::POST, &link));
        assert!(!check(Method::POST, &[]));
        assert!(!check(Method::POST, &[sibling]));
        assert!(!check(Method::POST, &[("origin", "null")]));
        assert!(!check(Method::GET, &[sibling]));
        assert!(!check(Method::GET, &[upgrade]));
        assert!(!check(Method::GET, &[sibling, upgrade]));
        assert!(!check(
            Method::GET,
            &[("origin", "https://3000-sbx-a.box"), upgrade]
        ));
        let script = [
            ("sec-fetch-site", "same-site"),
            ("sec-fetch-mode", "no-cors"),
        ];
        assert!(!check(Method::GET, &script));
    }
}
