//! A server that may open few files: connections cannot use up the descriptors
//! that the store needs.

use std::process::Command;

use reqwest::Method;
use serde_json::{Value, json};
use tokio::net::TcpStream;

use crate::harness::{Service, eventually};
use crate::shared::file;

async fn land(service: &Service, project: &str, name: &str) {
    let path = format!("/api/v1/projects/{project}/apply");
    let change = json!({"files": [{"path": name, "content": name}]});
    service.expect(Method::POST, &path, Some(change), 200).await;
}

#[tokio::test]
async fn silent_connections_leave_the_store_its_descriptors() {
    let mut service = Service::new_without_engine(&[]);
    service.run_under(&["prlimit", "--nofile=256"]);
    let made = json!({"name": "steps"});
    let made = service.post("/api/v1/projects", made).await;
    let project = made["id"].as_str().unwrap().to_owned();
    // The connection of this request stays open. About as many others follow as
    // the server has descriptors; more would wait in the kernel's queue.
    land(&service, &project, "before").await;
    let address = service.url.trim_start_matches("http://").to_owned();
    let mut silent = Vec::new();
    for _ in 0..240 {
        if let Ok(connection) = TcpStream::connect(&address).await {
            silent.push(connection);
        }
    }
    for n in 0..100 {
        land(&service, &project, &format!("beside/{n}")).await;
    }
    let open = std::fs::read_dir(format!("/proc/{}/fd", service.pid())).unwrap();
    assert!(open.count() < 256, "some descriptors are left");
    drop(silent);
    service.kill();
    service.run();
    for n in 0..100 {
        let name = format!("beside/{n}");
        assert_eq!(file(&service, &project, &name).await, Some(name));
    }
}

#[test]
fn a_server_that_may_open_too_few_files_says_so() {
    let mut service = Service::new_without_engine(&[]);
    let refused = service.try_run_under(&["prlimit", "--nofile=100"], &[]);
    let said = refused.unwrap_err();
    assert!(said.contains("100 open files are too few"), "{said}");
    assert!(said.contains("LimitNOFILE"), "{said}");
}

/// Sets the maximum number of open files of a server.
fn limit(service: &Service, most: u64) {
    let mut prlimit = Command::new("prlimit");
    prlimit.arg(format!("--pid={}", service.pid()));
    let done = prlimit.arg(format!("--nofile={most}:")).status().unwrap();
    assert!(done.success());
}

/// Returns the lowest unused descriptor of the server, which its next file
/// gets.
fn next_descriptor(service: &Service) -> u64 {
    let open = std::fs::read_dir(format!("/proc/{}/fd", service.pid())).unwrap();
    let names = open.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let open: Vec<u64> = names.map(|name| name.parse().unwrap()).collect();
    (0..).find(|number| !open.contains(number)).unwrap()
}

/// Returns the check of the store in the response of `/ready`.
async fn store_check(service: &Service) -> (bool, Value) {
    let answer = reqwest::get(format!("{}/ready", service.metrics)).await;
    let ready: Value = answer.unwrap().json().await.unwrap();
    let checks = ready["checks"].as_array().unwrap();
    let check = checks.iter().find(|check| check["name"] == "store");
    (ready["ready"] == true, check.unwrap().clone())
}

/// A text that hardly compresses.
fn random_text(seed: u64, bytes: usize) -> String {
    let mut state = seed;
    let mut next = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        char::from(b'0' + ((state >> 33) % 64) as u8)
    };
    let text: String = (0..bytes).map(|_| next()).collect();
    text.replace('\\', "/")
}

#[tokio::test]
async fn a_store_that_takes_no_writes_is_not_ready_until_a_restart() {
    let mut service = Service::new_without_engine(&[]);
    service.expect_complaint("storage failed");
    // Any job may find no free descriptor.
    service.expect_warnings();
    service.run();
    let made = json!({"name": "steps"});
    let made = service.post("/api/v1/projects", made).await;
    let project = made["id"].as_str().unwrap().to_owned();
    land(&service, &project, "before").await;
    let (ready, check) = store_check(&service).await;
    assert!(ready && check["ok"] == true, "{check}");

    let path = format!("/api/v1/projects/{project}/apply");
    let most = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    // The log grows until the store needs another file, which it cannot open. A
    // change may also fail because the catalog cannot open a file; then the store
    // still takes writes.
    let mut seeds = 1..30;
    loop {
        let seed = seeds.next().expect("a change is refused");
        let text = random_text(seed, 28 << 20);
        let large = json!({"files": [{"path": "large", "content": text}]});
        limit(&service, next_descriptor(&service));
        let answer = service.request(Method::POST, &path).json(&large).send();
        let status = answer.await.unwrap().status();
        limit(&service, most.maximum.unwrap());
        if status != 200 {
            assert_eq!(status, 503);
            if store_check(&service).await.1["ok"] == false {
                break;
            }
        }
    }

    eventually("the server is not ready", async || {
        let (ready, check) = store_check(&service).await;
        let message = check["message"].as_str().unwrap();
        !ready && check["ok"] == false && message.contains("restart the server")
    })
    .await;
    assert_eq!(file(&service, &project, "before").await.unwrap(), "before");
    service.stop();
    service.run();
    let (ready, check) = store_check(&service).await;
    assert!(ready && check["ok"] == true, "{check}");
    land(&service, &project, "after").await;
    assert_eq!(file(&service, &project, "before").await.unwrap(), "before");
}
