//! Expiry ends sandboxes, but keeps their work.

use std::os::unix::fs::FileExt;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use elevo_audit::read;
use elevo_core::Timestamp;
use elevo_server::{Clocks, Reading};
use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::{Service, eventually};
use crate::shared::{Ws, file, merge, project};

const PARKED: &str = "/api/v1/workspaces?state=parked";

/// Makes sandboxes, or parked workspaces, expire while the server is stopped.
async fn expire(service: &mut Service, table: &str, ids: &[&str]) {
    service.stop();
    for id in ids {
        service
            .sql(&format!("update {table} set expires = 1 where id = '{id}'"))
            .await;
    }
    service.run();
}

/// Waits for an event about each of the ids, and returns the data of the
/// events.
async fn events(service: &Service, kind: &str, ids: &[&str]) -> Vec<Value> {
    let mut found = Vec::new();
    eventually(kind, async || {
        let path = format!("/api/v1/events?kinds={kind}&limit=1000");
        let page = service.get(&path).await;
        let data = |id: &&str| {
            let mut items = page["items"].as_array().unwrap().iter();
            let about = |event: &&Value| {
                let data = &event["data"];
                data["sandboxId"] == **id
                    || data["sandboxId"].is_null() && data["workspace"] == **id
            };
            items.rfind(about).map(|event| event["data"].clone())
        };
        found = ids.iter().filter_map(data).collect();
        found.len() == ids.len()
    })
    .await;
    found
}

/// Lets sandboxes expire, and returns whether each was parked.
async fn parked_after_expiry(service: &mut Service, ids: &[&str]) -> Vec<bool> {
    expire(service, "sandboxes", ids).await;
    events(service, "sandbox.deleted", ids).await;
    let expired = events(service, "sandbox.expired", ids).await;
    let parked = expired.iter().map(|data| data["parked"].as_bool().unwrap());
    parked.collect()
}

async fn parked(service: &Service) -> Vec<String> {
    let page = service.expect(Method::GET, PARKED, None, 200).await;
    let items = page["items"].as_array().unwrap().iter();
    items
        .map(|item| {
            assert_eq!(item["state"], "parked", "{item}");
            assert!(item["expiresAt"].is_string(), "{item}");
            item["id"].as_str().unwrap().to_owned()
        })
        .collect()
}

async fn resume(service: &Service, workspace: &str, status: u16) -> Value {
    let wish = json!({"template": "base", "workspace": {"existing": workspace}});
    let path = "/api/v1/sandboxes";
    service.expect(Method::POST, path, Some(wish), status).await
}

async fn sandbox(service: &Service, more: Value) -> String {
    let mut wish = json!({"template": "base"});
    for (name, value) in more.as_object().unwrap() {
        wish[name] = value.clone();
    }
    let made = service.post("/api/v1/sandboxes", wish).await;
    assert_eq!(made["state"], "running", "{made}");
    made["id"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn work_of_an_expired_sandbox_is_parked_and_resumed() {
    let mut service = Service::start().await;
    let id = service.sandbox().await;
    service
        .output_of(&id, "echo mine > file; echo tool > ~/tool")
        .await;
    assert_eq!(parked_after_expiry(&mut service, &[&id]).await, [true]);
    assert_eq!(parked(&service).await, [id.as_str()]);
    assert!(service.containers().is_empty());
    assert!(!service.mounts().iter().any(|mount| mount.contains(&id)));

    // The parked workspace survives recovery and garbage collection.
    service
        .expect(Method::POST, "/api/v1/gc", Some(json!({})), 200)
        .await;
    let made = resume(&service, &id, 201).await;
    assert_eq!(made["workspace"], json!(id), "{made}");
    let second = made["id"].as_str().unwrap().to_owned();
    assert_ne!(second, id);
    let seen = service.output_of(&second, "cat file ~/tool").await;
    assert_eq!(seen, "mine\ntool\n");
    assert!(parked(&service).await.is_empty());
    let shown = service.get(&format!("/api/v1/workspaces/{id}")).await;
    assert_eq!(shown["sandbox"], json!(second), "{shown}");
    let refused = resume(&service, &id, 409).await;
    assert_eq!(refused["error"]["name"], "WORKSPACE_IN_USE");

    // The workspace is parked again although nothing has changed, because its
    // files are nowhere else.
    assert_eq!(parked_after_expiry(&mut service, &[&second]).await, [true]);
    assert_eq!(parked(&service).await, [id.as_str()]);
    let third = resume(&service, &id, 201).await;
    let third = third["id"].as_str().unwrap();
    assert_eq!(service.output_of(third, "cat file").await, "mine\n");
    service.delete(third).await;
    resume(&service, &id, 404).await;
}

#[tokio::test]
async fn a_sandbox_without_work_of_its_own_is_removed() {
    let mut service = Service::start().await;
    let empty = service.sandbox().await;
    service.output_of(&empty, "echo tool > ~/tool").await;
    let unwanted = sandbox(&service, json!({"onExpiry": "delete"})).await;
    let snapshotted = service.sandbox().await;
    let changed = service.sandbox().await;
    for id in [&unwanted, &snapshotted, &changed] {
        service.output_of(id, "echo mine > file").await;
    }
    for id in [&snapshotted, &changed] {
        let path = format!("/api/v1/sandboxes/{id}/snapshot");
        service
            .expect(Method::POST, &path, Some(json!({})), 201)
            .await;
    }
    service.output_of(&changed, "echo more >> file").await;
    let shown = service.get(&format!("/api/v1/sandboxes/{unwanted}")).await;
    assert_eq!(shown["onExpiry"], "delete", "{shown}");

    let ids = [&empty, &unwanted, &snapshotted, &changed].map(String::as_str);
    let found = parked_after_expiry(&mut service, &ids).await;
    assert_eq!(found, [false, false, false, true]);
    assert_eq!(parked(&service).await, [changed.as_str()]);
    for id in &ids[..3] {
        assert!(!service.mounts().iter().any(|mount| mount.contains(id)));
        resume(&service, id, 404).await;
    }
}

#[tokio::test]
async fn unmerged_work_on_a_project_is_parked_and_can_be_merged() {
    let mut service = Service::start().await;
    let id = project(&service, json!({}), &[("file", "one\n")]).await;
    let on_project = json!({"workspace": {"project": {"name": "shared"}}});
    let merged = sandbox(&service, on_project.clone()).await;
    let open = sandbox(&service, on_project.clone()).await;
    let other = sandbox(&service, on_project).await;
    for (id, name) in [(&merged, "a"), (&open, "b"), (&other, "c")] {
        let command = format!("echo {name} > {name}");
        service.output_of(id, &command).await;
    }
    let of = |id: &str| Ws {
        id: id.to_owned(),
        path: "/".into(),
    };
    let done = merge(&service, &of(&merged)).await;
    assert_eq!(done["landedCount"], 1, "{done}");

    let ids = [&merged, &open, &other].map(String::as_str);
    let found = parked_after_expiry(&mut service, &ids).await;
    assert_eq!(found, [false, true, true]);
    let done = merge(&service, &of(&open)).await;
    assert_eq!(done["landedCount"], 1, "{done}");
    assert_eq!(file(&service, &id, "b").await.unwrap(), "b\n");
    let made = resume(&service, &other, 201).await;
    let resumed = made["id"].as_str().unwrap().to_owned();
    service.output_of(&resumed, "echo more >> c").await;
    let done = merge(&service, &of(&other)).await;
    assert_eq!(done["landedCount"], 1, "{done}");
    assert_eq!(file(&service, &id, "c").await.unwrap(), "c\nmore\n");
    let path = format!("/api/v1/projects/{id}");
    let refused = service.expect(Method::DELETE, &path, None, 409).await;
    assert_eq!(refused["error"]["details"]["sandboxId"], json!(resumed));
    assert_eq!(
        parked_after_expiry(&mut service, &[&resumed]).await,
        [false]
    );
}

#[tokio::test]
async fn a_kept_workspace_is_listed_resumed_and_deleted() {
    let service = Service::start().await;
    let key =
        json!({"name": "ordinary", "scopes": ["sandboxes:read", "sandboxes:write", "process"]});
    let key = service.post("/api/v1/keys", key).await;
    let key = key["secret"].as_str().unwrap().to_owned();
    let id = service.sandbox().await;
    service.output_of(&id, "echo mine > file").await;
    let path = format!("/api/v1/sandboxes/{id}?keep_workspace=true");
    service
        .expect_as(&key, Method::DELETE, &path, None, 204)
        .await;
    assert_eq!(parked(&service).await, [id.as_str()]);

    // A sandbox that cannot be created leaves the workspace parked.
    let wish = json!({"template": "base", "runtime": "nosuch", "workspace": {"existing": id}});
    service
        .expect(Method::POST, "/api/v1/sandboxes", Some(wish), 422)
        .await;
    assert_eq!(parked(&service).await, [id.as_str()]);
    let wish =
        json!({"template": "base", "resources": {"disk": "1m"}, "workspace": {"existing": id}});
    service
        .expect(Method::POST, "/api/v1/sandboxes", Some(wish), 422)
        .await;
    let made = resume(&service, &id, 201).await;
    let sandbox = made["id"].as_str().unwrap().to_owned();
    assert_eq!(service.output_of(&sandbox, "cat file").await, "mine\n");
    let path = format!("/api/v1/workspaces/{id}");
    let refused = service.expect(Method::DELETE, &path, None, 409).await;
    assert_eq!(refused["error"]["details"]["sandboxId"], json!(sandbox));

    let keep = format!("/api/v1/sandboxes/{sandbox}?keep_workspace=true");
    service.expect(Method::DELETE, &keep, None, 204).await;
    service
        .expect_as(&key, Method::DELETE, &path, None, 204)
        .await;
    assert!(parked(&service).await.is_empty());
    service.expect(Method::GET, &path, None, 404).await;
}

#[tokio::test]
async fn a_parked_workspace_expires_in_the_end() {
    let mut service = Service::start().await;
    let (one, two) = (service.sandbox().await, service.sandbox().await);
    for id in [&one, &two] {
        service.output_of(id, "echo mine > file").await;
        let path = format!("/api/v1/sandboxes/{id}?keep_workspace=true");
        service.expect(Method::DELETE, &path, None, 204).await;
    }
    expire(&mut service, "workspaces", &[&one]).await;
    events(&service, "workspace.expired", &[&one]).await;
    let path = format!("/api/v1/workspaces/{one}");
    eventually("it is gone", async || {
        service.get(&path).await["error"]["name"] == "WORKSPACE_NOT_FOUND"
    })
    .await;
    assert_eq!(parked(&service).await, [two.as_str()]);
    let mut recorded = false;
    let is_read = read(&service.data.join("audit"), 0, |_, record| {
        recorded |= record["event"] == "workspace.expired" && record["workspace_id"] == json!(one);
        true
    });
    is_read.unwrap();
    assert!(recorded);
}

/// Clocks of a machine whose wall clock the test sets.
#[derive(Clone, Default)]
struct FakeClocks {
    ahead: Arc<AtomicI64>,
}

impl FakeClocks {
    fn set(&self, seconds: i64) {
        self.ahead.store(seconds, Ordering::SeqCst);
    }

    fn clocks(&self) -> Clocks {
        let (ahead, real) = (self.ahead.clone(), Clocks::default());
        Clocks(Arc::new(move || {
            let reading = (real.0)();
            let seconds = reading.wall.seconds() + ahead.load(Ordering::SeqCst);
            Reading {
                wall: Timestamp::new(seconds, reading.wall.nanos()).unwrap(),
                ..reading
            }
        }))
    }
}

const DAY: i64 = 24 * 3600;

/// Waits until the server has read its clock, which it does before it ends
/// expired sandboxes.
async fn has_looked(service: &Service, marker: &str) {
    let made = sandbox(service, json!({"name": marker})).await;
    service
        .sql(&format!(
            "update sandboxes set expires = 1 where id = '{made}'"
        ))
        .await;
    events(service, "sandbox.deleted", &[&made]).await;
}

#[tokio::test]
async fn a_jump_of_the_clock_expires_nothing() {
    let clock = FakeClocks::default();
    let (mut service, engine) =
        Service::start_simulated(|config| config.clocks = clock.clocks()).await;
    service.expect_complaint("cannot check the container and agent of a sandbox");
    service.expect_complaint("the wall clock jumped");
    let lives = sandbox(&service, json!({"timeoutSeconds": 3600})).await;
    let kept = sandbox(&service, json!({})).await;
    let path = format!("/api/v1/sandboxes/{kept}?keep_workspace=true");
    service.expect(Method::DELETE, &path, None, 204).await;
    let path = format!("/api/v1/sandboxes/{lives}");
    let expires = service.get(&path).await["expiresAt"].clone();

    // Sets the clock forward by more than the time for which a parked workspace
    // is kept, while the server runs and while it is stopped; then sets it
    // back.
    for (seconds, restart) in [(8 * DAY, false), (16 * DAY, true), (0, false)] {
        if restart {
            service.stop_here().await;
        }
        clock.set(seconds);
        if restart {
            let clocks = clock.clocks();
            service
                .run_simulated(&engine, |config| config.clocks = clocks)
                .await;
        }
        has_looked(&service, &format!("after-{seconds}")).await;
        assert_eq!(service.get(&path).await["state"], "running");
        assert_eq!(parked(&service).await, [kept.as_str()]);
    }
    // The time since the machine started has a resolution of a second.
    let seconds = |time: &Value| {
        let time: jiff::Timestamp = time.as_str().unwrap().parse().unwrap();
        time.as_second()
    };
    let after = seconds(&service.get(&path).await["expiresAt"]);
    let difference = after - seconds(&expires);
    assert!(difference.abs() < 10, "as long as before: {difference}");
}

/// A library that sets the wall clock of one process ahead, by the number of
/// seconds in a file.
const SHIM: &str = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static volatile int64_t *ahead;

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("FAKE_CLOCK");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file >= 0) {
        void *page = mmap(NULL, sizeof *ahead, PROT_READ, MAP_SHARED, file, 0);
        ahead = page == MAP_FAILED ? NULL : page;
        close(file);
    }
}

int clock_gettime(clockid_t id, struct timespec *time) {
    int result = syscall(SYS_clock_gettime, id, time);
    if (result == 0 && id == CLOCK_REALTIME && ahead)
        time->tv_sec += *ahead;
    return result;
}
"#;

/// Tests that need a real container engine.
mod on_docker {
    use super::*;

    #[tokio::test]
    async fn a_jump_of_the_clock_ends_no_sandbox_of_the_real_server() {
        let directory = tempfile::tempdir().unwrap();
        let [source, library, clock] =
            ["shim.c", "shim.so", "clock"].map(|name| directory.path().join(name));
        std::fs::write(&source, SHIM).unwrap();
        let set = |seconds: i64| {
            let file = std::fs::File::options()
                .write(true)
                .create(true)
                .truncate(false)
                .open(&clock);
            file.unwrap()
                .write_all_at(&seconds.to_ne_bytes(), 0)
                .unwrap();
        };
        set(0);
        let compiled = Command::new("gcc")
            .args(["-shared", "-fPIC", "-O1", "-o"])
            .args([&library, &source])
            .status();
        assert!(compiled.unwrap().success());
        let service = Service::with_docker_and(&[
            ("LD_PRELOAD", library.to_str().unwrap()),
            ("FAKE_CLOCK", clock.to_str().unwrap()),
        ])
        .await;
        service.expect_complaint("the wall clock jumped");
        let id = service.sandbox().await;
        service.output_of(&id, "echo mine > file").await;
        for seconds in [8 * DAY, 0] {
            set(seconds);
            has_looked(&service, &format!("after-{seconds}")).await;
            assert_eq!(service.output_of(&id, "cat file").await, "mine\n");
        }
    }
}
