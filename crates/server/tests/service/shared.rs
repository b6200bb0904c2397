//! A project and its workspaces, for tests.

use std::fs;
use std::path::PathBuf;

use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::Service;

/// Creates a project with files in it; returns its id.
pub(crate) async fn project(service: &Service, policy: Value, files: &[(&str, &str)]) -> String {
    let made = json!({"name": "shared", "policy": policy});
    let made = service.post("/api/v1/projects", made).await;
    let id = made["id"].as_str().unwrap().to_owned();
    let ws = workspace(service, json!({"project": id})).await;
    for (path, content) in files {
        write(&ws, path, content);
    }
    let done = complete(service, &ws).await;
    assert_eq!(done["conflictCount"], 0, "{done}");
    id
}

pub(crate) struct Ws {
    pub(crate) id: String,
    pub(crate) path: PathBuf,
}

pub(crate) async fn workspace(service: &Service, wish: Value) -> Ws {
    let made = service.post("/api/v1/workspaces", wish).await;
    Ws {
        id: made["id"].as_str().unwrap().to_owned(),
        path: made["path"].as_str().unwrap().into(),
    }
}

pub(crate) fn write(ws: &Ws, path: &str, content: &str) {
    let path = ws.path.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content).unwrap();
}

pub(crate) fn read(ws: &Ws, path: &str) -> String {
    fs::read_to_string(ws.path.join(path)).unwrap()
}

pub(crate) async fn merge(service: &Service, ws: &Ws) -> Value {
    service
        .expect(
            Method::POST,
            &at(ws, "merge"),
            Some(json!({"message": "work"})),
            200,
        )
        .await
}

pub(crate) async fn complete(service: &Service, ws: &Ws) -> Value {
    service
        .expect(Method::POST, &at(ws, "complete"), None, 200)
        .await
}

pub(crate) fn at(ws: &Ws, what: &str) -> String {
    format!("/api/v1/workspaces/{}/{what}", ws.id)
}

pub(crate) async fn file(service: &Service, project: &str, path: &str) -> Option<String> {
    let url = format!("/api/v1/projects/{project}/files?path={path}");
    let answer = service.request(Method::GET, &url).send().await.unwrap();
    match answer.status().as_u16() {
        200 => Some(answer.text().await.unwrap()),
        _ => None,
    }
}

pub(crate) async fn agent(service: &Service, name: &str) -> (String, String) {
    let made = service.post("/api/v1/agents", json!({"name": name})).await;
    let id = made["id"].as_str().unwrap().to_owned();
    let wish = json!({"name": name, "agent": id, "scopes":
        ["projects:read", "projects:write", "reviews", "files", "sandboxes:read", "sandboxes:write"]});
    let key = service.post("/api/v1/keys", wish).await;
    (id, key["secret"].as_str().unwrap().to_owned())
}

pub(crate) fn paths(list: &Value) -> Vec<String> {
    let list = list.as_array().unwrap().iter();
    list.map(|item| item["path"].as_str().unwrap().to_owned())
        .collect()
}
