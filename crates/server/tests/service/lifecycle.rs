//! Sandboxes from creation to deletion.

use reqwest::Method;
use serde_json::json;

use crate::harness::{Service, eventually};

#[tokio::test]
async fn wishes_that_cannot_be_met_are_refused_by_name() {
    let service = Service::start().await;
    service.expect_complaint("cannot create a sandbox, so it is rolled back");
    let cases = [
        (json!({"template": "none"}), 404, "TEMPLATE_NOT_FOUND"),
        (
            json!({"template": "base", "resources": {"memory": "64g"}}),
            422,
            "RESOURCE_REFUSED",
        ),
        (
            json!({"template": "base", "resources": {"cpu": "1000"}}),
            422,
            "RESOURCE_REFUSED",
        ),
        (
            json!({"template": "base", "resources": {"memory": "1m"}}),
            422,
            "RESOURCE_REFUSED",
        ),
        (
            json!({"template": "base", "resources": {"memory": "much"}}),
            400,
            "INVALID_REQUEST",
        ),
        (
            json!({"template": "base", "timeoutSeconds": 0}),
            400,
            "INVALID_REQUEST",
        ),
        (
            json!({"template": "base", "timeoutSeconds": 1_000_000}),
            422,
            "RESOURCE_REFUSED",
        ),
        (
            json!({"template": "base", "timeoutSecond": 10}),
            400,
            "INVALID_REQUEST",
        ),
        (
            json!({"template": "base", "runtime": "nosuch"}),
            422,
            "RESOURCE_REFUSED",
        ),
        (
            json!({"template": "base", "workspace": {"snapshot": "00"}}),
            404,
            "SNAPSHOT_NOT_FOUND",
        ),
        (
            json!({"template": "base", "envs": {"SANDBOX_TOKEN": "x"}}),
            400,
            "INVALID_REQUEST",
        ),
    ];
    for (wish, status, name) in cases {
        let refused = service
            .expect(
                Method::POST,
                "/api/v1/sandboxes",
                Some(wish.clone()),
                status,
            )
            .await;
        assert_eq!(refused["error"]["name"], name, "{wish}");
    }
    let list = service.get("/api/v1/sandboxes").await;
    assert_eq!(list["total"], 0, "{list}");
    assert!(service.containers().is_empty());
}

#[tokio::test]
async fn sandboxes_stop_and_start_again_with_their_files() {
    let service = Service::start().await;
    service.expect_complaint("a sandbox has failed");
    let id = service.sandbox().await;
    service
        .output_of(&id, "echo one > kept; echo two > ~/kept")
        .await;
    let stopped = service
        .post(&format!("/api/v1/sandboxes/{id}/stop"), json!({}))
        .await;
    assert_eq!(stopped["state"], "stopped", "{stopped}");
    let path = format!("/api/v1/sandboxes/{id}/process/run");
    let refused = service
        .expect(Method::POST, &path, Some(json!({"command": "true"})), 409)
        .await;
    assert_eq!(refused["error"]["name"], "SANDBOX_WRONG_STATE");
    let started = service
        .post(&format!("/api/v1/sandboxes/{id}/start"), json!({}))
        .await;
    assert_eq!(started["state"], "running", "{started}");
    assert_eq!(
        service.output_of(&id, "cat kept ~/kept").await,
        "one\ntwo\n"
    );

    // A container that ends by itself is noticed, and can be started again.
    service.simulated().end(&id, false).await;
    eventually("the sandbox has failed", async || {
        service.get(&format!("/api/v1/sandboxes/{id}")).await["state"] == "error"
    })
    .await;
    service.simulated().vanish(&id).await;
    let started = service
        .post(&format!("/api/v1/sandboxes/{id}/start"), json!({}))
        .await;
    assert_eq!(started["state"], "running", "{started}");
    assert_eq!(service.output_of(&id, "cat kept").await, "one\n");
}

#[tokio::test]
async fn sandboxes_expire_unless_they_are_extended() {
    let service = Service::start_with(&[
        ("MAX_SANDBOX_LIFETIME", "30"),
        ("DEFAULT_SANDBOX_TIMEOUT", "10"),
        ("MAX_SANDBOX_EXTENSION", "15"),
    ])
    .await;
    let short = json!({"template": "base", "timeoutSeconds": 4});
    let made = service.post("/api/v1/sandboxes", short).await;
    let id = made["id"].as_str().unwrap();
    let path = format!("/api/v1/sandboxes/{id}/extend");
    for seconds in [16, 3600] {
        let body = Some(json!({"seconds": seconds}));
        let refused = service.expect(Method::POST, &path, body, 422).await;
        assert_eq!(refused["error"]["name"], "LIFETIME_EXCEEDED");
    }
    let extended = service
        .expect(Method::POST, &path, Some(json!({"seconds": 3})), 200)
        .await;
    assert_ne!(extended["expiresAt"], made["expiresAt"]);
    service
        .expect(Method::POST, &path, Some(json!({"seconds": 15})), 200)
        .await;
    let refused = service
        .expect(Method::POST, &path, Some(json!({"seconds": 15})), 422)
        .await;
    assert_eq!(
        refused["error"]["name"], "LIFETIME_EXCEEDED",
        "both limits hold"
    );
    let brief = service
        .post(
            "/api/v1/sandboxes",
            json!({"template": "base", "timeoutSeconds": 2}),
        )
        .await;
    let brief = format!("/api/v1/sandboxes/{}", brief["id"].as_str().unwrap());
    eventually("it has expired", async || {
        service.get(&brief).await["error"]["code"] == 2001
    })
    .await;
    assert_eq!(service.output_of(id, "echo lives").await, "lives\n");

    // A sandbox whose lifetime is shorter than its start still starts, and then
    // ends.
    let began = std::time::Instant::now();
    for _ in 0..3 {
        let wish = json!({"template": "base", "timeoutSeconds": 1});
        let made = service.post("/api/v1/sandboxes", wish).await;
        assert_eq!(made["state"], "running", "{made}");
    }
    assert!(began.elapsed().as_secs() < 30);
    eventually("all but one have expired", async || {
        service.get("/api/v1/sandboxes").await["total"].as_u64() <= Some(1)
    })
    .await;
}

#[tokio::test]
async fn lists_have_pages_and_filters_and_batches_an_error_for_each() {
    let service = Service::start().await;
    let mut ids = Vec::new();
    for name in ["a-1", "a-2", "b-1"] {
        let made = service
            .post(
                "/api/v1/sandboxes",
                json!({"template": "base", "name": name}),
            )
            .await;
        ids.push(made["id"].as_str().unwrap().to_owned());
    }
    service
        .post(&format!("/api/v1/sandboxes/{}/stop", ids[2]), json!({}))
        .await;
    let page = service.get("/api/v1/sandboxes?limit=2&page=2").await;
    assert_eq!(
        (&page["total"], page["items"].as_array().unwrap().len()),
        (&json!(3), 1)
    );
    assert_eq!(
        page["items"][0]["id"],
        json!(ids[0]),
        "the newest come first"
    );
    let named = service.get("/api/v1/sandboxes?name_prefix=a-").await;
    assert_eq!(named["total"], 2);
    let stopped = service.get("/api/v1/sandboxes?state=stopped").await;
    assert_eq!(stopped["items"][0]["id"], json!(ids[2]));
    service
        .expect(Method::GET, "/api/v1/sandboxes?limit=101", None, 400)
        .await;
    service
        .expect(Method::GET, "/api/v1/sandboxes?colour=red", None, 400)
        .await;

    let mut all = ids.clone();
    all.push("sbx-none".into());
    let batch = service
        .post("/api/v1/sandboxes/batch-delete", json!({"ids": all}))
        .await;
    assert_eq!(batch["succeeded"].as_array().unwrap().len(), 3, "{batch}");
    assert_eq!(
        batch["failed"][0]["error"]["name"], "SANDBOX_NOT_FOUND",
        "{batch}"
    );
    assert!(service.containers().is_empty());
}

#[tokio::test]
async fn a_repeated_create_makes_nothing_twice() {
    let service = Service::start().await;
    let create = |key: &'static str, name: &'static str| {
        let request = service.request(Method::POST, "/api/v1/sandboxes");
        let request = request.header("Idempotency-Key", key);
        request
            .json(&json!({"template": "base", "name": name}))
            .send()
    };
    let first = create("one", "x").await.unwrap();
    assert_eq!(first.status(), 201);
    let first: serde_json::Value = first.json().await.unwrap();
    let second = create("one", "x").await.unwrap();
    assert_eq!(second.headers()["idempotency-replayed"], "true");
    let second: serde_json::Value = second.json().await.unwrap();
    assert_eq!(first, second);
    let other = create("one", "y").await.unwrap();
    assert_eq!(other.status(), 422);
    let list = service.get("/api/v1/sandboxes").await;
    assert_eq!(list["total"], 1);
}

#[tokio::test]
async fn a_stopped_server_leaves_its_sandboxes_running() {
    let mut service = Service::start().await;
    let id = service.sandbox().await;
    let path = format!("/api/v1/sandboxes/{id}/process/run");
    let body =
        json!({"command": "for n in $(seq 100); do echo $n; sleep 0.1; done", "background": true});
    let command = service.post(&path, service.inside(&id, body)).await;
    let command = command["commandId"].as_str().unwrap().to_owned();
    service.stop();
    service.run();
    let path = format!("/api/v1/sandboxes/{id}/process/{command}");
    let info = service.get(&path).await;
    assert_eq!(info["running"], true, "{info}");
    let ready: serde_json::Value = reqwest::get(format!("{}/ready", service.metrics))
        .await
        .unwrap()
        .json()
        .await
        .unwrap();
    assert_eq!(ready["ready"], true, "{ready}");
    let metrics = reqwest::get(format!("{}/metrics", service.metrics))
        .await
        .unwrap()
        .text()
        .await
        .unwrap();
    for name in [
        "sandbox_total{state=\"running\"} 1",
        "api_request_total",
        "api_request_duration_seconds",
    ] {
        assert!(metrics.contains(name), "{name}: {metrics}");
    }
}

/// Tests that need a real container engine.
mod on_docker {
    use super::*;

    #[tokio::test]
    async fn a_sandbox_runs_commands_and_leaves_nothing() {
        let service = Service::with_docker().await;
        let wish = json!({"template": "base", "name": "first", "envs": {"COLOUR": "blue"}, "timeoutSeconds": 600,
        "resources": {"cpu": "0.5", "memory": "128m", "disk": "64m", "pids": 64}});
        let made = service
            .expect(Method::POST, "/api/v1/sandboxes", Some(wish), 201)
            .await;
        assert_eq!(made["state"], "running");
        assert_eq!(
            made["resources"],
            json!({"cpu": "0.5", "memory": "128m", "disk": "64m", "pids": 64})
        );
        let id = made["id"].as_str().unwrap();

        let seen = service
            .output_of(
                id,
                "id -u; pwd; echo $HOME $COLOUR; touch /workspace/f ~/g /tmp/h && echo written",
            )
            .await;
        assert_eq!(seen, "64000\n/workspace\n/home/agent blue\nwritten\n");
        let refused = service.run_in(id, "touch /etc/passwd || touch /new").await;
        assert_ne!(refused["exitCode"], 0, "{refused}");
        let hidden = service
            .output_of(id, "env; cat /proc/1/environ 2>&1 || true")
            .await;
        assert!(!hidden.contains("elvs_"), "{hidden}");

        let got = service.get(&format!("/api/v1/sandboxes/{id}")).await;
        assert_eq!(got["id"], made["id"]);
        let stats = service.get(&format!("/api/v1/sandboxes/{id}/stats")).await;
        assert_eq!(stats["memory"]["limit"], 128 << 20, "{stats}");
        assert_eq!(stats["disk"]["limit"], 64 << 20, "{stats}");
        let logs = service
            .get(&format!("/api/v1/sandboxes/{id}/logs?tail=5"))
            .await;
        assert!(logs["logs"].is_string(), "{logs}");
        assert_eq!(service.containers(), [id]);

        service.delete(id).await;
        assert!(service.containers().is_empty());
        let gone = service
            .expect(Method::GET, &format!("/api/v1/sandboxes/{id}"), None, 404)
            .await;
        assert_eq!(gone["error"]["name"], "SANDBOX_NOT_FOUND");
        assert_eq!(gone["error"]["retry"], "never");
        assert!(
            gone["error"]["remediation"]
                .as_str()
                .unwrap()
                .contains("elevo sandbox ls")
        );
        let left = service.mounts();
        assert!(!left.iter().any(|mount| mount.contains(id)), "{left:?}");
    }

    #[tokio::test]
    async fn the_writes_of_a_sandbox_are_limited() {
        let service = Service::with_docker().await;
        let wish = json!({"template": "base", "resources": {"disk": "32m", "memory": "64m"}});
        let made = service.post("/api/v1/sandboxes", wish).await;
        let id = made["id"].as_str().unwrap();
        for place in ["/workspace/big", "$HOME/big"] {
            let full = service
                .run_in(id, &format!("head -c 64m /dev/zero > {place}"))
                .await;
            assert_ne!(full["exitCode"], 0, "{full}");
            service.run_in(id, &format!("rm -f {place}; sync")).await;
        }
        let hog = service
        .run_in(
            id,
            "python3 -c 'x = bytearray(1 << 30)' || dd if=/dev/zero of=/dev/null bs=512M count=1",
        )
        .await;
        assert_ne!(hog["exitCode"], 0, "{hog}");
        assert_eq!(
            service.output_of(id, "echo still there").await,
            "still there\n"
        );
    }
}
