//! Redirects of programs. A client that follows a redirect may send its key
//! again, so the address must be one of the same port.

use axum::http::header::{self, HeaderMap, HeaderValue};
use axum::http::{Method, Uri};
use reqwest::Url;

use crate::http::ports::target::{Form, Target};

/// Decides which redirects the response to a request may have.
#[derive(Debug)]
pub(super) struct Redirects<'a> {
    pub(super) target: &'a Target,
    pub(super) method: Method,
    /// The path with the query that the program sees.
    pub(super) path: Uri,
    /// The scheme that clients use.
    pub(super) scheme: &'static str,
    /// The path of `PUBLIC_URL`, without a slash at its end.
    pub(super) base: &'a str,
    /// Whether the client sent a key.
    pub(super) is_by_key: bool,
}

impl Redirects<'_> {
    /// Rewrites or removes the redirect of a response. On a host of a port, a
    /// client without a key may be sent anywhere.
    pub(super) fn confine(&self, headers: &mut HeaderMap) {
        if !self.is_by_key && matches!(self.target.form, Form::Domain { .. }) {
            return;
        }
        headers.remove(header::REFRESH);
        let Some(location) = headers.remove(header::LOCATION) else {
            return;
        };
        let location = std::str::from_utf8(location.as_bytes()).ok();
        let allowed = location.and_then(|location| self.allowed(location));
        if let Some(allowed) = allowed.and_then(|allowed| HeaderValue::try_from(allowed).ok()) {
            headers.insert(header::LOCATION, allowed);
        }
    }

    /// Returns the address for the client, if it is one of the same port.
    fn allowed(&self, location: &str) -> Option<String> {
        let (scheme, path) = (self.scheme, &self.path);
        let found = match &self.target.form {
            Form::Path { .. } => format!("http://localhost:{}{path}", self.target.port),
            Form::Domain { authority } => format!("{scheme}://{authority}{path}"),
        };
        // Resolves `..` as well, so that the path cannot lead above its start.
        let found = Url::parse(&found).ok()?.join(location).ok()?;
        if !matches!(found.scheme(), "http" | "https") {
            return None;
        }
        let path = match &self.target.form {
            Form::Path { host, prefix } => {
                let host = host.as_ref().and_then(|host| host.to_str().ok());
                self.below_prefix(&found, host, prefix)?
            }
            Form::Domain { authority } => {
                let path = found.path();
                match (is_at(&found, authority), path.starts_with("//")) {
                    (false, _) => return None,
                    // Alone, two slashes would begin with a host.
                    (true, true) => format!("{scheme}://{authority}{path}"),
                    (true, false) => path.to_owned(),
                }
            }
        };
        let part = |sign: char, part: Option<&str>| match part {
            Some(part) => format!("{sign}{part}"),
            None => String::new(),
        };
        let (query, fragment) = (part('?', found.query()), part('#', found.fragment()));
        Some(format!("{path}{query}{fragment}"))
    }

    /// Returns the path below the prefix of the port. The root of the program is
    /// the prefix; a program that knows the prefix may also name it.
    fn below_prefix(&self, found: &Url, host: Option<&str>, prefix: &str) -> Option<String> {
        let port = self.target.port.number();
        let is_local = matches!(found.host_str(), Some("localhost" | "127.0.0.1" | "[::1]"));
        let is_program = is_local && found.port_or_known_default() == Some(port);
        if !is_program && !host.is_some_and(|host| is_at(found, host)) {
            return None;
        }
        let public = format!("{}{prefix}", self.base);
        let named = below(found.path(), &public).or_else(|| below(found.path(), prefix));
        let path = match named {
            Some("") => "/",
            Some(path) => path,
            None if is_program => found.path(),
            None => return None,
        };
        // `POST` to this path is a request to the API, which creates a link.
        let is_api = self.method == Method::POST && path == "/link";
        (!is_api && !climbs(path)).then(|| format!("{public}{path}"))
    }
}

/// Returns true if an address has this host and port.
fn is_at(found: &Url, authority: &str) -> bool {
    let own = Url::parse(&format!("{}://{authority}/", found.scheme()));
    own.is_ok_and(|own| own.origin() == found.origin())
}

/// Returns the part of a path after a prefix.
fn below<'p>(path: &'p str, prefix: &str) -> Option<&'p str> {
    let rest = path.strip_prefix(prefix)?;
    (rest.is_empty() || rest.starts_with('/')).then_some(rest)
}

/// Returns true if a path has `..` for a proxy that decodes slashes.
fn climbs(path: &str) -> bool {
    let path = path.to_ascii_lowercase();
    let path = path.replace("%2f", "/").replace("%5c", "/");
    let path = path.replace("%2e", ".");
    path.split('/').any(|part| part == "..")
}

#[cfg(test)]
mod tests {
    use super::*;

    const PREFIX: &str = "/api/v1/sandboxes/sbx-a2/ports/3000";

    fn target(form: Form) -> Target {
        Target {
            sandbox: "sbx-a2".parse().unwrap(),
            port: "3000".parse().unwrap(),
            form,
        }
    }

    fn redirects(target: &Target, method: Method, is_by_key: bool) -> Redirects<'_> {
        Redirects {
            target,
            method,
            path: "/a/b?c=1".parse().unwrap(),
            scheme: "https",
            base: "",
            is_by_key,
        }
    }

    /// Returns `Location` of a response after [`Redirects::confine`].
    fn confined(redirects: &Redirects<'_>, location: &str) -> Option<String> {
        let mut headers = HeaderMap::new();
        headers.insert(header::LOCATION, location.parse().unwrap());
        headers.append(header::LOCATION, "http://evil.test/".parse().unwrap());
        headers.insert(header::REFRESH, "0; url=http://evil.test/".parse().unwrap());
        redirects.confine(&mut headers);
        assert!(!headers.contains_key(header::REFRESH));
        assert!(headers.get_all(header::LOCATION).iter().count() <= 1);
        let location = headers.get(header::LOCATION)?;
        Some(location.to_str().unwrap().to_owned())
    }

    fn path_form() -> Target {
        target(Form::Path {
            host: Some(HeaderValue::from_static("api.test:8080")),
            prefix: PREFIX.to_owned(),
        })
    }

    #[test]
    fn a_redirect_in_the_path_form_stays_at_the_port() {
        let target = path_form();
        let mut get = redirects(&target, Method::GET, false);
        let own = format!("{PREFIX}/x");
        let of_api = format!("http://api.test:8080{PREFIX}/x");
        for (location, expected) in [
            ("/x?y=1#z", "/x?y=1#z"),
            ("x", "/a/x"),
            ("", "/a/b?c=1"),
            ("?d", "/a/b?d"),
            ("../../../../x", "/x"),
            ("/%2e%2e/%2E./x", "/x"),
            ("..\\..\\..\\x", "/x"),
            ("/api/v1/sandboxes/sbx-b", "/api/v1/sandboxes/sbx-b"),
            ("http://localhost:3000/x", "/x"),
            ("https://127.0.0.1:3000//x", "//x"),
            ("http://user@[::1]:3000/x", "/x"),
            ("/link", "/link"),
            (own.as_str(), "/x"),
            (of_api.as_str(), "/x"),
            (PREFIX, "/"),
        ] {
            let expected = Some(format!("{PREFIX}{expected}"));
            assert_eq!(confined(&get, location), expected, "{location}");
        }
        let other = format!("http://api.test:8080{PREFIX}1/x");
        for location in [
            "http://evil.test/",
            "//evil.test/",
            "/\\evil.test/",
            "http://localhost:3001/",
            "http://localhost/",
            "http://localhost:3000@evil.test/",
            "http://api.test:8080/api/v1/sandboxes/sbx-b",
            "javascript:alert(1)",
            "ftp://localhost:3000/",
            "/..%2f..%5C%2e./keys",
            "http://[",
            &other,
        ] {
            assert_eq!(confined(&get, location), None, "{location}");
        }
        get.base = "/base";
        let expected = Some(format!("/base{PREFIX}/x"));
        assert_eq!(confined(&get, "/x"), expected);
        assert_eq!(confined(&get, &own), expected);
        assert_eq!(confined(&get, &format!("/base{own}")), expected);
        let post = redirects(&target, Method::POST, true);
        assert_eq!(confined(&post, "/link"), None);
        assert_eq!(confined(&post, "/x"), Some(own));
    }

    #[test]
    fn a_redirect_of_a_client_with_a_key_stays_at_the_host() {
        let target = target(Form::Domain {
            authority: "3000-sbx-a2.box.test".to_owned(),
        });
        let by_key = redirects(&target, Method::GET, true);
        for (location, expected) in [
            ("/x", "/x"),
            ("x?y#z", "/a/x?y#z"),
            ("https://3000-sbx-a2.box.test/x", "/x"),
            ("http://3000-SBX-a2.box.test:80/x", "/x"),
            ("/.//evil.test", "https://3000-sbx-a2.box.test//evil.test"),
        ] {
            let found = confined(&by_key, location);
            assert_eq!(found.as_deref(), Some(expected), "{location}");
        }
        for location in [
            "http://evil.test/",
            "//evil.test/",
            "https://3000-sbx-b.box.test/",
            "https://3000-sbx-a2.box.test:8443/",
            "https://3000-sbx-a2.box.test@evil.test/",
        ] {
            assert_eq!(confined(&by_key, location), None, "{location}");
        }
        let by_link = redirects(&target, Method::GET, false);
        let mut headers = HeaderMap::new();
        let anywhere = HeaderValue::from_static("http://other.test/");
        headers.insert(header::LOCATION, anywhere.clone());
        headers.insert(header::REFRESH, HeaderValue::from_static("5"));
        by_link.confine(&mut headers);
        assert_eq!(headers[header::LOCATION], anywhere);
        assert!(headers.contains_key(header::REFRESH));
    }
}
