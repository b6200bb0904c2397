//! Pages in a real browser: streams with tickets across lost connections.
//!
//! All servers are on loopback. The browser has a separate directory, which is
//! deleted with it.

mod chromium;
mod relay;

use futures::StreamExt;
use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::{KEY, Service, eventually};
use crate::pty::open;
use chromium::{Chromium, Page};
use relay::Relay;

/// Serves the page of the tests from a separate origin. Returns the origin.
async fn site() -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let origin = format!("http://{}", listener.local_addr().unwrap());
    let page = axum::response::Html(include_str!("browser/page.html"));
    let router = axum::Router::new().route("/", axum::routing::get(async move || page));
    tokio::spawn(async move { axum::serve(listener, router).await });
    origin
}

/// Lines that the page types into the terminal, each with its own number.
const LINES: u32 = 60;

/// Types lines and follows events while `cut` cuts the connections of the page.
/// Nothing may be lost, and nothing may come twice.
async fn streams_survive(service: &Service, page: &Page<'_>, base: &str, cut: impl AsyncFn()) {
    let id = service.sandbox().await;
    let (pty, _) = open(service, &id).await;
    let start = service.get("/api/v1/events?limit=1000").await["next"].clone();
    let start = start.as_str().unwrap();
    let arguments = json!([base, KEY, id, pty, start]);
    page.run(&format!("begin(...{arguments})")).await;
    for n in 0..LINES {
        // The quotes distinguish the echo of the input from the output.
        let input = format!("echo line-{n} >> log; echo out''-{n}\n");
        page.run(&format!("type({})", json!(input))).await;
        if n % 20 == 10 {
            cut().await;
        }
    }
    // These have events, which arrive on another stream.
    for _ in 0..3 {
        let other = service.sandbox().await;
        cut().await;
        service.delete(&other).await;
    }
    eventually("the terminal has all input", async || {
        page.run("unacknowledged()").await == 0
    })
    .await;
    let expected: String = (0..LINES).map(|n| format!("line-{n}\n")).collect();
    eventually("the shell has run all lines", async || {
        let log = service.output_of(&id, "cat log || true").await;
        log.len() >= expected.len()
    })
    .await;
    assert_eq!(service.output_of(&id, "cat log").await, expected);

    let last = format!("out-{}\r\n", LINES - 1);
    let last = json!(last);
    eventually("the page has all output", async || {
        page.run(&format!("output().includes({last})")).await == true
    })
    .await;
    // The whole output, read at once.
    let url = service.url.replacen("http", "ws", 1);
    let url = format!("{url}/api/v1/sandboxes/{id}/pty/{pty}/ws?format=binary");
    let mut socket = crate::harness::connect(&url).await.unwrap();
    let output = page.run("output()").await;
    let output = output.as_str().unwrap();
    let mut whole = Vec::new();
    while whole.len() < output.len() {
        let message = socket.next().await.unwrap().unwrap();
        if message.is_binary() {
            whole.extend(message.into_data());
        }
    }
    whole.truncate(output.len());
    assert_eq!(String::from_utf8_lossy(&whole), output);

    let path = format!("/api/v1/events?limit=1000&cursor={start}");
    let expected = async || {
        let page = service.get(&path).await;
        let items = page["items"].as_array().unwrap().iter();
        Value::Array(items.map(|event| event["id"].clone()).collect())
    };
    eventually("the page has all events", async || {
        page.run("events()").await == expected().await
    })
    .await;
    assert_eq!(page.run("problems()").await, json!([]));
    assert!(page.run("connections()").await.as_u64().unwrap() > 2);
}

#[tokio::test]
async fn a_page_loses_nothing_when_its_connections_break() {
    let (site, other) = (site().await, site().await);
    let service = Service::start_with(&[("ALLOWED_ORIGINS", &site)]).await;
    let relay = Relay::to(&service.url).await;
    let browser = Chromium::start(&[]).await;
    let page = browser.open(&site).await;
    streams_survive(&service, &page, &relay.url, async || relay.cut()).await;

    // A page of another origin gets no ticket, and cannot use that of another.
    let page = browser.open(&other).await;
    let refused = format!("canFetch({}, {})", json!(service.url), json!(KEY));
    assert_eq!(page.run(&refused).await, false);
    for (path, kind) in [
        ("/api/v1/sandboxes/sbx-1/pty/pty-1/ws", "WebSocket"),
        ("/api/v1/events", "EventSource"),
    ] {
        let wish = Some(json!({"path": path}));
        let made = service
            .expect(Method::POST, "/api/v1/tickets", wish, 201)
            .await;
        let opens = format!("opens({kind}, {})", made["url"]);
        assert_eq!(page.run(&opens).await, false, "{kind}");
    }
    browser.end().await;
}

mod behind_nginx {
    use std::process::{Child, Command};

    use super::*;

    /// An nginx with TLS in front of a server.
    struct Nginx {
        child: Child,
        directory: tempfile::TempDir,
        url: String,
    }

    impl Nginx {
        fn start(server: &str, port: u16) -> Self {
            let directory = tempfile::tempdir().unwrap();
            let at = |name: &str| directory.path().join(name);
            let key = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
            std::fs::write(at("cert.pem"), key.cert.pem()).unwrap();
            std::fs::write(at("key.pem"), key.signing_key.serialize_pem()).unwrap();
            let home = directory.path().display();
            let settings = format!(
                "daemon off; pid {home}/pid; error_log {home}/error.log; worker_processes 1;
                 events {{}}
                 http {{
                   access_log off; client_body_temp_path {home}/b; proxy_temp_path {home}/p;
                   fastcgi_temp_path {home}/f; uwsgi_temp_path {home}/u; scgi_temp_path {home}/s;
                   map $http_upgrade $upgrade {{ default upgrade; '' ''; }}
                   server {{
                     listen 127.0.0.1:{port} ssl;
                     ssl_certificate {home}/cert.pem; ssl_certificate_key {home}/key.pem;
                     location / {{
                       proxy_pass {server}; proxy_http_version 1.1; proxy_buffering off;
                       proxy_set_header Upgrade $http_upgrade;
                       proxy_set_header Connection $upgrade;
                       proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
                       proxy_set_header X-Forwarded-Proto $scheme;
                       proxy_set_header X-Forwarded-Host $http_host;
                     }}
                   }}
                 }}"
            );
            std::fs::write(at("nginx.conf"), settings).unwrap();
            let mut command = Command::new("/usr/sbin/nginx");
            command
                .arg("-e")
                .arg(at("error.log"))
                .arg("-c")
                .arg(at("nginx.conf"));
            let child = command.spawn().expect("nginx: apt-get install nginx-light");
            Self {
                child,
                url: format!("https://localhost:{port}"),
                directory,
            }
        }
    }

    impl Drop for Nginx {
        fn drop(&mut self) {
            let pid = rustix::process::Pid::from_child(&self.child);
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
            let _ = self.child.wait();
            let errors = std::fs::read_to_string(self.directory.path().join("error.log"));
            eprintln!("{}", errors.unwrap_or_default());
        }
    }

    #[tokio::test]
    async fn a_page_uses_streams_through_a_proxy_with_tls() {
        let site = site().await;
        let settings = [
            ("ALLOWED_ORIGINS", &*site),
            ("TRUSTED_PROXIES", "127.0.0.1"),
        ];
        let service = Service::start_with(&settings).await;
        let relay = Relay::to(&service.url).await;
        let free = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = free.local_addr().unwrap().port();
        drop(free);
        let nginx = Nginx::start(&relay.url, port);
        eventually("nginx listens", async || {
            tokio::net::TcpStream::connect(("127.0.0.1", port))
                .await
                .is_ok()
        })
        .await;
        let browser = Chromium::start(&["--ignore-certificate-errors"]).await;
        let page = browser.open(&site).await;
        let ticket = format!(
            "ticket({}, {}, '/api/v1/sandboxes/a/pty/b/ws')",
            json!(nginx.url),
            json!(KEY)
        );
        let url = page.run(&ticket).await;
        let secure = nginx.url.replacen("https", "wss", 1);
        assert!(url.as_str().unwrap().starts_with(&secure), "{url}");
        streams_survive(&service, &page, &nginx.url, async || relay.cut()).await;
        browser.end().await;
        drop(nginx);
    }
}
