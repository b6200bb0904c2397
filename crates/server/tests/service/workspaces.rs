//! Diffs, snapshots, forks, restores, archives, parking and resuming of
//! workspaces, with and without a sandbox.

use std::fs;

use elevo_sandbox::sim::Call;
use reqwest::Method;
use serde_json::{Value, json};

use crate::files::changes;
use crate::harness::Service;
use crate::shared::{Ws, agent, at, merge, project, read, workspace, write};

const WORKSPACES: &str = "/api/v1/workspaces";

/// A workspace on a project with one file, and changes since.
struct Changed {
    service: Service,
    project: String,
    ws: Ws,
}

impl Changed {
    async fn start() -> Self {
        let service = Service::start().await;
        let project = project(&service, json!({}), &[("old", "one\n")]).await;
        let ws = workspace(&service, json!({"project": project, "name": "mine"})).await;
        write(&ws, "old", "two\n");
        write(&ws, "new", "three\n");
        Self {
            service,
            project,
            ws,
        }
    }

    fn at(&self, what: &str) -> String {
        at(&self.ws, what)
    }

    async fn get(&self) -> Value {
        let url = format!("{WORKSPACES}/{}", self.ws.id);
        self.service.get(&url).await
    }
}

fn ws_of(shown: &Value) -> Ws {
    Ws {
        id: shown["id"].as_str().unwrap().to_owned(),
        path: shown["path"].as_str().unwrap().into(),
    }
}

#[tokio::test]
async fn a_diff_of_a_workspace_has_the_changes_that_are_not_merged() {
    let changed = Changed::start().await;
    let service = &changed.service;
    let all = ["added new", "changed old"];
    let diff = service.get(&changed.at("diff")).await;
    assert_eq!(changes(&diff), all);
    let taken = service.post(&changed.at("snapshot"), json!({})).await;
    assert_eq!(taken["isNew"], true);
    assert_eq!(changes(&service.get(&changed.at("diff")).await), all);
    let last = service.get(&changed.at("diff?from=last")).await;
    assert_eq!((changes(&last).len(), &last["base"]), (0, &taken["id"]));
    let stat = service.get(&changed.at("diff?format=stat")).await;
    assert_eq!((&stat["added"], &stat["removed"]), (&json!(2), &json!(1)));
    merge(service, &changed.ws).await;
    let merged = service.get(&changed.at("diff")).await;
    assert_eq!(changes(&merged).len(), 0, "{merged}");
}

#[tokio::test]
async fn a_workspace_is_restored_to_a_snapshot() {
    let changed = Changed::start().await;
    let service = &changed.service;
    let taken = service.post(&changed.at("snapshot"), json!({})).await;
    write(&changed.ws, "new", "four\n");
    let wish = Some(json!({"snapshot": taken["id"]}));
    let restored = service
        .expect(Method::POST, &changed.at("restore"), wish, 200)
        .await;
    assert_eq!(restored["id"], changed.ws.id.as_str());
    assert_eq!(read(&changed.ws, "new"), "three\n");
    let wish = Some(json!({"snapshot": "0".repeat(64)}));
    let missing = service
        .expect(Method::POST, &changed.at("restore"), wish, 404)
        .await;
    assert_eq!(missing["error"]["name"], "SNAPSHOT_NOT_FOUND");
}

#[tokio::test]
async fn forks_of_a_workspace_merge_into_the_same_project() {
    let changed = Changed::start().await;
    let service = &changed.service;
    let wish = json!({"count": 2, "name": "try"});
    let forked = service.post(&changed.at("fork"), wish).await;
    assert_eq!(forked["failed"], json!([]), "{forked}");
    let origin = changed.get().await;
    let forks = forked["succeeded"].as_array().unwrap();
    for (fork, name) in forks.iter().zip(["try-1", "try-2"]) {
        assert_eq!(fork["name"], name);
        for field in ["project", "synced", "readOnly", "state"] {
            assert_eq!(fork[field], origin[field], "{field}");
        }
        let fork = ws_of(fork);
        assert_eq!(read(&fork, "new"), "three\n");
        write(&fork, "new", name);
        let diff = service.get(&at(&fork, "diff")).await;
        assert_eq!(changes(&diff), ["added new", "changed old"]);
    }
    assert_eq!(read(&changed.ws, "new"), "three\n");
    let merged = merge(service, &ws_of(&forks[0])).await;
    assert_eq!(merged["landedCount"], 2, "{merged}");
    for count in [0, 51] {
        let wish = Some(json!({"count": count}));
        service
            .expect(Method::POST, &changed.at("fork"), wish, 400)
            .await;
    }
}

#[tokio::test]
async fn archives_go_in_and_out_of_a_workspace() {
    let changed = Changed::start().await;
    let service = &changed.service;
    let got = service.request(Method::GET, &changed.at("archive")).send();
    let tar = got.await.unwrap().bytes().await.unwrap();
    let other = workspace(service, json!({"project": changed.project})).await;
    let sent = service
        .request(Method::PUT, &at(&other, "archive?path=in"))
        .body(tar);
    assert_eq!(sent.send().await.unwrap().status(), 204);
    assert_eq!(read(&other, "in/new"), "three\n");
}

#[tokio::test]
async fn a_read_only_workspace_is_not_changed() {
    let changed = Changed::start().await;
    let service = &changed.service;
    let wish = json!({"project": changed.project, "readOnly": true});
    let other = workspace(service, wish).await;
    let sent = service
        .request(Method::PUT, &at(&other, "archive"))
        .body(vec![0; 1024]);
    let refused: Value = sent.send().await.unwrap().json().await.unwrap();
    assert_eq!(refused["error"]["name"], "WORKSPACE_READ_ONLY", "{refused}");
    let forked = service.post(&at(&other, "fork"), json!({})).await;
    assert_eq!(forked["succeeded"][0]["readOnly"], true);
}

#[tokio::test]
async fn a_parked_workspace_has_its_files_again_when_it_is_resumed() {
    let changed = Changed::start().await;
    let service = &changed.service;
    for _ in 0..2 {
        let parked = service
            .expect(Method::POST, &changed.at("park"), None, 200)
            .await;
        assert_eq!(parked["state"], "parked", "{parked}");
        assert!(parked["path"].is_null() && parked["expiresAt"].is_null());
    }
    assert!(!changed.ws.path.exists());
    for (method, what) in [
        (Method::GET, "diff"),
        (Method::POST, "snapshot"),
        (Method::POST, "fork"),
        (Method::GET, "archive"),
    ] {
        let refused = service.expect(method, &changed.at(what), None, 409).await;
        assert_eq!(refused["error"]["name"], "WORKSPACE_PARKED", "{what}");
    }
    for _ in 0..2 {
        let resumed = service
            .expect(Method::POST, &changed.at("resume"), None, 200)
            .await;
        assert_eq!(resumed["state"], "live", "{resumed}");
        assert_eq!(read(&ws_of(&resumed), "new"), "three\n");
    }
    let diff = service.get(&changed.at("diff")).await;
    assert_eq!(changes(&diff), ["added new", "changed old"]);
}

#[tokio::test]
async fn a_sandbox_uses_an_existing_workspace_with_or_without_a_directory() {
    let changed = Changed::start().await;
    let service = &changed.service;
    let wish = json!({"template": "base", "workspace": {"existing": changed.ws.id}});
    let made = service.post("/api/v1/sandboxes", wish.clone()).await;
    let sandbox = made["id"].as_str().unwrap().to_owned();
    assert_eq!(changed.get().await["sandbox"], made["id"]);
    assert_eq!(service.output_of(&sandbox, "cat new").await, "three\n");
    let second = service
        .expect(Method::POST, "/api/v1/sandboxes", Some(wish.clone()), 409)
        .await;
    assert_eq!(second["error"]["name"], "WORKSPACE_IN_USE");
    for what in ["park", "resume"] {
        let busy = service
            .expect(Method::POST, &changed.at(what), None, 409)
            .await;
        assert_eq!(busy["error"]["name"], "WORKSPACE_IN_USE", "{what}");
    }
    let taken = service.post(&changed.at("snapshot"), json!({})).await;
    assert_eq!(taken["isNew"], true);
    let diff = service.get(&changed.at("diff")).await;
    assert_eq!(changes(&diff), ["added new", "changed old"]);
    let of_sandbox = format!("/api/v1/sandboxes/{sandbox}/diff");
    assert_eq!(service.get(&of_sandbox).await, diff);
    let forked = service.post(&changed.at("fork"), json!({})).await;
    assert_eq!(read(&ws_of(&forked["succeeded"][0]), "new"), "three\n");
    let url = format!("/api/v1/sandboxes/{sandbox}?keep_workspace=true");
    service.expect(Method::DELETE, &url, None, 204).await;
    assert_eq!(changed.get().await["state"], "parked");
    service.post("/api/v1/sandboxes", wish).await;
}

#[tokio::test]
async fn a_workspace_is_as_before_if_its_new_sandbox_does_not_start() {
    let changed = Changed::start().await;
    let service = &changed.service;
    service.expect_complaint("an injected fault");
    let engine = service.simulated();
    for state in ["live", "parked"] {
        if state == "parked" {
            let url = changed.at("park");
            service.expect(Method::POST, &url, None, 200).await;
        }
        let before = changed.get().await;
        let hold = engine.hold(Call::Create);
        let wish = json!({"template": "base", "name": state,
            "workspace": {"existing": changed.ws.id}});
        let request = service.request(Method::POST, "/api/v1/sandboxes");
        let creating = tokio::spawn(request.json(&wish).send());
        let sandbox = loop {
            let path = format!("/api/v1/sandboxes/{state}");
            let request = service.request(Method::GET, &path);
            let found = request.send().await.unwrap();
            if found.status() == 200 {
                let found: Value = found.json().await.unwrap();
                break found["id"].as_str().unwrap().to_owned();
            }
            tokio::task::yield_now().await;
        };
        engine.fail(Call::Start, &sandbox, 1);
        drop(hold);
        let response = creating.await.unwrap().unwrap();
        assert_eq!(response.status(), 502);
        let refused: Value = response.json().await.unwrap();
        assert_eq!(refused["error"]["name"], "SANDBOX_START_FAILED");
        let after = changed.get().await;
        for field in ["state", "path", "expiresAt", "sandbox"] {
            assert_eq!(after[field], before[field], "{field}: {after}");
        }
    }
}

#[tokio::test]
async fn a_workspace_without_a_project_is_forked_and_resumed_without_a_sandbox() {
    let service = Service::start().await;
    let id = service.sandbox().await;
    service.output_of(&id, "echo mine > file").await;
    let url = format!("/api/v1/sandboxes/{id}?keep_workspace=true");
    service.expect(Method::DELETE, &url, None, 204).await;
    let url = format!("{WORKSPACES}/{id}");
    let resumed = service
        .expect(Method::POST, &format!("{url}/resume"), None, 200)
        .await;
    let resumed = ws_of(&resumed);
    assert_eq!(read(&resumed, "file"), "mine\n");
    let diff = service.get(&format!("{url}/diff")).await;
    assert_eq!(changes(&diff), ["added file"]);
    let forked = service.post(&format!("{url}/fork"), json!({})).await;
    let fork = ws_of(&forked["succeeded"][0]);
    fs::write(fork.path.join("file"), "other\n").unwrap();
    assert_eq!(read(&resumed, "file"), "mine\n");
    let removed = format!("{WORKSPACES}/{}", fork.id);
    service.expect(Method::DELETE, &removed, None, 204).await;
}

#[tokio::test]
async fn the_scope_depends_on_the_kind_of_the_workspace() {
    let changed = Changed::start().await;
    let service = &changed.service;
    let wish = json!({"name": "few", "scopes": ["sandboxes:read", "sandboxes:write"]});
    let key = service.post("/api/v1/keys", wish).await;
    let key = key["secret"].as_str().unwrap();
    for (method, what) in [
        (Method::GET, "diff"),
        (Method::POST, "snapshot"),
        (Method::POST, "fork"),
        (Method::POST, "park"),
        (Method::POST, "resume"),
        (Method::GET, "archive"),
    ] {
        let denied = service
            .expect_as(key, method, &changed.at(what), None, 403)
            .await;
        assert_eq!(denied["error"]["name"], "FORBIDDEN", "{what}");
    }
}

#[tokio::test]
async fn an_agent_does_not_find_the_workspace_of_another() {
    let changed = Changed::start().await;
    let service = &changed.service;
    let (_, key) = agent(service, "one").await;
    for (method, what) in [
        (Method::GET, "diff"),
        (Method::POST, "snapshot"),
        (Method::POST, "fork"),
        (Method::POST, "park"),
    ] {
        let missing = service
            .expect_as(&key, method, &changed.at(what), None, 404)
            .await;
        assert_eq!(missing["error"]["name"], "WORKSPACE_NOT_FOUND", "{what}");
    }
}

/// Interrupts a park between its two steps: the row is parked, and the directory
/// still exists.
#[tokio::test]
async fn an_interrupted_park_loses_nothing() {
    let changed = Changed::start().await;
    let service = &changed.service;
    let id = &changed.ws.id;
    service
        .sql(&format!(
            "UPDATE workspaces SET state = 'parked' WHERE id = '{id}'"
        ))
        .await;
    let resumed = service
        .expect(Method::POST, &changed.at("resume"), None, 200)
        .await;
    let resumed = ws_of(&resumed);
    assert_eq!(read(&resumed, "new"), "three\n");
}
