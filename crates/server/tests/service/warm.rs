//! The warm pool.

use std::collections::BTreeSet;

use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::{Service, eventually};

const POOL: &[(&str, &str)] = &[("WARM_POOL", "base=2")];

/// Waits until the pool is full; returns its sandboxes.
async fn full(service: &Service, size: u64) -> BTreeSet<String> {
    eventually("a full pool", async || {
        let stats = service.get("/api/v1/stats").await;
        assert_eq!(stats["pools"][0]["size"], size, "{stats}");
        stats["pools"][0]["ready"] == size
    })
    .await;
    let stats = service.get("/api/v1/sandboxes?limit=100").await;
    let rows = stats["items"].as_array().unwrap().iter();
    let rows: BTreeSet<_> = rows
        .map(|row| row["id"].as_str().unwrap().to_owned())
        .collect();
    let containers = BTreeSet::from_iter(service.containers());
    containers.difference(&rows).cloned().collect()
}

async fn create(service: &Service, wish: Value) -> String {
    let made = service
        .expect(Method::POST, "/api/v1/sandboxes", Some(wish), 201)
        .await;
    assert_eq!(made["state"], "running", "{made}");
    made["id"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_warm_sandbox_is_like_any_other() {
    let service = Service::with_docker_and(POOL).await;
    service.expect_complaint("cannot fill a warm pool");
    let warm = full(&service, 2).await;
    assert_eq!(warm.len(), 2);
    let wish =
        json!({"template": "base", "envs": {"COLOUR": "blue"}, "resources": {"disk": "64m"}});
    let id = create(&service, wish).await;
    assert!(warm.contains(&id), "it was there before");
    let seen = service
        .output_of(
            &id,
            "id -u; pwd; hostname; echo $HOME $COLOUR; ls -A /workspace ~; touch f ~/g /tmp/h",
        )
        .await;
    let expected =
        format!("64000\n/workspace\n{id}\n/home/agent blue\n/home/agent:\n\n/workspace:\n");
    assert_eq!(seen, expected);
    let big = service.run_in(&id, "head -c 100m /dev/zero > big").await;
    assert_ne!(big["exitCode"], 0, "the disk is limited: {big}");
    service.output_of(&id, "rm big; echo one > file").await;
    let hidden = service
        .output_of(&id, "env; cat /proc/1/environ 2>&1 || true")
        .await;
    assert!(!hidden.contains("elvs_"), "{hidden}");

    // Snapshots, forks and diffs of the sandbox use its workspace.
    let path = format!("/api/v1/sandboxes/{id}");
    let diff = service.get(&format!("{path}/diff")).await;
    assert!(diff.to_string().contains("file"), "{diff}");
    let forked = service
        .post(&format!("{path}/fork"), json!({"count": 2}))
        .await;
    for fork in forked["succeeded"].as_array().unwrap() {
        let fork = fork["id"].as_str().unwrap();
        assert_eq!(
            service.output_of(fork, "cat file; echo $COLOUR").await,
            "one\nblue\n"
        );
        service.output_of(fork, "echo two > file").await;
        service.delete(fork).await;
    }
    assert_eq!(service.output_of(&id, "cat file").await, "one\n");

    // The sandbox is stopped and started like any other.
    service.post(&format!("{path}/stop"), json!({})).await;
    let started = service.post(&format!("{path}/start"), json!({})).await;
    assert_eq!(started["state"], "running", "{started}");
    assert_eq!(service.output_of(&id, "cat file; ls ~").await, "one\ng\n");

    service.delete(&id).await;
    let left = service.mounts();
    assert!(!left.iter().any(|mount| mount.contains(&id)), "{left:?}");
    assert!(!service.data.join("slots").join(&id).exists());
    let again = full(&service, 2).await;
    assert_eq!(again.len(), 2);
}

#[tokio::test]
async fn only_what_is_alike_is_taken_from_a_pool() {
    let service =
        Service::with_docker_and(&[("WARM_POOL", "base=1"), ("MAX_SANDBOXES", "2")]).await;
    service.expect_complaint("cannot fill a warm pool");
    let warm = full(&service, 1).await;
    for (name, value) in [
        ("memory", json!("128m")),
        ("cpu", json!("0.5")),
        ("pids", json!(64)),
    ] {
        let wish = json!({"template": "base", "resources": {name: value}});
        let id = create(&service, wish).await;
        assert!(!warm.contains(&id), "{name} is another one");
        service.delete(&id).await;
    }
    let other = create(&service, json!({"template": "base", "network": "internet"})).await;
    assert!(!warm.contains(&other));
    // If creating a sandbox fails, the warm sandbox is returned to the pool and
    // used by the next request.
    let id = create(&service, json!({"template": "base"})).await;
    assert!(warm.contains(&id));
    let next = full(&service, 1).await;
    let wish = Some(json!({"template": "base"}));
    service
        .expect(Method::POST, "/api/v1/sandboxes", wish, 429)
        .await;
    assert_eq!(full(&service, 1).await, next);
    service.delete(&other).await;
    let id = create(&service, json!({"template": "base"})).await;
    assert!(next.contains(&id));
}

#[tokio::test]
async fn a_pool_is_replaced_when_its_template_changes() {
    let service = Service::with_docker_and(POOL).await;
    service.expect_complaint("cannot fill a warm pool");
    let before = full(&service, 2).await;
    let wish = json!({"name": "base", "image": service.image(), "writableRoot": true});
    service.post("/api/v1/templates", wish).await;
    let mut after = BTreeSet::new();
    eventually("another pool", async || {
        after = full(&service, 2).await;
        after.is_disjoint(&before) && after.len() == 2
    })
    .await;
    let id = create(&service, json!({"template": "base"})).await;
    assert!(after.contains(&id));
    service.run_in(&id, "test -w / || exit 1").await;
    service
        .expect(Method::DELETE, "/api/v1/templates/base", None, 204)
        .await;
    eventually("no pool", async || service.containers() == [id.as_str()]).await;
}

#[tokio::test]
async fn a_dead_sandbox_of_a_pool_is_never_used() {
    let service = Service::with_docker_and(POOL).await;
    service.expect_complaint("cannot fill a warm pool");
    let warm = full(&service, 2).await;
    for id in &warm {
        crate::harness::docker(&["kill", id]);
    }
    let id = create(&service, json!({"template": "base"})).await;
    assert_eq!(service.output_of(&id, "echo hello").await, "hello\n");
    eventually("a pool of the living", async || {
        let now = full(&service, 2).await;
        now.is_disjoint(&warm) && now.len() == 2
    })
    .await;
}

#[tokio::test]
async fn a_server_that_comes_back_has_its_sandboxes_and_a_new_pool() {
    let mut service = Service::with_docker_and(POOL).await;
    service.expect_complaint("cannot fill a warm pool");
    service.expect_complaint("a sandbox has failed");
    let warm = full(&service, 2).await;
    let id = create(&service, json!({"template": "base", "envs": {"A": "b"}})).await;
    service.output_of(&id, "echo mine > file").await;
    full(&service, 2).await;
    service.kill();
    service.run();
    assert_eq!(
        service.output_of(&id, "cat file; echo $A").await,
        "mine\nb\n"
    );
    let new = full(&service, 2).await;
    assert!(new.is_disjoint(&warm) && new.len() == 2, "{new:?}");
    assert_eq!(service.containers().len(), 3);

    // A sandbox without its container gets a new one, with its files.
    crate::harness::docker(&["rm", "-f", &id]);
    let path = format!("/api/v1/sandboxes/{id}");
    eventually("the loss is noticed", async || {
        service.get(&path).await["state"] == "error"
    })
    .await;
    let started = service.post(&format!("{path}/start"), json!({})).await;
    assert_eq!(started["state"], "running", "{started}");
    assert_eq!(
        service.output_of(&id, "cat file; echo $A").await,
        "mine\nb\n"
    );
    service.delete(&id).await;
    service.stop();
    assert!(
        service.containers().is_empty(),
        "a pool goes with its server"
    );
    let slots = std::fs::read_dir(service.data.join("slots")).unwrap();
    assert_eq!(slots.count(), 0);
}
