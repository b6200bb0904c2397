//! Requests to programs that listen on ports of sandboxes.

mod hostile;
mod links;
pub(crate) mod program;
mod secrets;
mod sockets;

use reqwest::{Method, RequestBuilder, Response};
use serde_json::{Value, json};

use self::program::Program;
use crate::harness::{KEY, Service, eventually};

/// The domain of ports in these tests.
const DOMAIN: &str = "box.test";

/// Starts a server whose ports have hosts.
async fn with_domain() -> Service {
    Service::start_with(&[("PORTS_DOMAIN", DOMAIN)]).await
}

/// Builds a request to a port in the path form, without a key.
fn at_path(service: &Service, id: &str, port: u16, rest: &str) -> RequestBuilder {
    let path = format!("/api/v1/sandboxes/{id}/ports/{port}{rest}");
    service.http.get(format!("{}{path}", service.url))
}

/// Builds a request to a port in the domain form, without a key.
fn at_host(service: &Service, id: &str, port: u16, rest: &str) -> RequestBuilder {
    let host = format!("{port}-{id}.{DOMAIN}");
    let client = reqwest::Client::builder();
    let client = client
        .redirect(reqwest::redirect::Policy::none())
        .build()
        .unwrap();
    client
        .get(format!("{}{rest}", service.url))
        .header("host", host)
}

/// Creates a link; returns its address.
async fn link(service: &Service, id: &str, port: u16, wish: Value) -> String {
    let path = format!("/api/v1/sandboxes/{id}/ports/{port}/link");
    let made = service.expect(Method::POST, &path, Some(wish), 201).await;
    made["url"].as_str().unwrap().to_owned()
}

/// Returns the token in the address of a link.
fn token(url: &str) -> &str {
    url.split("elevo-link=").nth(1).unwrap()
}

async fn name_of(response: Response) -> (u16, String) {
    let status = response.status().as_u16();
    let body: Value = response.json().await.unwrap_or_default();
    (
        status,
        body["error"]["name"]
            .as_str()
            .unwrap_or_default()
            .to_owned(),
    )
}

#[tokio::test]
async fn a_request_reaches_the_program_and_its_response_the_client() {
    let service = Service::start().await;
    let id = service.sandbox().await;
    let program = Program::echo().await;
    let path = format!("/api/v1/sandboxes/{id}/ports/{}", program.port);
    let cases = [
        (Method::GET, "", "GET / HTTP/1.1"),
        (Method::GET, "/", "GET / HTTP/1.1"),
        (
            Method::GET,
            "/a%2Fb//c/../d?x=%20&y",
            "GET /a%2Fb//c/../d?x=%20&y HTTP/1.1",
        ),
        (Method::PUT, "/file?", "PUT /file? HTTP/1.1"),
        (Method::PATCH, "/link", "PATCH /link HTTP/1.1"),
        (Method::DELETE, "/link/", "DELETE /link/ HTTP/1.1"),
        (Method::OPTIONS, "/link", "OPTIONS /link HTTP/1.1"),
        (Method::POST, "/form", "POST /form HTTP/1.1"),
    ];
    for (method, rest, line) in cases {
        let request = service.request(method.clone(), "").build().unwrap();
        let (mut raw, client) = (request, &service.http);
        // Without the changes that parsing a URL would make to the path.
        let url = format!("{}{path}{rest}", service.url);
        *raw.url_mut() = url.parse().unwrap();
        let response = client.execute(raw).await.unwrap();
        assert_eq!(response.status(), 200, "{method} {rest}");
        let text = response.text().await.unwrap();
        let expected = match rest.contains("..") {
            true => "GET /a%2Fb//d?x=%20&y HTTP/1.1",
            false => line,
        };
        assert!(text.starts_with(expected), "{method} {rest}: {text}");
    }
    let body = "text ".repeat(100_000);
    let sending = service.request(Method::POST, &format!("{path}/upload"));
    let text = sending
        .body(body.clone())
        .send()
        .await
        .unwrap()
        .text()
        .await
        .unwrap();
    let head = text.split("\r\n\r\n").next().unwrap();
    assert!(text.ends_with(&body), "{head}");
    for line in [
        format!("host: localhost:{}", program.port),
        "x-forwarded-for: 127.0.0.1".to_owned(),
        "x-forwarded-proto: http".to_owned(),
        format!(
            "x-forwarded-host: {}",
            service.url.trim_start_matches("http://")
        ),
        format!("x-forwarded-prefix: {path}"),
    ] {
        assert!(head.contains(&line), "{line}: {head}");
    }
}

#[tokio::test]
async fn connections_to_a_program_are_reused() {
    let service = Service::start().await;
    let id = service.sandbox().await;
    let program = Program::echo().await;
    eventually("a connection is used again", async || {
        let request = at_path(&service, &id, program.port, "/").bearer_auth(KEY);
        request.send().await.unwrap().text().await.unwrap();
        program.received().len() > program.connections()
    })
    .await;
}

#[tokio::test]
async fn a_request_whose_kept_connection_was_closed_is_sent_again() {
    let service = Service::start().await;
    let id = service.sandbox().await;
    let program = Program::closing(program::answer("", "text")).await;
    for _ in 0..20 {
        let request = at_path(&service, &id, program.port, "/").bearer_auth(KEY);
        assert_eq!(request.send().await.unwrap().text().await.unwrap(), "text");
    }
}

#[tokio::test]
async fn a_port_without_a_program_and_a_stopped_sandbox_are_reported() {
    let service = Service::start().await;
    let id = service.sandbox().await;
    // Bound, so that other tests do not get the port; but it does not listen.
    let bound = tokio::net::TcpSocket::new_v4().unwrap();
    bound.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let free = bound.local_addr().unwrap().port();
    let path = format!("/api/v1/sandboxes/{id}/ports/{free}/");
    let closed = service.expect(Method::GET, &path, None, 502).await;
    assert_eq!(closed["error"]["name"], "PORT_NOT_OPEN");
    assert_eq!(closed["error"]["details"]["port"], free);
    let help = closed["error"]["remediation"].as_str().unwrap();
    assert!(help.contains("127.0.0.1 or 0.0.0.0"), "{help}");
    for wrong in ["0", "65536", "080", "x"] {
        let path = format!("/api/v1/sandboxes/{id}/ports/{wrong}/");
        let refused = service.expect(Method::GET, &path, None, 400).await;
        assert_eq!(refused["error"]["name"], "INVALID_REQUEST");
    }
    let stop = format!("/api/v1/sandboxes/{id}/stop");
    service.expect(Method::POST, &stop, None, 200).await;
    let stopped = service.expect(Method::GET, &path, None, 409).await;
    assert_eq!(stopped["error"]["name"], "SANDBOX_WRONG_STATE");
}

#[tokio::test]
async fn requests_to_the_ports_of_a_sandbox_are_limited() {
    let service = Service::start_with(&[("PORT_REQUESTS", "1")]).await;
    let id = service.sandbox().await;
    let program = Program::fixed("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nbegin").await;
    // The body is not complete, so this request runs until it is dropped.
    let running = at_path(&service, &id, program.port, "/").bearer_auth(KEY);
    let running = running.send().await.unwrap();
    let next = || {
        at_path(&service, &id, program.port, "/")
            .bearer_auth(KEY)
            .send()
    };
    let refused = next().await.unwrap();
    assert_eq!(refused.headers()["retry-after"], "1");
    assert_eq!(name_of(refused).await, (429, "RATE_LIMITED".to_owned()));
    drop(running);
    eventually("the request has ended", async || {
        next().await.unwrap().status() == 200
    })
    .await;
}

#[tokio::test]
async fn the_use_of_a_port_is_audited_once_and_each_link_as_well() {
    let service = with_domain().await;
    let id = service.sandbox().await;
    let program = Program::echo().await;
    let url = link(&service, &id, program.port, json!({})).await;
    for _ in 0..3 {
        let request = at_path(&service, &id, program.port, "/").bearer_auth(KEY);
        assert_eq!(request.send().await.unwrap().status(), 200);
    }
    let opening = format!("/?elevo-link={}", token(&url));
    let opened = at_host(&service, &id, program.port, &opening).send();
    assert_eq!(opened.await.unwrap().status(), 303);
    let denied = at_host(&service, &id, program.port, "/").send();
    assert_eq!(denied.await.unwrap().status(), 401);
    let log = crate::audit::records(&service);
    let of = |event: &str| log.iter().filter(|record| record["event"] == event).count();
    assert_eq!(
        (of("port.linked"), of("port.opened"), of("auth.failed")),
        (1, 2, 1)
    );
    let opened = log
        .iter()
        .find(|record| record["event"] == "port.opened")
        .unwrap();
    assert_eq!(opened["sandbox_id"], *id);
    assert_eq!(opened["port"], program.port);
    assert!(
        !format!("{log:?}").contains(token(&url)),
        "a token is in the audit log"
    );
    assert!(!service.logged(token(&url)), "a token is in the log");
}

mod on_docker {
    use super::*;

    #[tokio::test]
    async fn a_port_of_a_sandbox_without_a_network_is_reached() {
        let service = Service::with_docker().await;
        let wish = json!({"template": "base", "network": "none"});
        let made = service.post("/api/v1/sandboxes", wish).await;
        let id = made["id"].as_str().unwrap();
        let command = "perl -MIO::Socket::INET -e 'my $s = IO::Socket::INET->new(LocalAddr => \
                       \"127.0.0.1:3000\", Listen => 5, ReuseAddr => 1) or die; while (my $c = \
                       $s->accept) { while (<$c>) { last if /^\\r?$/ } print $c \"HTTP/1.1 200 \
                       OK\\r\\ncontent-length: 6\\r\\nconnection: close\\r\\n\\r\\ninside\"; close \
                       $c }'";
        let wish = json!({"command": command, "background": true});
        let run = format!("/api/v1/sandboxes/{id}/process/run");
        service.post(&run, wish).await;
        let mut text = String::new();
        eventually("the program listens", async || {
            let request = at_path(&service, id, 3000, "/").bearer_auth(KEY);
            let response = request.send().await.unwrap();
            let is_there = response.status() == 200;
            text = response.text().await.unwrap_or_default();
            is_there
        })
        .await;
        assert_eq!(text, "inside");
        let other = at_path(&service, id, 3001, "/")
            .bearer_auth(KEY)
            .send()
            .await;
        assert_eq!(
            name_of(other.unwrap()).await,
            (502, "PORT_NOT_OPEN".to_owned())
        );
    }
}
