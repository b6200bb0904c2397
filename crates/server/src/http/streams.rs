//! The routes of streams, which accept a ticket in place of a key.

use axum::http::request::Parts;
use axum::http::{Method, Uri};
use serde::Deserialize;

use crate::failure::Failure;

/// The route of terminals.
const TERMINAL: &str = "/api/v1/sandboxes/{id}/pty/{ptyId}/ws";

/// The routes that accept a ticket in place of a key.
const STREAMS: [&str; 5] = [
    "/api/v1/events",
    "/api/v1/sandboxes/{id}/process/{cmdId}/output",
    "/api/v1/sandboxes/{id}/files/watch",
    TERMINAL,
    "/api/v1/workspaces/{id}/files/watch",
];

/// Returns the path and the query of a stream.
pub(super) fn parse(text: &str) -> Result<(String, Option<String>), Failure> {
    let refused = || {
        let message = "`path` must be the path of a terminal, of events, of the output of a \
                       command, or of a watch of files, such as `/api/v1/events`";
        Failure::invalid(message)
    };
    let uri: Uri = text.parse().map_err(|_| refused())?;
    // Only a text without scheme and host is a path.
    let is_path = uri.scheme().is_none() && uri.authority().is_none();
    let path = uri.path();
    if !is_path || !STREAMS.iter().any(|route| matches(route, path)) {
        return Err(refused());
    }
    let query = uri.query().filter(|query| !query.is_empty());
    Ok((path.to_owned(), query.map(str::to_owned)))
}

/// Returns whether a path is that of a terminal.
pub(super) fn is_terminal(path: &str) -> bool {
    matches(TERMINAL, path)
}

fn matches(route: &str, path: &str) -> bool {
    let (mut parts, mut texts) = (route.split('/'), path.split('/'));
    loop {
        match (parts.next(), texts.next()) {
            (None, None) => return true,
            (Some(part), Some(text)) if part == text => {}
            (Some(part), Some(text)) if part.starts_with('{') && !text.is_empty() => {}
            _ => return false,
        }
    }
}

/// Returns the ticket of a request, if its route accepts one.
pub(super) fn ticket(parts: &Parts, route: &str) -> Option<String> {
    #[derive(Deserialize)]
    struct WithTicket {
        ticket: Option<String>,
    }
    if parts.method != Method::GET || !STREAMS.contains(&route) {
        return None;
    }
    let query: WithTicket = serde_html_form::from_str(parts.uri.query()?).ok()?;
    query.ticket
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_paths_of_streams_are_accepted() {
        let path = |text: &str| parse(text).map(|(path, _)| path);
        for good in [
            "/api/v1/events",
            "/api/v1/sandboxes/sbx-1/pty/pty-1/ws",
            "/api/v1/sandboxes/a%20name/process/cmd-1/output",
        ] {
            assert_eq!(path(good).unwrap(), good);
        }
        let (found, query) = parse("/api/v1/events?kinds=a,b").unwrap();
        assert_eq!(
            (&*found, query.as_deref()),
            ("/api/v1/events", Some("kinds=a,b"))
        );
        for bad in [
            "",
            "*",
            "api/v1/events",
            "/api/v1/events/",
            "/api/v1/sandboxes",
            "/api/v1/sandboxes/sbx-1/process/cmd-1",
            "/api/v1/sandboxes//pty/pty-1/ws",
            "http://other.example/api/v1/events",
            "//other.example/api/v1/events",
            "/api/v1/events\r\nx: y",
        ] {
            path(bad).unwrap_err();
        }
        assert!(is_terminal("/api/v1/sandboxes/sbx-1/pty/pty-1/ws"));
        assert!(!is_terminal("/api/v1/events"));
    }
}
