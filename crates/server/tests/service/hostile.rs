//! Clients that are slow, silent, malformed or many: the server still serves
//! the others, and keeps nothing of these clients.

use std::time::{Duration, Instant};

use futures::future::join_all;
use reqwest::Method;
use reqwest::header::ACCEPT;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::timeout;

use crate::harness::{Events, KEY, Service, eventually};

/// Longer than any limit of a connection.
const PATIENCE: Duration = Duration::from_secs(100);

fn address(service: &Service) -> &str {
    service.url.strip_prefix("http://").unwrap()
}

async fn open(service: &Service) -> TcpStream {
    TcpStream::connect(address(service)).await.unwrap()
}

/// Opens a connection from an address of loopback.
async fn open_from(service: &Service, last: u8) -> std::io::Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    socket.bind(([127, 0, 0, last], 0).into())?;
    socket.connect(address(service).parse().unwrap()).await
}

/// Sends a request, and reads its response. The connection stays open.
async fn ask(stream: &mut TcpStream, request: &str) -> String {
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    loop {
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_default();
        let length = head.lines().find_map(|line| {
            let (name, value) = line.split_once(": ")?;
            name.eq_ignore_ascii_case("content-length").then_some(value)
        });
        if length.is_some_and(|length| length.parse() == Ok(body.len())) {
            return answer;
        }
        let mut piece = [0; 4096];
        let length = stream.read(&mut piece).await.unwrap();
        assert!(
            length > 0,
            "the server closed the connection after: {answer}"
        );
        answer += std::str::from_utf8(&piece[..length]).unwrap();
    }
}

/// Reads until the server closes the connection.
async fn rest(stream: &mut TcpStream) -> String {
    let mut text = Vec::new();
    let read = timeout(PATIENCE, stream.read_to_end(&mut text)).await;
    // A connection that is reset is closed as well.
    let _ = read.expect("the server closes the connection");
    String::from_utf8_lossy(&text).into_owned()
}

#[tokio::test]
async fn names_of_methods_are_not_kept() {
    let service = Service::start_without_engine(&[]);
    let mut stream = open(&service).await;
    for n in 0..100 {
        let request = format!("FOO{n} /api/v1/sandboxes HTTP/1.1\r\nhost: x\r\n\r\n");
        let answer = ask(&mut stream, &request).await;
        assert!(answer.starts_with("HTTP/1.1 405"), "{answer}");
    }
    let metrics = reqwest::get(format!("{}/metrics", service.metrics)).await;
    let metrics = metrics.unwrap().text().await.unwrap();
    assert!(metrics.contains("api_request_total"), "{metrics}");
    assert!(!metrics.contains("FOO"), "{metrics}");
    assert!(!service.logged("FOO"));
}

#[tokio::test]
async fn http_2_is_not_spoken() {
    let service = Service::start_without_engine(&[]);
    let mut stream = open(&service).await;
    // The preface, and empty settings.
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
    stream.write_all(preface).await.unwrap();
    let answer = rest(&mut stream).await;
    assert!(
        answer.is_empty() || answer.starts_with("HTTP/1.1 "),
        "{answer:?}"
    );
}

#[tokio::test]
async fn connections_that_keep_the_server_waiting_are_closed() {
    let service = Service::start_without_engine(&[]);
    let silent = async {
        let mut stream = open(&service).await;
        assert_eq!(rest(&mut stream).await, "");
    };
    let dripping = async {
        let mut stream = open(&service).await;
        stream.write_all(b"GET /health HTTP/1.1\r\n").await.unwrap();
        let drip = async {
            while stream.write_all(b"a: b\r\n").await.is_ok() {
                // The client has to be slow for this test, but not so slow that
                // its connection counts as silent.
                tokio::time::sleep(Duration::from_millis(500)).await;
            }
        };
        timeout(PATIENCE, drip).await.expect("it is closed");
    };
    let idle = async {
        let mut stream = open(&service).await;
        let request = b"GET /health HTTP/1.1\r\nhost: x\r\n\r\n";
        stream.write_all(request).await.unwrap();
        let answer = rest(&mut stream).await;
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    };
    let stalled = async {
        let mut stream = open(&service).await;
        let head = format!(
            "POST /api/v1/snapshots HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {KEY}\r\n\
             content-type: application/x-tar\r\ncontent-length: 100000\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        stream.write_all(&[0; 100]).await.unwrap();
        let answer = rest(&mut stream).await;
        assert!(answer.starts_with("HTTP/1.1 4"), "{answer}");
        assert!(answer.contains("too slowly"), "{answer}");
    };
    // A client with a key may idle longer than one without.
    let kept = async {
        let mut stream = open(&service).await;
        let request = format!(
            "GET /api/v1/projects HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {KEY}\r\n\r\n"
        );
        let answer = ask(&mut stream, &request).await;
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        // The client without a key begins to idle now, and is closed first.
        idle.await;
        let answer = ask(&mut stream, &request).await;
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    };
    tokio::join!(silent, dripping, stalled, kept);
}

#[tokio::test]
async fn headers_have_a_bounded_length() {
    let service = Service::start_without_engine(&[]);
    let mut stream = open(&service).await;
    let head = format!(
        "GET /health HTTP/1.1\r\nhost: x\r\na: {}\r\n\r\n",
        "x".repeat(300_000)
    );
    // The server may close before it has read everything.
    let _ = stream.write_all(head.as_bytes()).await;
    let answer = rest(&mut stream).await;
    assert!(
        answer.is_empty() || answer.starts_with("HTTP/1.1 431"),
        "{answer}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn silent_strangers_make_way() {
    let service = Service::start_without_engine(&[("MAX_CONNECTIONS", "128")]);
    let mut silent = Vec::new();
    for n in 0..400_u16 {
        // Several times MAX_CONNECTIONS, from eight addresses.
        let last = 2 + (n % 8) as u8;
        silent.push(open_from(&service, last).await.unwrap());
        if n % 20 == 0 {
            let asked = service.request(Method::GET, "/api/v1/projects");
            let asked = asked.timeout(PATIENCE).send().await.unwrap();
            assert_eq!(asked.status(), 200, "after {n}");
        }
    }
    // A new connection is served as well.
    let other = reqwest::Client::new().get(format!("{}/api/v1/projects", service.url));
    let answer = other.bearer_auth(KEY).send().await.unwrap();
    assert_eq!(answer.status(), 200);
    let open = || std::fs::read_dir(format!("/proc/{}/fd", service.pid())).unwrap();
    assert!(open().count() < 400);
    // The remaining ones are closed although they send nothing.
    eventually("they are all closed", async || {
        let mut all = join_all(silent.iter_mut().map(is_closed)).await;
        all.retain(|is_closed| !is_closed);
        all.is_empty()
    })
    .await;
}

async fn is_closed(stream: &mut TcpStream) -> bool {
    let mut byte = [0];
    let read = timeout(Duration::from_millis(1), stream.read(&mut byte)).await;
    read.is_ok_and(|read| !matches!(read, Ok(1..)))
}

#[tokio::test(flavor = "multi_thread")]
async fn many_streams_of_one_key_from_one_address_all_run() {
    let service = Service::start_without_engine(&[]);
    let events = || {
        let request = service.request(Method::GET, "/api/v1/events?cursor=0");
        request.header(ACCEPT, "text/event-stream").send()
    };
    let streams = join_all((0..256).map(|_| events())).await;
    let streams: Vec<_> = streams.into_iter().map(Result::unwrap).collect();
    assert!(streams.iter().all(|stream| stream.status() == 200));
    // The server closes a silent connection that is younger than the streams.
    assert_eq!(rest(&mut open(&service).await).await, "");
    let made = json!({"name": "site"});
    let made = service.post("/api/v1/projects", made).await;
    let path = format!("/api/v1/projects/{}/apply", made["id"].as_str().unwrap());
    let change = json!({"files": [{"path": "a", "content": "a"}]});
    service.expect(Method::POST, &path, Some(change), 200).await;
    let heard = streams.into_iter().map(|stream| async move {
        let mut events = Events::new(stream);
        timeout(PATIENCE, events.next()).await
    });
    for event in join_all(heard).await {
        assert!(event.expect("an event comes").is_some());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_waits_for_no_silent_client() {
    let mut service = Service::start_without_engine(&[("STOP_GRACE", "3600")]);
    let mut silent = Vec::new();
    // More than the limit for an address.
    for _ in 0..100 {
        silent.push(open(&service).await);
    }
    // The response to a later request proves that the server has accepted all
    // of these connections.
    let answer = service
        .request(Method::GET, "/api/v1/projects")
        .send()
        .await;
    assert_eq!(answer.unwrap().status(), 200);
    service.stop();
    drop(silent);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_signal_ends_the_server_at_once() {
    let mut service = Service::start_without_engine(&[("STOP_GRACE", "3600")]);
    service.expect_complaint("stopped at once by a second signal");
    service.expect_complaint("the server is stopping");
    let stream = service.request(Method::GET, "/api/v1/events?cursor=0");
    let stream = stream.header(ACCEPT, "text/event-stream").send();
    let mut upload = open(&service).await;
    let head = format!(
        "POST /api/v1/snapshots HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {KEY}\r\n\
         content-type: application/x-tar\r\ncontent-length: 100000\r\n\r\n"
    );
    upload.write_all(head.as_bytes()).await.unwrap();
    let _stream = stream.await.unwrap();
    service.terminate();
    eventually("it stops", async || {
        let answer = service.request(Method::GET, "/health").send().await;
        let other = service
            .request(Method::GET, "/api/v1/projects")
            .send()
            .await;
        answer.is_err() || other.is_ok_and(|answer| answer.status() == 503)
    })
    .await;
    service.terminate();
    service.wait();
}

#[tokio::test]
async fn a_trusted_proxy_names_the_client_and_others_do_not() {
    let proxied = Service::start_without_engine(&[("TRUSTED_PROXIES", "127.0.0.0/8")]);
    let plain = Service::start_without_engine(&[]);
    for (service, expected) in [(proxied, "198.51.100.7"), (plain, "127.0.0.1")] {
        let made = service.request(Method::POST, "/api/v1/projects");
        let made = made.header("x-forwarded-for", "203.0.113.9, 198.51.100.7");
        let made = made.json(&json!({"name": "site"})).send().await.unwrap();
        assert_eq!(made.status(), 201);
        let log = std::fs::read_dir(service.data.join("audit")).unwrap();
        let log: String = log
            .map(|file| std::fs::read_to_string(file.unwrap().path()).unwrap())
            .collect();
        let line = log.lines().find(|line| line.contains("project.created"));
        let line = line.expect("the project is in the audit log");
        assert!(line.contains(&format!("\"{expected}\"")), "{line}");
    }
}

#[tokio::test]
async fn terminals_are_at_the_public_address() {
    let (service, _engine) = Service::start_simulated(|config| {
        config.public_url = Some("https://elevo.example.com/base/".parse().unwrap());
    })
    .await;
    let id = service.sandbox().await;
    let body = json!({"cols": 80, "rows": 24, "shell": "/bin/sh", "cwd": "/"});
    let made = service
        .post(&format!("/api/v1/sandboxes/{id}/pty"), body)
        .await;
    let url = made["websocketUrl"].as_str().expect("a terminal was made");
    let start = format!("wss://elevo.example.com/base/api/v1/sandboxes/{id}/pty/");
    assert!(url.starts_with(&start), "{url}");
}

#[tokio::test]
async fn readiness_is_looked_at_once_for_all_who_ask() {
    let (service, engine) = Service::start_simulated(|_| {}).await;
    let began = Instant::now();
    let before = engine.checks();
    let ask = || reqwest::get(format!("{}/ready", service.url));
    for answer in join_all((0..200).map(|_| ask())).await {
        assert_eq!(answer.unwrap().status(), 200);
    }
    // At most once in two seconds, however slow the machine is.
    let checks = engine.checks() - before;
    assert!(checks <= 2 + began.elapsed().as_secs() / 2, "{checks}");
}
