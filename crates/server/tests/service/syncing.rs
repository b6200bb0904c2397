//! Workspaces that are merged automatically.

use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::{Service, eventually};
use crate::shared::{Ws, agent, file, project, write};

const REFUSED: &str = "/api/v1/events?kinds=workspace.refused";

/// Creates a workspace that is merged every second.
async fn regular(service: &Service, key: &str, project: &str) -> Ws {
    let sync = json!({"mode": "regular", "seconds": 1});
    let wish = Some(json!({"project": project, "sync": sync}));
    let url = "/api/v1/workspaces";
    let made = service.expect_as(key, Method::POST, url, wish, 201).await;
    Ws {
        id: made["id"].as_str().unwrap().to_owned(),
        path: made["path"].as_str().unwrap().into(),
    }
}

async fn refusals(service: &Service, key: &str) -> Vec<Value> {
    let found = service.expect_as(key, Method::GET, REFUSED, None, 200);
    found.await["items"].as_array().unwrap().clone()
}

async fn merges(service: &Service, ws: &Ws) -> u64 {
    let found = service.get(&format!("/api/v1/workspaces/{}", ws.id)).await;
    found["merges"].as_u64().unwrap()
}

/// Waits for three automatic merges of one workspace. By then the server has
/// checked every other workspace as often.
async fn rounds(service: &Service, clock: &Ws, project: &str, names: [&str; 3]) {
    for name in names {
        write(clock, name, "tick\n");
        eventually("the clock is merged", async || {
            file(service, project, name).await.is_some()
        })
        .await;
    }
}

#[tokio::test]
async fn a_refusal_in_an_automatic_merge_raises_one_event() {
    let service = Service::start_without_engine(&[]);
    let (alice, alice_key) = agent(&service, "alice").await;
    let (_, bob_key) = agent(&service, "bob").await;
    let policy = json!({"rules": [{"pattern": "src", "agents": [alice], "access": "r"}]});
    let id = project(&service, policy, &[("src/a", "first\n")]).await;
    let ws = regular(&service, &alice_key, &id).await;
    let clock = regular(&service, &bob_key, &id).await;
    write(&ws, "src/a", "changed\n");
    write(&ws, "notes", "mine\n");
    eventually("the refusal is an event", async || {
        !refusals(&service, &alice_key).await.is_empty()
    })
    .await;
    assert_eq!(file(&service, &id, "notes").await.unwrap(), "mine\n");

    rounds(&service, &clock, &id, ["1", "2", "3"]).await;
    let found = refusals(&service, &alice_key).await;
    let [event] = &found[..] else {
        panic!("one event: {found:?}");
    };
    let data = &event["data"];
    assert_eq!(data["workspace"], json!(ws.id), "{event}");
    assert_eq!(data["project"], json!(id), "{event}");
    assert_eq!(data["refusedCount"], 1, "{event}");
    assert_eq!(data["refused"][0]["path"], "src/a", "{event}");
    let reason = data["refused"][0]["reason"].as_str().unwrap();
    assert!(reason.contains("cannot be changed"), "{reason}");
    assert_eq!(refusals(&service, &bob_key).await, [] as [Value; 0]);

    // Once allowed, the change lands though the workspace has not changed.
    let url = format!("/api/v1/projects/{id}/policy");
    let open = Some(json!({"policy": {}}));
    service.expect(Method::PUT, &url, open, 200).await;
    eventually("the change lands", async || {
        file(&service, &id, "src/a").await.unwrap() == "changed\n"
    })
    .await;
}

#[tokio::test]
async fn a_refused_file_is_not_merged_again_before_something_changes() {
    let service = Service::start_without_engine(&[]);
    let (alice, alice_key) = agent(&service, "alice").await;
    let policy = json!({"rules": [{"pattern": "src", "agents": [alice], "access": "r"}]});
    let id = project(&service, policy, &[("src/a", "first\n")]).await;
    let ws = regular(&service, &alice_key, &id).await;
    let other = json!({"name": "other"});
    let other = service.post("/api/v1/projects", other).await;
    let other = other["id"].as_str().unwrap().to_owned();
    let clock = regular(&service, &alice_key, &other).await;
    write(&ws, "src/a", "changed\n");
    eventually("the file is refused", async || {
        merges(&service, &ws).await > 0
    })
    .await;
    let before = merges(&service, &ws).await;
    rounds(&service, &clock, &other, ["1", "2", "3"]).await;
    assert_eq!(merges(&service, &ws).await, before, "nothing has changed");

    write(&ws, "src/a", "changed again\n");
    eventually("the new change is tried", async || {
        merges(&service, &ws).await > before
    })
    .await;
}
