//! Hostile programs behind a port, and hostile requests to it.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::program::{Program, answer};
use super::*;

/// Headers with which a program attacks the origin of the API, and a proxy in
/// front of it.
const ATTACKS: &str = "content-type: text/html\r\n\
     content-security-policy: default-src *\r\n\
     content-security-policy-report-only: report-uri /\r\n\
     set-cookie: session=evil; Domain=test; Path=/\r\n\
     set-cookie: elevo-port=evil\r\n\
     service-worker-allowed: /\r\n\
     clear-site-data: \"*\"\r\n\
     access-control-allow-origin: *\r\n\
     access-control-allow-credentials: true\r\n\
     strict-transport-security: max-age=9999999; includeSubDomains\r\n\
     alt-svc: h2=\"evil.test:443\"\r\n\
     x-accel-redirect: /private\r\n\
     x-sendfile: /etc/passwd\r\n\
     www-authenticate: Basic realm=\"password please\"\r\n\
     x-content-type-options: none\r\n\
     referrer-policy: unsafe-url\r\n\
     connection: x-hop\r\n\
     x-hop: 1\r\n\
     x-own: kept\r\n";

#[tokio::test]
async fn a_page_in_the_path_form_cannot_attack_the_api() {
    let service = Service::start().await;
    let id = service.sandbox().await;
    let program = Program::start(|_| answer(ATTACKS, "<script></script>")).await;
    let request = || at_path(&service, &id, program.port, "/page").bearer_auth(KEY);
    let response = request().send().await.unwrap();
    let headers = response.headers();
    let all = |name: &str| -> Vec<_> { headers.get_all(name).iter().collect() };
    assert_eq!(all("content-security-policy"), ["sandbox"]);
    assert_eq!(all("x-content-type-options"), ["nosniff"]);
    assert_eq!(all("referrer-policy"), ["no-referrer"]);
    assert_eq!(all("x-own"), ["kept"]);
    for gone in [
        "content-security-policy-report-only",
        "set-cookie",
        "service-worker-allowed",
        "clear-site-data",
        "access-control-allow-origin",
        "access-control-allow-credentials",
        "strict-transport-security",
        "alt-svc",
        "x-accel-redirect",
        "x-sendfile",
        "www-authenticate",
        "x-hop",
    ] {
        assert!(!headers.contains_key(gone), "{gone}: {headers:?}");
    }
    for (name, value) in [
        ("service-worker", "script"),
        ("sec-fetch-dest", "serviceworker"),
    ] {
        let refused = request().header(name, value).send().await.unwrap();
        assert_eq!(refused.headers()["content-security-policy"], "sandbox");
        assert_eq!(name_of(refused).await, (403, "FORBIDDEN".to_owned()));
    }
    assert_eq!(program.received().len(), 1);
}

#[tokio::test]
async fn a_page_in_the_domain_form_cannot_attack_other_hosts() {
    let service = with_domain().await;
    let id = service.sandbox().await;
    let program = Program::start(|_| answer(ATTACKS, "<script></script>")).await;
    let request = at_host(&service, &id, program.port, "/").bearer_auth(KEY);
    let response = request.send().await.unwrap();
    let headers = response.headers();
    let cookies: Vec<_> = headers.get_all("set-cookie").iter().collect();
    assert_eq!(cookies, ["session=evil; Path=/"]);
    assert_eq!(headers["content-security-policy"], "default-src *");
    assert_eq!(headers["service-worker-allowed"], "/");
    for gone in [
        "strict-transport-security",
        "alt-svc",
        "x-accel-redirect",
        "x-sendfile",
    ] {
        assert!(!headers.contains_key(gone), "{gone}: {headers:?}");
    }
}

#[tokio::test]
async fn invalid_responses_of_a_program_are_reported() {
    let service = Service::start().await;
    let id = service.sandbox().await;
    let endless = format!("HTTP/1.1 200 OK\r\n{}", "x-a: b\r\n".repeat(100_000));
    let long = format!("HTTP/1.1 200 OK\r\nx-long: {}", "x".repeat(1 << 20));
    for response in [
        "",
        "garbage\r\n\r\n",
        "SSH-2.0-OpenSSH_9.2\r\n",
        &endless,
        &long,
        "HTTP/1.1 200 OK\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\nhello",
        "HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\n",
        "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n",
        "HTTP/1.1 999 Odd\r\ncontent-length: 0\r\n\r\n",
    ] {
        let program = Program::fixed(response).await;
        let asked = at_path(&service, &id, program.port, "/")
            .bearer_auth(KEY)
            .send();
        let failed = name_of(asked.await.unwrap()).await;
        let shown = &response[..response.len().min(80)];
        assert_eq!(failed, (502, "PORT_FAILED".to_owned()), "{shown:?}");
    }
    // Informational responses are not passed on.
    let hints = "HTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n".repeat(20);
    let hints = format!("{hints}HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok");
    let program = Program::fixed(&hints).await;
    let asked = at_path(&service, &id, program.port, "/")
        .bearer_auth(KEY)
        .send();
    assert_eq!(asked.await.unwrap().text().await.unwrap(), "ok");
    // A body that ends early is not complete for the client either.
    let short = "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nshort";
    let program = Program::closing(short.into()).await;
    let asked = at_path(&service, &id, program.port, "/").bearer_auth(KEY);
    let response = asked.send().await.unwrap();
    response.text().await.unwrap_err();
}

#[tokio::test]
async fn a_program_that_does_not_respond_is_given_up() {
    let service = Service::start_with(&[("PORT_TIMEOUT", "1")]).await;
    let id = service.sandbox().await;
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let slow = Program::start(|_| b"HTTP/1.1 100 Continue\r\n\r\n".to_vec()).await;
    for port in [silent.local_addr().unwrap().port(), slow.port] {
        let asked = at_path(&service, &id, port, "/").bearer_auth(KEY).send();
        let response = asked.await.unwrap();
        assert_eq!(response.status(), 502);
        let body: Value = response.json().await.unwrap();
        assert_eq!(body["error"]["name"], "PORT_FAILED");
        let message = body["error"]["message"].as_str().unwrap();
        assert!(message.contains("in time"), "{message}");
    }
}

/// Starts a program that responds to the headers of a request, without regard
/// to the body. Returns its port.
async fn hasty() -> u16 {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut bytes = Vec::new();
                while let Ok(1..) = stream.read_buf(&mut bytes).await {
                    if bytes.windows(4).any(|part| part == b"\r\n\r\n") {
                        bytes.clear();
                        let response = answer("", "ok");
                        stream.write_all(&response).await.unwrap();
                    }
                }
            });
        }
    });
    port
}

#[tokio::test]
async fn an_upload_counts_as_running_after_the_response() {
    let service = Service::start_with(&[("PORT_REQUESTS", "1")]).await;
    let id = service.sandbox().await;
    let port = hasty().await;
    let address = service.url.trim_start_matches("http://");
    let mut stream = TcpStream::connect(address).await.unwrap();
    let line = format!("POST /api/v1/sandboxes/{id}/ports/{port}/ HTTP/1.1\r\nHost: api.test\r\n");
    let head = format!("{line}X-API-Key: {KEY}\r\nContent-Length: 9\r\n\r\n");
    stream.write_all(head.as_bytes()).await.unwrap();
    stream.write_all(b"begin").await.unwrap();
    let mut text = Vec::new();
    while !text.ends_with(b"\r\n\r\nok") {
        assert_ne!(stream.read_buf(&mut text).await.unwrap(), 0);
    }
    let next = || at_path(&service, &id, port, "/").bearer_auth(KEY).send();
    assert_eq!(next().await.unwrap().status(), 429);
    stream.write_all(b"end.").await.unwrap();
    eventually("the upload has ended", async || {
        next().await.unwrap().status() == 200
    })
    .await;
}

/// Sends bytes to the server, and after them a request that closes the
/// connection. Returns all responses.
async fn raw(service: &Service, bytes: &str) -> String {
    let address = service.url.trim_start_matches("http://");
    let mut stream = TcpStream::connect(address).await.unwrap();
    let last = "GET /health HTTP/1.1\r\nHost: api.test\r\nConnection: close\r\n\r\n";
    let bytes = format!("{bytes}{last}");
    stream.write_all(bytes.as_bytes()).await.unwrap();
    let mut text = Vec::new();
    // The server may reset a connection whose request it rejects.
    let _ = stream.read_to_end(&mut text).await;
    String::from_utf8_lossy(&text).into_owned()
}

#[tokio::test]
async fn a_redirect_does_not_lead_a_key_away_from_the_port() {
    let service = with_domain().await;
    let id = service.sandbox().await;
    // The path of the request is the address that the program redirects to.
    let program = Program::start(|request| {
        let to = request.split(' ').nth(1).unwrap();
        let to = to.trim_start_matches("/to=");
        let head = format!("location: {to}\r\nrefresh: 0; url={to}\r\n");
        let length = "content-length: 0\r\n";
        format!("HTTP/1.1 307 Temporary Redirect\r\n{head}{length}\r\n").into_bytes()
    })
    .await;
    let prefix = format!("/api/v1/sandboxes/{id}/ports/{}", program.port);
    let own = format!("location: {prefix}/api/v1/sandboxes\r\n");
    for (to, expected) in [
        ("/api/v1/sandboxes", Some(own.as_str())),
        ("http://evil.test/", None),
        ("//evil.test/", None),
    ] {
        let line = format!("DELETE {prefix}/to={to} HTTP/1.1\r\nHost: api.test\r\n");
        let got = raw(&service, &format!("{line}X-API-Key: {KEY}\r\n\r\n")).await;
        assert!(got.starts_with("HTTP/1.1 307 "), "{to}: {got}");
        assert!(!got.contains("refresh:"), "{to}: {got}");
        match expected {
            Some(expected) => assert!(got.contains(expected), "{to}: {got}"),
            None => assert!(!got.contains("location:"), "{to}: {got}"),
        }
    }
    let away = "/to=http://evil.test/";
    let to = || at_host(&service, &id, program.port, away);
    let by_key = to().header("x-api-key", KEY).send().await.unwrap();
    assert_eq!(by_key.status(), 307);
    assert!(!by_key.headers().contains_key("location"));
    let url = link(&service, &id, program.port, json!({})).await;
    let cookie = links::exchanged(&service, &id, program.port, &url).await;
    let by_cookie = to().header("cookie", cookie).send().await.unwrap();
    assert_eq!(by_cookie.headers()["location"], "http://evil.test/");
}

#[tokio::test]
async fn a_request_cannot_hide_another() {
    let service = with_domain().await;
    let id = service.sandbox().await;
    let program = Program::echo().await;
    let host = format!("{}-{id}.{DOMAIN}", program.port);
    let hidden = format!("GET /hidden HTTP/1.1\r\nHost: {host}\r\n\r\n");
    let line = format!("POST /a HTTP/1.1\r\nHost: {host}\r\nX-API-Key: {KEY}\r\n");
    let length = hidden.len();
    for request in [
        format!(
            "{line}Content-Length: {length}\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n{hidden}"
        ),
        format!("{line}Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\n{hidden}"),
        format!("{line}Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n{hidden}"),
        format!("{line}Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n{hidden}"),
        format!("{line}Content-Length: 0\r\nContent-Length: {length}\r\n\r\n{hidden}"),
        format!("{line}Content-Length: +{length}\r\n\r\n{hidden}"),
        format!("{line}Connection: content-length\r\nContent-Length: {length}\r\n\r\n{hidden}"),
        format!("{line}Connection: upgrade\r\nUpgrade: h2c\r\nContent-Length: 0\r\n\r\n"),
        format!(
            "{line}X: a\rTransfer-Encoding: chunked\r\nContent-Length: {length}\r\n\r\n{hidden}"
        ),
    ] {
        raw(&service, &request).await;
    }
    for received in program.received() {
        assert!(received.starts_with("POST /a HTTP/1.1\r\n"), "{received}");
        // Not "h2c" alone: the id of the sandbox is random and may contain it.
        assert!(!received.contains("\r\nupgrade: "), "{received}");
        let framed = ["content-length", "transfer-encoding"];
        let framed = framed
            .iter()
            .filter(|name| received.contains(&format!("\r\n{name}: ")));
        assert!(framed.count() <= 1, "{received}");
    }
    // A second host, and one in the first line that differs from the header.
    let port = program.port;
    let got = raw(
        &service,
        &format!("GET / HTTP/1.1\r\nHost: {host}\r\nHost: api.test\r\n\r\n"),
    )
    .await;
    assert!(got.starts_with("HTTP/1.1 400 "), "{got}");
    let got = raw(
        &service,
        &format!("GET http://api.test/ HTTP/1.1\r\nHost: {host}\r\n\r\n"),
    )
    .await;
    assert!(got.starts_with("HTTP/1.1 400 "), "{got}");
    let same = format!("GET http://{host}/x HTTP/1.1\r\nHost: {host}\r\nX-API-Key: {KEY}\r\n\r\n");
    let got = raw(&service, &same).await;
    assert!(got.contains("GET /x HTTP/1.1"), "{port}: {got}");
    assert!(!got.contains(KEY), "{got}");
}
