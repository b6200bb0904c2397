//! Overload: the server reports it, and keeps working.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use elevo_sandbox::sim::Call;
use futures::future::join_all;
use reqwest::Method;
use reqwest::header::ACCEPT;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::harness::{KEY, Service, connect};

/// Returns the resident memory of a process, in MiB.
fn memory(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:"));
    let kib: u64 = line
        .unwrap()
        .split_whitespace()
        .nth(1)
        .unwrap()
        .parse()
        .unwrap();
    kib / 1024
}

#[tokio::test(flavor = "multi_thread")]
async fn too_many_sandboxes_at_once_are_made_or_refused_with_a_time_to_come_back() {
    let service =
        Service::start_with(&[("MAX_SANDBOXES", "12"), ("MAX_CONCURRENT_CREATIONS", "1")]).await;
    service.expect_complaint("too many sandboxes are being created");
    let asking = (0..60).map(|_| {
        let request = service.request(Method::POST, "/api/v1/sandboxes");
        let request = request.json(&json!({"template": "base"}));
        request.timeout(Duration::from_secs(90)).send()
    });
    let mut by_status = BTreeMap::new();
    for answer in join_all(asking).await {
        // Neither a time-out nor a broken connection.
        let answer = answer.unwrap();
        let status = answer.status().as_u16();
        let can_retry = answer.headers().contains_key("retry-after");
        assert_eq!(can_retry, status != 201, "{answer:?}");
        *by_status.entry(status).or_insert(0) += 1;
    }
    assert_eq!(by_status.remove(&201), Some(12), "{by_status:?}");
    let refused: i32 = [429, 503]
        .iter()
        .filter_map(|status| by_status.remove(status))
        .sum();
    assert_eq!((refused, by_status.len()), (48, 0), "{by_status:?}");
    // The rejected requests left nothing behind.
    assert_eq!(service.containers().len(), 12);
    assert_eq!(service.get("/api/v1/sandboxes").await["total"], 12);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_queue_rejects_requests_at_once() {
    let service =
        Service::start_with(&[("MAX_SANDBOXES", "100"), ("MAX_CONCURRENT_CREATIONS", "1")]).await;
    service.expect_complaint("cannot create a sandbox, so it is rolled back");
    service.expect_complaint("too many sandboxes are being created");
    // The first creation takes as long as the test wants.
    let held = service.simulated().hold(Call::Start);
    let (send, mut statuses) = tokio::sync::mpsc::channel(40);
    for _ in 0..40 {
        let request = service.request(Method::POST, "/api/v1/sandboxes");
        let request = request.json(&json!({"template": "base"})).send();
        let send = send.clone();
        tokio::spawn(async move {
            let status = request.await.unwrap().status().as_u16();
            send.send(status).await.unwrap();
        });
    }
    // One sandbox is being created, and twenty requests wait. The others are
    // rejected before the server has completed any of these.
    for _ in 0..19 {
        assert_eq!(statuses.recv().await, Some(503));
    }
    drop((held, send));
    let mut made = 0;
    while let Some(status) = statuses.recv().await {
        assert_eq!(status, 201);
        made += 1;
    }
    assert_eq!(made, 21);
    let list = service.get("/api/v1/sandboxes?limit=100").await;
    assert_eq!(list["total"], made);
}

#[tokio::test]
async fn connections_beyond_the_limit_get_an_error() {
    let service = Service::start_bare(&[("MAX_CONNECTIONS", "8")]);
    let address = service.url.strip_prefix("http://").unwrap();
    let mut held = Vec::new();
    for _ in 0..8 {
        let mut stream = TcpStream::connect(address).await.unwrap();
        // A connection that has shown a key, and stays open.
        let request = format!(
            "GET /api/v1/projects HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {KEY}\r\n\r\n"
        );
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = [0; 16];
        stream.read_exact(&mut answer).await.unwrap();
        assert!(answer.starts_with(b"HTTP/1.1 200"));
        held.push(stream);
    }
    for _ in 0..200 {
        let answer = reqwest::Client::new()
            .get(format!("{}/api/v1/sandboxes", service.url))
            .bearer_auth(KEY)
            .timeout(Duration::from_secs(5))
            .send()
            .await
            .unwrap();
        assert_eq!(answer.status(), 503);
        assert_eq!(answer.headers()["retry-after"], "1");
        let body: serde_json::Value = answer.json().await.unwrap();
        assert_eq!(body["error"]["name"], "OVERLOADED", "{body}");
    }
    // Some silent connections delay no other.
    let mut silent = Vec::new();
    for _ in 0..32 {
        silent.push(TcpStream::connect(address).await.unwrap());
    }
    let answer = service
        .request(Method::GET, "/health")
        .send()
        .await
        .unwrap();
    assert_eq!(answer.status(), 503);
    drop((held, silent));
    crate::harness::eventually("there is room again", async || {
        let answer = service.request(Method::GET, "/health").send().await;
        answer.is_ok_and(|answer| answer.status() == 200)
    })
    .await;
}

/// A client that sends a large archive to a path that rejects it gets the reason,
/// and can reuse the connection.
#[tokio::test(flavor = "multi_thread")]
async fn a_rejection_reaches_a_client_that_is_still_sending() {
    let service = Service::start().await;
    let archive = "/api/v1/sandboxes/sbx-aaaaaaaaaaaaaaaa/archive";
    for length in [10_000, 300_000, 20 << 20] {
        for _ in 0..10 {
            let body = vec![0; length];
            let sending = service.request(Method::PUT, archive).body(body.clone());
            assert_eq!(sending.send().await.unwrap().status(), 404, "{length}");
            let stranger = service.http.put(format!("{}{archive}", service.url));
            let sent = stranger.bearer_auth("elevo_nobody").body(body.clone());
            assert_eq!(sent.send().await.unwrap().status(), 401, "{length}");
            let large = service.request(Method::POST, "/api/v1/sandboxes");
            let sent = large.header("content-type", "application/json").body(body);
            let status = sent.send().await.unwrap().status().as_u16();
            assert_eq!(status, if length > 2 << 20 { 413 } else { 400 }, "{length}");
        }
    }
}

/// Otherwise it would depend on timing whether the client sees the response;
/// see the test above.
#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_follows_its_response_is_read_for_a_while() {
    let service = Service::start().await;
    let address = service.url.strip_prefix("http://").unwrap();
    let mut stream = TcpStream::connect(address).await.unwrap();
    let head = "PUT /api/v1/sandboxes/sbx-aaaaaaaaaaaaaaaa/archive HTTP/1.1\r\nhost: localhost\r\n\
                content-length: 50000000\r\n\r\n";
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 401"), "{answer}");
    for _ in 0..100 {
        stream.write_all(&[0; 100_000]).await.unwrap();
    }
    // But not forever.
    let sending = async { while stream.write_all(&[0; 1000]).await.is_ok() {} };
    let ended = tokio::time::timeout(Duration::from_secs(20), sending).await;
    ended.expect("it is closed in the end");
}

#[tokio::test(flavor = "multi_thread")]
async fn readers_who_do_not_read_cost_the_server_a_bounded_amount() {
    const EACH: usize = 10;
    let mut service = Service::start_with(&[("MAX_TERMINALS", "20")]).await;
    let id = service.sandbox().await;
    // Some 40 MB of events for each client that wants all of them.
    service.stop();
    service
        .sql(
            "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < 100000) \
         INSERT INTO events (tenant, kind, subject, at, data) \
         SELECT (SELECT id FROM tenants), 'sandbox.running', 'sbx-x', \
         (SELECT max(at) FROM events), json_object('text', hex(randomblob(150))) FROM n",
        )
        .await;
    service.run();
    let path = format!("/api/v1/sandboxes/{id}");
    let pid = service.pid();
    let before = memory(pid);
    let mut streams = Vec::new();
    for _ in 0..EACH {
        // The output of the command is endless, and the test does not read it.
        let request = service.request(Method::POST, &format!("{path}/process/run"));
        let body = json!({"command": "yes", "stream": true, "timeout": 0});
        let body = service.inside(&id, body);
        streams.push(request.json(&body).send().await.unwrap());
        let request = service.request(Method::GET, "/api/v1/events?cursor=0");
        let request = request.header(ACCEPT, "text/event-stream");
        streams.push(request.send().await.unwrap());
    }
    let mut sockets = Vec::new();
    for _ in 0..EACH {
        let body = json!({"cols": 80, "rows": 24, "shell": "/bin/sh"});
        let body = service.inside(&id, body);
        let made = service.post(&format!("{path}/pty"), body).await;
        let mut socket = connect(made["websocketUrl"].as_str().unwrap())
            .await
            .unwrap();
        let yes = tokio_tungstenite::tungstenite::Message::Binary("yes\n".into());
        futures::SinkExt::send(&mut socket, yes).await.unwrap();
        sockets.push(socket);
    }
    // The limit includes a window of one MiB for each reader of output, and
    // data in transit.
    let most = before + 3 * 2 * EACH as u64 + 40;
    for second in 1..=10 {
        // No event reports that the buffers are full, so only time shows that
        // nothing grows. A slow machine makes the test weaker, but never fails
        // it.
        tokio::time::sleep(Duration::from_secs(1)).await;
        let now = memory(pid);
        assert!(now < most, "{now} MiB after {second} s, {before} before");
    }
    // Others are not delayed.
    let began = Instant::now();
    assert_eq!(service.output_of(&id, "echo here").await, "here\n");
    assert!(began.elapsed() < Duration::from_secs(10));
    drop((streams, sockets));
    service.delete(&id).await;
}
