//! The share of a tenant: a tenant that uses as much as it can leaves the others
//! their share.

use std::time::Duration;

use futures::future::join_all;
use reqwest::Method;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::timeout;

use crate::harness::{KEY, Service, eventually};
use crate::shared::{at, workspace};

/// Longer than any response takes that does not wait for another client.
const PATIENCE: Duration = Duration::from_secs(30);

/// Long enough to read the available data.
const MOMENT: Duration = Duration::from_millis(10);

/// Creates another tenant; returns its key.
async fn other_tenant(service: &Service) -> String {
    let wish = Some(json!({"name": "other"}));
    let made = service
        .expect(Method::POST, "/api/v1/tenants", wish, 201)
        .await;
    made["secret"].as_str().unwrap().to_owned()
}

/// Creates a key of the first tenant; returns its secret.
async fn ordinary_key(service: &Service, name: &str) -> String {
    let wish = Some(json!({"name": name}));
    let made = service
        .expect(Method::POST, "/api/v1/keys", wish, 201)
        .await;
    made["secret"].as_str().unwrap().to_owned()
}

/// Begins a request from an address of loopback, and sends a part of its body.
async fn begin(service: &Service, last: u8, route: &str, key: &str, length: usize) -> TcpStream {
    let address = service.url.strip_prefix("http://").unwrap();
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(([127, 0, 0, last], 0).into()).unwrap();
    let mut stream = socket.connect(address.parse().unwrap()).await.unwrap();
    let head = format!(
        "{route} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {key}\r\n\
         content-type: application/json\r\ncontent-length: {length}\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    // Less than a header of a tar: a server that parses while it receives waits
    // for the rest.
    stream.write_all(&[b' '; 100]).await.unwrap();
    stream
}

fn tar() -> Vec<u8> {
    let mut tar = tar::Builder::new(Vec::new());
    let mut header = tar::Header::new_gnu();
    header.set_size(1);
    header.set_mode(0o644);
    tar.append_data(&mut header, "a", &b"a"[..]).unwrap();
    tar.into_inner().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn stalled_uploads_hold_no_thread() {
    let service = Service::start_without_engine(&[]);
    let other = other_tenant(&service).await;
    let keys = [
        ordinary_key(&service, "one").await,
        ordinary_key(&service, "two").await,
    ];
    let mut stalled = Vec::new();
    // More than the runtime has blocking threads.
    for n in 0..600_usize {
        let last = 2 + (n % 12) as u8;
        let route = "POST /api/v1/snapshots";
        stalled.push(begin(&service, last, route, &keys[n % 2], 100_000).await);
    }
    for key in [&other, &KEY.to_owned()] {
        let upload = reqwest::Client::new()
            .post(format!("{}/api/v1/snapshots", service.url))
            .bearer_auth(key)
            .body(tar());
        let answer = timeout(PATIENCE, upload.send()).await;
        let answer = answer.expect("an upload is answered beside stalled ones");
        assert_eq!(answer.unwrap().status(), 201);
    }
    drop(stalled);
}

#[tokio::test(flavor = "multi_thread")]
async fn bodies_of_one_tenant_take_bounded_memory() {
    let service = Service::start_without_engine(&[]);
    service.expect_complaint("use too much memory");
    let other = other_tenant(&service).await;
    let project = service
        .post("/api/v1/projects", json!({"name": "site"}))
        .await;
    let project = project["id"].as_str().unwrap();
    let route = format!("POST /api/v1/projects/{project}/apply");
    // Two of these requests fill the share, because each body is counted twice.
    let mut stalled = Vec::new();
    for last in 2..8 {
        stalled.push(begin(&service, last, &route, KEY, 32 << 20).await);
    }
    // A stream with a response is put aside and not read again: the rest of its
    // response would look like another one.
    let mut refused = Vec::new();
    eventually("all but two large bodies are refused", async || {
        for mut stream in std::mem::take(&mut stalled) {
            let mut answer = [0; 64];
            if let Ok(Ok(12..)) = timeout(MOMENT, stream.read(&mut answer)).await {
                assert!(answer.starts_with(b"HTTP/1.1 503"));
                refused.push(stream);
            } else {
                stalled.push(stream);
            }
        }
        refused.len() == 4
    })
    .await;
    // Small bodies are accepted, and the share of the other tenant is free.
    let change = json!({"files": [{"path": "a", "content": "a"}]});
    let path = format!("/api/v1/projects/{project}/apply");
    service.expect(Method::POST, &path, Some(change), 200).await;
    let theirs = json!({"name": "theirs"});
    let theirs = service
        .expect_as(&other, Method::POST, "/api/v1/projects", Some(theirs), 201)
        .await;
    let large = "x".repeat(1 << 20);
    let change = json!({"files": [{"path": "a", "content": large}]});
    let path = format!("/api/v1/projects/{}/apply", theirs["id"].as_str().unwrap());
    service
        .expect_as(&other, Method::POST, &path, Some(change), 200)
        .await;
    drop(stalled);
}

#[tokio::test(flavor = "multi_thread")]
async fn output_of_commands_takes_bounded_memory() {
    let (service, engine) = Service::start_simulated(|_| {}).await;
    let id = service.sandbox().await;
    let cwd = engine.path(&id, "/workspace").unwrap();
    let run = |command| {
        let wish = json!({
            "command": command, "maxOutputSize": 64 << 20, "timeout": 0, "cwd": cwd,
        });
        let path = format!("/api/v1/sandboxes/{id}/process/run");
        let service = &service;
        async move { service.post(&path, wish).await }
    };
    // All commands write their output before the first of them ends.
    let command = "yes | head -c 67108864; touch done-$$; \
                   while [ ! -e end ]; do sleep 0.1; done";
    let running = (0..6).map(|_| run(command));
    let end = async {
        eventually("all commands have written", async || {
            let listed = service.output_of(&id, "ls | grep done- | wc -l").await;
            listed.trim() == "6"
        })
        .await;
        service.output_of(&id, "touch end").await;
    };
    let (ended, ()) = tokio::join!(join_all(running), end);
    let total: usize = ended
        .iter()
        .map(|result| result["stdout"].as_str().unwrap().len())
        .sum();
    // The memory limit covers both the output and its JSON form.
    assert!(total <= 64 << 20, "{total} bytes");
    assert!(ended.iter().any(|result| result["truncated"] == true));
    // Afterwards the memory is free again.
    let result = run("yes | head -c 16777216").await;
    assert_eq!(result["truncated"], false);
    assert_eq!(result["stdout"].as_str().unwrap().len(), 16 << 20);
}

#[tokio::test(flavor = "multi_thread")]
async fn archives_that_are_not_read_hold_threads_of_their_tenant_only() {
    let service = Service::start_without_engine(&[]);
    let other = other_tenant(&service).await;
    let mut archives = Vec::new();
    for key in [KEY, &other] {
        let wish = Some(json!({"name": "site"}));
        let made = service
            .expect_as(key, Method::POST, "/api/v1/projects", wish, 201)
            .await;
        let id = made["id"].as_str().unwrap().to_owned();
        let large = "x".repeat(8 << 20);
        let change = json!({"files": [{"path": "a", "content": large}]});
        let path = format!("/api/v1/projects/{id}/apply");
        service
            .expect_as(key, Method::POST, &path, Some(change), 200)
            .await;
        archives.push(format!("/api/v1/projects/{id}/archive"));
    }
    let unread = (0..8).map(|_| service.request(Method::GET, &archives[0]).send());
    let unread = join_all(unread).await;
    assert!(
        unread
            .iter()
            .all(|answer| answer.as_ref().unwrap().status() == 200)
    );
    let theirs = reqwest::Client::new()
        .get(format!("{}{}", service.url, archives[1]))
        .bearer_auth(&other);
    let theirs = timeout(PATIENCE, async { theirs.send().await?.bytes().await }).await;
    assert!(theirs.expect("it is answered").unwrap().len() > 8 << 20);
    // The tenant itself can still use everything that needs no archive.
    service.get("/api/v1/projects").await;
    drop(unread);
    // It gets its archives when the others are done.
    eventually("an archive is answered", async || {
        let answer = service.request(Method::GET, &archives[0]).send().await;
        answer.unwrap().status() == 200
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn stalled_transfers_of_files_hold_no_thread() {
    let service = Service::start_without_engine(&[]);
    service.expect_complaint("use too much memory");
    let project = service
        .post("/api/v1/projects", json!({"name": "site"}))
        .await;
    let ws = workspace(&service, json!({"project": project["id"]})).await;
    let large = vec![b'x'; 16 << 20];
    std::fs::write(ws.path.join("large"), &large).unwrap();
    let files = at(&ws, "files");
    // More than the tenant may have threads; the server cannot send all of it.
    let large = format!("{files}?path=large");
    let unread = (0..100).map(|_| service.request(Method::GET, &large).send());
    let unread = join_all(unread).await;
    let is_sent = |answer: &reqwest::Result<_>| {
        let answer: &reqwest::Response = answer.as_ref().unwrap();
        answer.status() == 200
    };
    assert!(unread.iter().all(is_sent));
    let mut stalled = Vec::new();
    for n in 0..100 {
        let route = format!("PUT {files}?path=stalled-{n}");
        let mut stream = begin(&service, 2, &route, KEY, 400_000).await;
        stream.write_all(&vec![b'x'; 300_000]).await.unwrap();
        stalled.push(stream);
    }
    let small = format!("{files}?path=small");
    let put = service.request(Method::PUT, &small).body("small").send();
    let put = timeout(PATIENCE, put).await;
    assert_eq!(put.expect("it is answered").unwrap().status(), 201);
    let get = service.request(Method::GET, &small).send();
    let get = timeout(PATIENCE, get).await;
    assert_eq!(get.expect("it is answered").unwrap().status(), 200);
    // Each transfer counts towards the memory of the tenant.
    let mut more = Vec::new();
    eventually("a transfer above the share is refused", async || {
        let answer = service.request(Method::GET, &large).send().await.unwrap();
        let is_refused = answer.status() == 503;
        more.push(answer);
        is_refused
    })
    .await;
    assert!(more.len() <= 256, "{}", more.len());
    drop((unread, stalled, more));
    eventually("a transfer is answered", async || {
        let answer = service.request(Method::GET, &large).send().await;
        answer.unwrap().status() == 200
    })
    .await;
}

#[tokio::test]
async fn replays_and_forks_count_for_the_rate() {
    let (service, _engine) = Service::start_simulated(|_| {}).await;
    let id = service.sandbox().await;
    let limited =
        json!({"name": "limited", "limits": {"requestsPerMinute": 3, "createsPerMinute": 4}});
    let limited = service
        .expect(Method::POST, "/api/v1/keys", Some(limited), 201)
        .await;
    let key = limited["secret"].as_str().unwrap();
    let http = reqwest::Client::new();
    let mut answers = Vec::new();
    for _ in 0..4 {
        let asked = http.post(format!("{}/api/v1/sandboxes/{id}/snapshot", service.url));
        let asked = asked.bearer_auth(key).header("idempotency-key", "once");
        answers.push(asked.send().await.unwrap().status().as_u16());
    }
    assert_eq!(answers, [201, 201, 201, 429]);
    let path = format!("/api/v1/sandboxes/{id}/fork");
    let forks = |count: u32| Some(json!({"count": count}));
    let refused = service
        .expect_as(key, Method::POST, &path, forks(50), 429)
        .await;
    assert_eq!(refused["error"]["name"], "RATE_LIMITED");
}

/// A text that hardly compresses.
fn noise(seed: u64, bytes: usize) -> String {
    let mut state = seed + 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        format!("{state:016x}")
    };
    let mut text = String::new();
    while text.len() < bytes {
        text += &next();
    }
    text
}

#[tokio::test]
async fn a_tenant_stores_no_more_than_it_may() {
    let mut service = Service::start_without_engine(&[]);
    let wish = json!({"name": "other", "limits": {"stored": "1m"}});
    let made = service
        .expect(Method::POST, "/api/v1/tenants", Some(wish), 201)
        .await;
    let (id, key) = (
        made["id"].as_str().unwrap().to_owned(),
        made["secret"].as_str().unwrap().to_owned(),
    );
    let project = Some(json!({"name": "site"}));
    service
        .expect_as(&key, Method::POST, "/api/v1/projects", project, 201)
        .await;
    let apply = async |service: &Service, seed: u64, status: u16| {
        let file = json!({"path": format!("file-{seed}"), "content": noise(seed, 3 << 20)});
        let (path, wish) = ("/api/v1/projects/site/apply", json!({"files": [file]}));
        let asked = service.expect_as(&key, Method::POST, path, Some(wish), status);
        asked.await
    };
    // More than the limit, whether digits are compressed or not.
    apply(&service, 1, 200).await;
    let refused = apply(&service, 2, 429).await;
    assert_eq!(refused["error"]["name"], "QUOTA_EXCEEDED");
    assert_eq!(refused["error"]["details"]["resource"], "stored");
    // The count survives a restart.
    service.stop();
    service.run();
    apply(&service, 2, 429).await;
    // Other tenants are not affected, and the tenant can read and delete.
    let project = Some(json!({"name": "site"}));
    service
        .expect(Method::POST, "/api/v1/projects", project, 201)
        .await;
    let read = "/api/v1/projects/site";
    service.expect_as(&key, Method::GET, read, None, 200).await;
    let more = Some(json!({"limits": {"stored": "100m"}}));
    let path = format!("/api/v1/tenants/{id}");
    service.expect(Method::PATCH, &path, more, 200).await;
    apply(&service, 2, 200).await;
    service
        .expect_as(&key, Method::DELETE, read, None, 204)
        .await;
}

#[tokio::test]
async fn a_tenant_has_limits_of_its_own() {
    let (service, _engine) = Service::start_simulated(|config| {
        config.limits.tenant.projects = Some(2);
    })
    .await;
    let wish = json!({"name": "other", "limits": {
        "sandboxes": 2, "memory": "1500m", "workspaces": 1, "networks": ["none"],
    }});
    let made = service
        .expect(Method::POST, "/api/v1/tenants", Some(wish), 201)
        .await;
    let (id, key) = (
        made["id"].as_str().unwrap(),
        made["secret"].as_str().unwrap(),
    );
    let create = async |wish: serde_json::Value, status: u16| {
        let path = "/api/v1/sandboxes";
        service
            .expect_as(key, Method::POST, path, Some(wish), status)
            .await
    };
    let small = json!({"template": "base", "resources": {"memory": "512m"}});
    let first = create(small.clone(), 201).await;
    // The strictest network that is allowed.
    assert_eq!(first["network"], "none");
    let wish = json!({"template": "base", "network": "internet"});
    let refused = create(wish, 422).await;
    assert_eq!(refused["error"]["details"]["resource"], "network");
    let wish = json!({"template": "base", "resources": {"memory": "1g"}});
    let refused = create(wish, 429).await;
    assert_eq!(refused["error"]["name"], "QUOTA_EXCEEDED");
    create(small.clone(), 201).await;
    let refused = create(small, 429).await;
    assert_eq!(refused["error"]["name"], "SANDBOX_LIMIT_EXCEEDED");
    // For projects the tenant has the limit of the settings.
    for (name, status) in [("one", 201), ("two", 201), ("three", 429)] {
        let wish = Some(json!({"name": name}));
        service
            .expect_as(key, Method::POST, "/api/v1/projects", wish, status)
            .await;
    }
    for status in [201, 429] {
        let wish = Some(json!({"project": "one"}));
        service
            .expect_as(key, Method::POST, "/api/v1/workspaces", wish, status)
            .await;
    }
    // A new key of the tenant gets no more.
    let wish = Some(json!({"name": "more"}));
    let more = service
        .expect_as(key, Method::POST, "/api/v1/keys", wish, 201)
        .await;
    let more = more["secret"].as_str().unwrap();
    let wish = Some(json!({"template": "base"}));
    service
        .expect_as(more, Method::POST, "/api/v1/sandboxes", wish, 429)
        .await;
    let path = format!("/api/v1/tenants/{id}");
    let wider = Some(json!({"limits": {"requestsPerMinute": 3}}));
    service
        .expect_as(key, Method::PATCH, &path, wider.clone(), 403)
        .await;
    service.expect(Method::PATCH, &path, wider, 200).await;
    let mut answers = Vec::new();
    for key in [key, more, key, more] {
        let asked = reqwest::Client::new().get(format!("{}/api/v1/projects", service.url));
        let answer = asked.bearer_auth(key).send().await.unwrap();
        answers.push(answer.status().as_u16());
    }
    assert_eq!(answers, [200, 200, 200, 429]);
    let suspended = Some(json!({"suspended": true}));
    service.expect(Method::PATCH, &path, suspended, 200).await;
    let refused = service
        .expect_as(key, Method::GET, "/api/v1/projects", None, 403)
        .await;
    assert_eq!(refused["error"]["name"], "TENANT_SUSPENDED");
}

#[tokio::test]
async fn a_runtime_must_be_allowed_by_server_tenant_and_key() {
    let (service, _engine) = Service::start_simulated(|config| {
        config.runtimes = vec!["runsc".into()];
    })
    .await;
    let narrow = json!({"name": "narrow", "limits": {"runtimes": [], "networks": ["internet"]}});
    let narrow = service
        .expect(Method::POST, "/api/v1/keys", Some(narrow), 201)
        .await;
    let narrow = narrow["secret"].as_str().unwrap();
    let refused = [
        (
            KEY,
            json!({"template": "base", "runtime": "runc"}),
            "runtime",
        ),
        (
            narrow,
            json!({"template": "base", "runtime": "runsc"}),
            "runtime",
        ),
        (
            narrow,
            json!({"template": "base", "network": "none"}),
            "network",
        ),
    ];
    for (key, wish, resource) in refused {
        let refused = service
            .expect_as(key, Method::POST, "/api/v1/sandboxes", Some(wish), 422)
            .await;
        assert_eq!(refused["error"]["details"]["resource"], resource);
    }
}
