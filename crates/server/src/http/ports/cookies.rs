//! Cookies of requests to the hosts of ports.

use axum::http::{HeaderMap, HeaderValue, header};

/// Name of the cookie with the right to use a port, with TLS. Browsers accept
/// the prefix only for a cookie of this host alone.
const SECURE: &str = "__Host-elevo-port";

/// Its name without TLS.
const PLAIN: &str = "elevo-port";

fn is_own(name: &str) -> bool {
    // Browsers compare the prefix without regard to case.
    name.eq_ignore_ascii_case(SECURE) || name.eq_ignore_ascii_case(PLAIN)
}

/// Returns the `Set-Cookie` of a browser that opened a link.
pub(super) fn grant(is_secure: bool, token: &str, seconds: i64) -> String {
    let (name, secure) = match is_secure {
        true => (SECURE, "; Secure"),
        false => (PLAIN, ""),
    };
    format!("{name}={token}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Lax{secure}")
}

/// Removes the own cookies from a request, and returns their values. There may
/// be several: a page of another sandbox can set a cookie for all hosts of the
/// domain.
pub(super) fn take(headers: &mut HeaderMap, is_secure: bool) -> Vec<String> {
    let expected = if is_secure { SECURE } else { PLAIN };
    let mut found = Vec::new();
    let mut kept: Vec<Vec<u8>> = Vec::new();
    for line in headers.get_all(header::COOKIE) {
        for pair in line.as_bytes().split(|byte| *byte == b';') {
            let pair = pair.trim_ascii();
            let mut parts = pair.splitn(2, |byte| *byte == b'=');
            let name = parts.next().unwrap_or_default().trim_ascii();
            let name = str::from_utf8(name).unwrap_or_default();
            if !is_own(name) {
                if !pair.is_empty() {
                    kept.push(pair.to_owned());
                }
                continue;
            }
            let value = str::from_utf8(parts.next().unwrap_or_default());
            if let Ok(value) = value
                && name == expected
            {
                found.push(value.trim().to_owned());
            }
        }
    }
    headers.remove(header::COOKIE);
    if let Ok(kept) = HeaderValue::from_bytes(&kept.join(&b"; "[..]))
        && !kept.is_empty()
    {
        headers.insert(header::COOKIE, kept);
    }
    found
}

/// Removes the attribute `Domain` from the cookies of a response, so that no
/// sandbox sets cookies for another, and cookies with an own name.
pub(super) fn confine(headers: &mut HeaderMap) {
    let cookies: Vec<_> = headers
        .get_all(header::SET_COOKIE)
        .iter()
        .cloned()
        .collect();
    headers.remove(header::SET_COOKIE);
    for cookie in cookies {
        if let Some(cookie) = cookie.to_str().ok().and_then(confined) {
            headers.append(header::SET_COOKIE, cookie);
        }
    }
}

fn confined(cookie: &str) -> Option<HeaderValue> {
    let mut parts = cookie.split(';');
    let pair = parts.next()?;
    let name = pair.split_once('=').map_or("", |(name, _)| name.trim());
    // Browsers send a cookie without a name as its value alone.
    let of_value = || {
        let value = pair.trim().trim_start_matches('=');
        value.split('=').next().unwrap_or_default().trim()
    };
    if is_own(name) || (name.is_empty() && is_own(of_value())) {
        return None;
    }
    let is_domain = |part: &&str| {
        let attribute = part.split('=').next().unwrap_or_default();
        attribute.trim().eq_ignore_ascii_case("domain")
    };
    let kept: Vec<_> = parts.filter(|part| !is_domain(part)).collect();
    let kept = [&[pair], &kept[..]].concat().join(";");
    HeaderValue::from_str(&kept).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_cookies_are_taken_from_a_request() {
        let mut headers = HeaderMap::new();
        for line in [
            "a=1; __Host-elevo-port=one;b=2",
            "elevo-port=plain; __host-Elevo-Port=case; __Host-elevo-port = two",
        ] {
            headers.append(header::COOKIE, line.parse().unwrap());
        }
        assert_eq!(take(&mut headers, true), ["one", "two"]);
        assert_eq!(headers[header::COOKIE], "a=1; b=2");
        assert_eq!(take(&mut headers, false), [""; 0]);
        let mut only = HeaderMap::new();
        only.insert(header::COOKIE, "elevo-port=x".parse().unwrap());
        assert_eq!(take(&mut only, false), ["x"]);
        assert!(only.is_empty());
    }

    #[test]
    fn a_program_cannot_set_cookies_for_other_hosts() {
        let of = |cookie: &str| {
            let confined = confined(cookie);
            confined.map(|cookie| cookie.to_str().unwrap().to_owned())
        };
        let kept = |cookie: &str| of(cookie).unwrap();
        assert_eq!(kept("a=1; Path=/; HttpOnly"), "a=1; Path=/; HttpOnly");
        assert_eq!(kept("a=1; Domain=example.com; Path=/"), "a=1; Path=/");
        assert_eq!(kept("a=1;dOmAiN = .example.com;domain"), "a=1");
        for own in [
            "__Host-elevo-port=x; Secure",
            "elevo-port=x",
            " Elevo-Port =x",
            "=elevo-port=x",
            "elevo-port",
        ] {
            assert_eq!(of(own), None, "{own}");
        }
    }
}
