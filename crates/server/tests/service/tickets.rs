//! Tickets for streams, and the origins of pages that may use the API.

use std::time::Duration;

use futures::StreamExt;
use reqwest::header::{HeaderMap, HeaderValue};
use reqwest::{Method, Response, StatusCode};
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;

use crate::harness::{KEY, Service, Socket};
use crate::pty::{open, read_until, type_in};

const APP: &str = "https://app.example";
const EVIL: &str = "https://evil.example";

/// Connects without a key.
async fn connect(url: &str, origin: Option<&str>) -> Result<Socket, tungstenite::Error> {
    let mut request = url.into_client_request()?;
    let headers = request.headers_mut();
    let offered = HeaderValue::from_static("other, elevo.pty.v1");
    headers.insert("sec-websocket-protocol", offered);
    if let Some(origin) = origin {
        headers.insert("origin", origin.parse().unwrap());
    }
    let (socket, answer) = tokio_tungstenite::connect_async(request).await?;
    assert_eq!(answer.headers()["sec-websocket-protocol"], "elevo.pty.v1");
    Ok(socket)
}

fn assert_refused(connected: Result<Socket, tungstenite::Error>, status: u16, name: &str) {
    match connected {
        Err(tungstenite::Error::Http(answer)) => {
            assert_eq!(answer.status(), status);
            let body = answer.body().as_deref().unwrap_or_default();
            let body: Value = serde_json::from_slice(body).unwrap();
            assert_eq!(body["error"]["name"], name, "{body}");
        }
        other => panic!("{other:?}"),
    }
}

fn assert_unauthorized(connected: Result<Socket, tungstenite::Error>) {
    assert_refused(connected, 401, "UNAUTHORIZED");
}

async fn ticket(service: &Service, key: &str, path: &str) -> Value {
    let wish = Some(json!({"path": path}));
    let made = service.expect_as(key, Method::POST, "/api/v1/tickets", wish, 201);
    let made = made.await;
    let expires = made["expiresAt"].as_str().unwrap();
    expires.parse::<jiff::Timestamp>().unwrap();
    made
}

fn text(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}

/// Fails if a ticket is in a log, an audit record or another file of the server.
fn assert_secret(service: &Service, tickets: &[String]) {
    for ticket in tickets {
        assert!(!service.logged(ticket), "the log has a ticket");
        let found = std::process::Command::new("grep")
            .args(["-rqF", "--", ticket])
            .arg(&service.data)
            .status()
            .unwrap();
        assert!(!found.success(), "the data directory has a ticket");
    }
}

#[tokio::test]
async fn a_ticket_opens_one_connection_to_its_terminal() {
    let service = Service::start().await;
    let id = service.sandbox().await;
    let (pty, _) = open(&service, &id).await;
    let (second, _) = open(&service, &id).await;
    let key = json!({"name": "guest", "scopes": ["process"]});
    let key = service.post("/api/v1/keys", key).await;
    let secret = text(&key["secret"]);
    let path = |pty: &str| format!("/api/v1/sandboxes/{id}/pty/{pty}/ws");
    let base = service.url.replacen("http", "ws", 1);
    let at = |pty: &str, ticket: &str| format!("{base}{}?ticket={ticket}", path(pty));

    let made = ticket(&service, &secret, &path(&pty)).await;
    let used = text(&made["ticket"]);
    assert_eq!(made["url"], at(&pty, &used));
    let mut socket = connect(&at(&pty, &used), None).await.unwrap();
    type_in(&mut socket, "echo $((40 + 2))\n").await;
    read_until(&mut socket, "42\r\n").await;
    assert_unauthorized(connect(&at(&pty, &used), None).await);
    // The attempt to use a ticket for another terminal uses it up.
    let wrong = text(&ticket(&service, &secret, &path(&pty)).await["ticket"]);
    assert_unauthorized(connect(&at(&second, &wrong), None).await);
    assert_unauthorized(connect(&at(&pty, &wrong), None).await);
    assert_unauthorized(connect(&at(&pty, "guessed"), None).await);
    // No other route accepts a ticket, and no other method.
    let other = text(&ticket(&service, &secret, &path(&pty)).await["ticket"]);
    let list = format!("/api/v1/sandboxes/{id}/process");
    for (method, path) in [(Method::GET, list), (Method::HEAD, path(&pty))] {
        let url = format!("{}{path}?ticket={other}", service.url);
        let answer = service.http.request(method, url).send().await.unwrap();
        assert_eq!(answer.status(), 401);
    }
    // A ticket is worth no more than its key.
    let late = text(&ticket(&service, &secret, &path(&pty)).await["ticket"]);
    let path = format!("/api/v1/keys/{}", text(&key["id"]));
    service.expect(Method::DELETE, &path, None, 204).await;
    assert_unauthorized(connect(&at(&pty, &late), None).await);
    assert_secret(&service, &[used, wrong, other, late]);
}

/// Reads a stream until it contains a text.
async fn stream_until(answer: Response, wanted: &str) -> String {
    assert_eq!(answer.status(), 200);
    let (mut found, mut pieces) = (String::new(), answer.bytes_stream());
    while !found.contains(wanted) {
        let piece = tokio::time::timeout(Duration::from_secs(20), pieces.next()).await;
        let piece = piece.unwrap_or_else(|_| panic!("no `{wanted}` in {found:?}"));
        found += &String::from_utf8_lossy(&piece.unwrap().unwrap());
    }
    found
}

#[tokio::test]
async fn a_ticket_opens_events_and_the_output_of_a_command() {
    let service = Service::start().await;
    let id = service.sandbox().await;
    let get = async |made: &Value| {
        let request = service.http.get(text(&made["url"]));
        let request = request.header("accept", "text/event-stream");
        request.send().await.unwrap()
    };
    let events = ticket(&service, KEY, "/api/v1/events?cursor=0").await;
    assert!(text(&events["url"]).contains("/api/v1/events?cursor=0&ticket="));
    stream_until(get(&events).await, "sandbox.created").await;
    let again = get(&events).await;
    assert_eq!(again.status(), 401);

    let wish = json!({"command": "echo the output", "background": true});
    let wish = service.inside(&id, wish);
    let run = format!("/api/v1/sandboxes/{id}/process/run");
    let started = service.expect(Method::POST, &run, Some(wish), 202).await;
    let command = text(&started["commandId"]);
    let path = format!("/api/v1/sandboxes/{id}/process/{command}/output");
    let output = ticket(&service, KEY, &path).await;
    let found = stream_until(get(&output).await, "event: exit").await;
    assert!(found.contains("the output"), "{found}");

    for path in [
        "/api/v1/sandboxes",
        "/api/v1/events/",
        "",
        "http://other.example/api/v1/events",
    ] {
        let wish = Some(json!({"path": path}));
        let refused = service
            .expect(Method::POST, "/api/v1/tickets", wish, 400)
            .await;
        assert_eq!(refused["error"]["name"], "INVALID_REQUEST", "{path}");
    }
    // A ticket gives no rights that its key lacks.
    let key = json!({"name": "guest", "scopes": ["process"]});
    let key = service.post("/api/v1/keys", key).await;
    let without = ticket(&service, &text(&key["secret"]), "/api/v1/events").await;
    assert_eq!(get(&without).await.status(), 403);
    let tickets = [&events, &output, &without].map(|made| text(&made["ticket"]));
    assert_secret(&service, &tickets);
}

fn header<'a>(headers: &'a HeaderMap, name: &str) -> &'a str {
    headers
        .get(name)
        .map_or("", |value| value.to_str().unwrap())
}

#[tokio::test]
async fn pages_of_allowed_origins_may_use_the_api() {
    let service = Service::start_without_engine(&[("ALLOWED_ORIGINS", APP)]);
    let preflight = async |origin: &str| {
        let url = format!("{}/api/v1/tickets", service.url);
        let request = service.http.request(Method::OPTIONS, url);
        let request = request
            .header("origin", origin)
            .header("access-control-request-method", "POST")
            .header(
                "access-control-request-headers",
                "authorization,content-type",
            );
        request.send().await.unwrap()
    };
    let allowed = preflight(APP).await;
    assert!(allowed.status().is_success());
    let headers = allowed.headers();
    assert_eq!(header(headers, "access-control-allow-origin"), APP);
    assert!(header(headers, "access-control-allow-methods").contains("POST"));
    assert!(header(headers, "access-control-allow-headers").contains("authorization"));
    assert!(!headers.contains_key("access-control-allow-credentials"));
    let refused = preflight(EVIL).await;
    assert!(
        !refused
            .headers()
            .contains_key("access-control-allow-origin")
    );

    let get = async |key: &str, origin: &str| {
        let request = service.http.get(format!("{}/api/v1/me", service.url));
        let request = request.bearer_auth(key).header("origin", origin);
        request.send().await.unwrap()
    };
    // Errors have the headers as well, so that a page can read them.
    for (key, status) in [(KEY, StatusCode::OK), ("wrong", StatusCode::UNAUTHORIZED)] {
        let answer = get(key, APP).await;
        assert_eq!(answer.status(), status);
        let headers = answer.headers();
        assert_eq!(header(headers, "access-control-allow-origin"), APP);
        assert!(header(headers, "vary").contains("origin"));
        let exposed = header(headers, "access-control-expose-headers");
        for name in [
            "x-request-id",
            "retry-after",
            "ratelimit",
            "etag",
            "idempotency-replayed",
        ] {
            assert!(exposed.contains(name), "{name}: {exposed}");
        }
    }
    let other = get(KEY, EVIL).await;
    assert!(!other.headers().contains_key("access-control-allow-origin"));
}

#[tokio::test]
async fn without_allowed_origins_no_response_has_headers_for_pages() {
    let service = Service::start_without_engine(&[]);
    let request = service.request(Method::GET, "/api/v1/me");
    let answer = request.header("origin", APP).send().await.unwrap();
    assert_eq!(answer.status(), 200);
    assert!(!answer.headers().contains_key("access-control-allow-origin"));
    let request = service.request(Method::OPTIONS, "/api/v1/me");
    assert_eq!(request.send().await.unwrap().status(), 405);
}

#[tokio::test]
async fn streams_are_denied_to_pages_of_other_origins() {
    let service = Service::start_with(&[("ALLOWED_ORIGINS", APP)]).await;
    let id = service.sandbox().await;
    let (pty, _) = open(&service, &id).await;
    let path = format!("/api/v1/sandboxes/{id}/pty/{pty}/ws");
    let made = text(&ticket(&service, KEY, &path).await["url"]);
    for origin in [EVIL, "null", "http://127.0.0.1:1"] {
        let connected = connect(&made, Some(origin)).await;
        assert_refused(connected, 403, "ORIGIN_NOT_ALLOWED");
    }
    // A denied attempt does not use the ticket up.
    connect(&made, Some(APP)).await.unwrap();
    let own = text(&ticket(&service, KEY, &path).await["url"]);
    connect(&own, Some(&service.url)).await.unwrap();

    let events = text(&ticket(&service, KEY, "/api/v1/events").await["url"]);
    let get = |origin: &str| {
        let request = service.http.get(&events).header("origin", origin);
        request.header("accept", "text/event-stream").send()
    };
    let refused = get(EVIL).await.unwrap();
    assert_eq!(refused.status(), 403);
    let body: Value = refused.json().await.unwrap();
    assert_eq!(body["error"]["name"], "ORIGIN_NOT_ALLOWED");
    assert_eq!(get(APP).await.unwrap().status(), 200);

    // A WebSocket with a key is denied as well: a browser would not send one.
    let mut request = format!("{}{path}", service.url.replacen("http", "ws", 1))
        .into_client_request()
        .unwrap();
    let headers = request.headers_mut();
    headers.insert("x-api-key", KEY.parse().unwrap());
    headers.insert("origin", EVIL.parse().unwrap());
    let connected = tokio_tungstenite::connect_async(request).await;
    let connected = connected.map(|(socket, _)| socket);
    assert_refused(connected, 403, "ORIGIN_NOT_ALLOWED");
}

#[tokio::test]
async fn a_trusted_proxy_states_the_address_of_the_server() {
    let address = async |settings: &[(&str, &str)]| {
        let service = Service::start_without_engine(settings);
        let request = service.request(Method::POST, "/api/v1/tickets");
        let request = request
            .header("x-forwarded-proto", "https")
            .header("x-forwarded-host", "elevo.example:8443")
            .json(&json!({"path": "/api/v1/sandboxes/sbx-1/pty/pty-1/ws"}));
        let made: Value = request.send().await.unwrap().json().await.unwrap();
        (text(&made["url"]), service.url.replacen("http", "ws", 1))
    };
    let (url, _) = address(&[("TRUSTED_PROXIES", "127.0.0.0/8")]).await;
    assert!(
        url.starts_with("wss://elevo.example:8443/api/v1/sandboxes/"),
        "{url}"
    );
    let (url, own) = address(&[]).await;
    assert!(url.starts_with(&own), "{url}");
    let public = [("PUBLIC_URL", "https://public.example/base")];
    let (url, _) = address(&public).await;
    assert!(
        url.starts_with("wss://public.example/base/api/v1/"),
        "{url}"
    );
}
