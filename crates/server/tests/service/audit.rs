//! Every change is recorded before its response is sent.

use std::path::PathBuf;
use std::process::Command;

use elevo_audit::{read, verify};
use elevo_sandbox::sim::Call;
use reqwest::{Method, StatusCode};
use serde_json::{Map, Value, json};

use crate::harness::{KEY, Service, connect, eventually};

type Record = Map<String, Value>;

fn directory(service: &Service) -> PathBuf {
    service.data.join("audit")
}

pub(crate) fn records(service: &Service) -> Vec<Record> {
    let mut found = Vec::new();
    let is_read = read(&directory(service), 0, |_, record| {
        found.push(record);
        true
    });
    is_read.unwrap();
    found
}

fn of<'a>(records: &'a [Record], event: &str) -> Vec<&'a Record> {
    let is_it = |record: &&Record| record["event"] == event;
    records.iter().filter(is_it).collect()
}

fn assert_whole(service: &Service) {
    let report = verify(&directory(service), &[], |_| {}).unwrap();
    assert_eq!(report.problems, vec![]);
    assert_eq!(report.first, Some(1));
}

#[tokio::test]
async fn a_change_of_a_sandbox_is_in_the_log_before_its_response() {
    let mut service = Service::start().await;
    let id = service.sandbox().await;
    let path = format!("/api/v1/sandboxes/{id}");
    let answer = service
        .request(Method::POST, &format!("{path}/process/run"))
        .header("x-request-id", "req-of-mine")
        .json(&json!({"command": "echo a secret", "envs": {"TOKEN": "t0ken"}, "cwd": "/tmp"}))
        .send()
        .await
        .unwrap();
    assert_eq!(answer.status(), StatusCode::OK);
    let made = service
        .post(
            &format!("{path}/pty"),
            service.inside(&id, json!({"cols": 80, "rows": 24})),
        )
        .await;
    let url = made["websocketUrl"].as_str().unwrap();
    drop(connect(url).await.unwrap());
    let pty = format!("{path}/pty/{}", made["id"].as_str().unwrap());
    service.expect(Method::DELETE, &pty, None, 204).await;
    // The server is killed right after its last response, and has recorded all
    // requests that it responded to.
    service.delete(&id).await;
    service.kill();
    let all = records(&service);
    assert_whole(&service);
    let events: Vec<_> = all.iter().map(|record| record["event"].clone()).collect();
    let expected = [
        "server.started",
        "template.added",
        "sandbox.created",
        "command.run",
        "terminal.opened",
        "terminal.connected",
        "terminal.closed",
        "sandbox.deleted",
    ];
    assert_eq!(events, expected);
    let created = of(&all, "sandbox.created")[0];
    assert_eq!(created["sandbox_id"], *id);
    assert_eq!(created["details"]["template"], "base");
    assert_eq!(created["status"], 201);
    assert_eq!(created["level"], "info");
    assert_eq!(created["address"], "127.0.0.1");
    assert!(created["duration_ms"].is_u64());
    assert!(created["timestamp"].as_str().unwrap().ends_with('Z'));
    assert!(created["user"].as_str().unwrap().starts_with("key-"));
    let command = of(&all, "command.run")[0];
    assert_eq!(command["sandbox_id"], *id);
    assert_eq!(command["request_id"], "req-of-mine");
    assert_eq!(command["details"]["command"], "echo a secret");
    assert_eq!(command["details"]["cwd"], "/tmp");
    assert_eq!(command["user"], created["user"]);
    // Variables and keys are not recorded.
    let text = serde_json::to_string(&all).unwrap();
    assert!(!text.contains("t0ken"));
    assert!(!text.contains(KEY));
    // The next server continues the same chain.
    service.run();
    assert_whole(&service);
    assert_eq!(of(&records(&service), "server.started").len(), 2);
    service.stop();
    assert_whole(&service);
    assert_eq!(records(&service).last().unwrap()["event"], "server.ended");
}

#[tokio::test]
async fn commands_are_written_down_as_far_as_the_settings_say() {
    for (setting, expected) in [
        (
            "program",
            json!({"program": "echo", "blake3": blake3::hash(b"echo h1dden").to_hex().as_str()}),
        ),
        ("none", Value::Null),
    ] {
        let service = Service::start_with(&[("AUDIT_COMMANDS", setting)]).await;
        let id = service.sandbox().await;
        service.run_in(&id, "echo h1dden").await;
        let all = records(&service);
        assert_eq!(of(&all, "command.run")[0]["details"]["command"], expected);
        assert!(!serde_json::to_string(&all).unwrap().contains("h1dden"));
        service.delete(&id).await;
    }
}

#[tokio::test]
async fn requests_without_a_key_are_recorded_and_cannot_fill_the_disk() {
    let service = Service::start_bare(&[]);
    let url = format!("{}/api/v1/sandboxes", service.url);
    let asked: u64 = 500;
    for n in 0..asked {
        let request = service.http.get(&url);
        let request = match n % 2 {
            0 => request,
            _ => request.bearer_auth("elv_wr0ng"),
        };
        assert_eq!(request.send().await.unwrap().status(), 401);
    }
    let all = records(&service);
    let failed = of(&all, "auth.failed");
    assert!(failed.len() < 400, "{}", failed.len());
    assert!(failed.len() >= 100, "{}", failed.len());
    assert_eq!(failed[0]["user"], Value::Null);
    assert_eq!(failed[0]["level"], "warn");
    assert_eq!(failed[0]["address"], "127.0.0.1");
    assert_eq!(failed[0]["details"]["route"], "GET /api/v1/sandboxes");
    assert!(!serde_json::to_string(&all).unwrap().contains("wr0ng"));
    // The next record has the number of failures that were not recorded.
    let (written, mut asked) = (failed.len(), asked);
    eventually("another failure is recorded", async || {
        service.http.get(&url).send().await.unwrap();
        asked += 1;
        of(&records(&service), "auth.failed").len() > written
    })
    .await;
    let all = records(&service);
    let failed = of(&all, "auth.failed");
    let counted = |record: &&Record| record["details"]["suppressed"].as_u64().unwrap_or(0);
    let suppressed: u64 = failed.iter().map(counted).sum();
    assert_eq!(failed.len() as u64 + suppressed, asked);
}

#[tokio::test]
async fn denied_requests_are_recorded() {
    let service = Service::start_bare(&[]);
    let wish = json!({"name": "reader", "scopes": ["sandboxes:read"]});
    let made = service.post("/api/v1/keys", wish).await;
    let key = made["secret"].as_str().unwrap();
    let wish = Some(json!({"template": "base"}));
    let path = "/api/v1/sandboxes";
    service.expect_as(key, Method::POST, path, wish, 403).await;
    let path = "/api/v1/keys";
    service.expect_as(key, Method::GET, path, None, 403).await;
    let all = records(&service);
    let created = of(&all, "key.created")[0];
    assert_eq!(created["key_id"], made["id"]);
    for (event, status) in [("sandbox.created", 403), ("access.refused", 403)] {
        let refused = of(&all, event)[0];
        assert_eq!(refused["user"], made["id"], "{event}");
        assert_eq!(refused["status"], status);
        assert_eq!(refused["level"], "warn");
    }
    assert!(!serde_json::to_string(&all).unwrap().contains(key));
}

#[tokio::test]
async fn work_that_continues_without_its_client_is_recorded() {
    let service = Service::start().await;
    let held = service.simulated().hold(Call::Start);
    let request = service.request(Method::POST, "/api/v1/sandboxes");
    let asking = tokio::spawn(request.json(&json!({"template": "base"})).send());
    eventually("the server works on it", async || {
        let list = service.get("/api/v1/sandboxes").await;
        list["total"] != 0
    })
    .await;
    asking.abort();
    assert!(asking.await.unwrap_err().is_cancelled());
    drop(held);
    eventually("it is written down", async || {
        let all = records(&service);
        of(&all, "sandbox.created")
            .iter()
            .any(|record| record["status"] == 499 && record["user"].is_string())
    })
    .await;
    eventually("it runs", async || {
        let list = service.get("/api/v1/sandboxes").await;
        list["items"][0]["state"] == "running"
    })
    .await;
}

/// A separate disk for the log.
struct SmallDisk(PathBuf);

impl SmallDisk {
    fn mount(path: PathBuf) -> Self {
        std::fs::create_dir_all(&path).unwrap();
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=64k", "tmpfs"])
            .arg(&path)
            .status();
        assert!(mounted.unwrap().success());
        Self(path)
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

#[tokio::test]
async fn callers_without_a_key_do_not_hide_refusals_of_a_key() {
    let service = Service::start_bare(&[]);
    let wish = json!({"name": "reader", "scopes": ["sandboxes:read"],
        "limits": {"requestsPerMinute": 2}});
    let made = service.post("/api/v1/keys", wish).await;
    let (id, key) = (&made["id"], made["secret"].as_str().unwrap());
    let url = format!("{}/api/v1/sandboxes", service.url);
    let flood = async || {
        for _ in 0..300 {
            let answer = service.http.get(&url).send().await.unwrap();
            assert_eq!(answer.status(), 401);
        }
    };
    flood().await;
    let path = "/api/v1/keys";
    service.expect_as(key, Method::GET, path, None, 403).await;
    service.expect_as(key, Method::GET, path, None, 403).await;
    flood().await;
    let wish = Some(json!({"name": "more"}));
    service.expect_as(key, Method::POST, path, wish, 429).await;
    let all = records(&service);
    let refused = of(&all, "access.refused");
    assert_eq!(refused.len(), 2, "{refused:?}");
    assert!(refused.iter().all(|record| record["user"] == *id));
    let limited = of(&all, "key.created");
    let limited = limited.iter().find(|record| record["status"] == 429);
    assert_eq!(limited.unwrap()["user"], *id);
}

#[tokio::test]
async fn a_replayed_request_names_the_caller() {
    let service = Service::start_bare(&[]);
    for _ in 0..2 {
        let request = service.request(Method::POST, "/api/v1/agents");
        let request = request.header("idempotency-key", "once");
        let answer = request.json(&json!({"name": "ada"})).send().await.unwrap();
        assert_eq!(answer.status(), StatusCode::CREATED);
    }
    let all = records(&service);
    let added = of(&all, "agent.added");
    assert_eq!(added.len(), 2);
    assert!(added[0]["user"].is_string());
    assert_eq!(added[0]["user"], added[1]["user"]);
    assert_eq!(added[0]["tenant"], added[1]["tenant"]);
    assert_eq!(added[1]["details"]["replayed"], true);
}

/// Tests that need root.
mod as_root {
    use super::*;

    #[tokio::test]
    async fn nothing_is_done_that_cannot_be_written_down() {
        let mut service = Service::start_bare(&[]);
        service.expect_complaint("a record waits in memory");
        service.expect_complaint("audit log");
        service.stop();
        let audit = directory(&service);
        std::fs::remove_dir_all(&audit).unwrap();
        let _disk = SmallDisk::mount(audit.clone());
        service.run();
        let path = "/api/v1/agents";
        let mut n = 0;
        let wish = |n: i32| json!({"name": format!("agent {n} {}", "x".repeat(60))});
        // Sends requests until the disk is full. The first record that does not
        // fit waits in memory, and the next requests are denied.
        let refused = loop {
            n += 1;
            assert!(n < 1000);
            let request = service.request(Method::POST, path).json(&wish(n));
            let answer = request.send().await.unwrap();
            if answer.status() != 201 {
                break answer;
            }
        };
        assert_eq!(refused.status(), 503);
        assert!(refused.headers().contains_key("retry-after"));
        let text = refused.text().await.unwrap();
        assert!(text.contains("the audit log cannot be written"), "{text}");
        // Requests that change nothing are still answered.
        let listed = service.get(&format!("{path}?limit=1000")).await["items"]
            .as_array()
            .unwrap()
            .len();
        assert_eq!(listed, n as usize - 1);
        let answer = service.request(Method::POST, path).json(&wish(n));
        assert_eq!(answer.send().await.unwrap().status(), 503);
        // Once there is space, the server continues by itself.
        let remounted = Command::new("mount")
            .args(["-o", "remount,size=1m"])
            .arg(&audit)
            .status();
        assert!(remounted.unwrap().success());
        eventually("it goes on", async || {
            let request = service.request(Method::POST, path).json(&wish(n));
            request.send().await.unwrap().status() == 201
        })
        .await;
        assert_whole(&service);
        let all = records(&service);
        assert_eq!(of(&all, "audit.resumed")[0]["details"]["lost"], 0);
        assert_eq!(of(&all, "agent.added").len(), n as usize);
        service.stop();
    }
}
