//! Every list has the same pages: `limit` and `cursor`, `items` and `next`.

use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::Service;

/// Returns the paths of all lists in the description of the API.
fn lists() -> Vec<(String, Value)> {
    let api: Value = serde_json::from_str(&elevo_server::openapi_json()).unwrap();
    let schemas = &api["components"]["schemas"];
    let mut lists = Vec::new();
    for (path, methods) in api["paths"].as_object().unwrap() {
        let json = &methods["get"]["responses"]["200"]["content"]["application/json"];
        let Some(schema) = json["schema"]["$ref"].as_str() else {
            continue;
        };
        let schema = &schemas[schema.rsplit('/').next().unwrap()];
        if schema["properties"].get("items").is_some() {
            let operation = methods["get"].clone();
            lists.push((path.clone(), json!({"get": operation, "schema": schema})));
        }
    }
    lists
}

#[test]
fn every_list_is_described_with_the_same_parameters() {
    let lists = lists();
    assert!(lists.len() > 12, "{}", lists.len());
    for (path, list) in lists {
        let parameters = list["get"]["parameters"].as_array().unwrap();
        for name in ["limit", "cursor"] {
            let found = parameters.iter().any(|it| it["name"] == name);
            assert!(found, "{path} has no `{name}`");
        }
        for name in ["after", "before"] {
            let found = parameters.iter().any(|it| it["name"] == name);
            assert!(!found, "{path} has `{name}`");
        }
        let properties = &list["schema"]["properties"];
        assert!(properties.get("next").is_some(), "{path} has no `next`");
    }
}

/// Requests all pages with one item each.
async fn walk(service: &Service, path: &str) -> Vec<Value> {
    let (mut items, mut query) = (Vec::new(), "limit=1".to_owned());
    loop {
        let page = service.get(&format!("{path}?{query}")).await;
        let found = page["items"].as_array().unwrap();
        assert!(found.len() <= 1, "{page}");
        items.extend(found.iter().map(name));
        match page["next"].as_str() {
            Some(next) => query = format!("limit=1&cursor={next}"),
            None => return items,
        }
    }
}

/// The part of an item that does not change between two requests.
fn name(item: &Value) -> Value {
    let fields = ["id", "name", "commandId", "path", "number"];
    let found = fields.iter().find_map(|field| item.get(field));
    found.unwrap_or_else(|| panic!("{item}")).clone()
}

#[tokio::test]
async fn pages_of_one_item_have_every_item_once() {
    let service = Service::start().await;
    let made = service
        .post("/api/v1/projects", json!({"name": "site"}))
        .await;
    let project = made["id"].as_str().unwrap();
    for name in ["one", "two", "three"] {
        let files = json!({"files": [{"path": name, "content": name}]});
        let at = format!("/api/v1/projects/{project}");
        service
            .expect(Method::POST, &format!("{at}/apply"), Some(files), 200)
            .await;
        service
            .post(&format!("{at}/tags"), json!({"name": name}))
            .await;
        service
            .post("/api/v1/projects", json!({"name": name}))
            .await;
        service.post("/api/v1/agents", json!({"name": name})).await;
        service.post("/api/v1/keys", json!({"name": name})).await;
        service.post("/api/v1/tenants", json!({"name": name})).await;
        let wish = json!({"project": project, "name": name});
        service.post("/api/v1/workspaces", wish).await;
    }
    let mut sandbox = String::new();
    for _ in 0..3 {
        let made = service
            .post("/api/v1/sandboxes", json!({"template": "base"}))
            .await;
        sandbox = made["id"].as_str().unwrap().to_owned();
    }
    for _ in 0..3 {
        service.run_in(&sandbox, "true").await;
    }
    let of_project = |rest: &str| format!("/api/v1/projects/{project}/{rest}");
    let lists = [
        "/api/v1/projects".to_owned(),
        of_project("tags"),
        of_project("steps"),
        of_project("files/list"),
        "/api/v1/agents".into(),
        "/api/v1/keys".into(),
        "/api/v1/tenants".into(),
        "/api/v1/templates".into(),
        "/api/v1/workspaces".into(),
        "/api/v1/sandboxes".into(),
        format!("/api/v1/sandboxes/{sandbox}/process"),
    ];
    for list in lists {
        let whole = service.get(&format!("{list}?limit=100")).await;
        assert!(whole["next"].is_null(), "{list}: {whole}");
        let whole = whole["items"].as_array().unwrap();
        let whole: Vec<_> = whole.iter().map(name).collect();
        assert!(!whole.is_empty(), "{list}");
        assert_eq!(walk(&service, &list).await, whole, "{list}");
    }
}

#[tokio::test]
async fn a_cursor_that_the_server_did_not_write_is_rejected() {
    let service = Service::start().await;
    let made = service
        .post("/api/v1/projects", json!({"name": "site"}))
        .await;
    let project = made["id"].as_str().unwrap();
    for list in [
        "agents?".to_owned(),
        "keys?".into(),
        "tenants?".into(),
        "projects?".into(),
        "workspaces?".into(),
        "reviews?".into(),
        "sandboxes?".into(),
        format!("projects/{project}/steps?"),
        format!("projects/{project}/files/list?"),
        format!("projects/{project}/history?path=a&"),
        format!("projects/{project}/steps/1/changes?"),
    ] {
        let path = format!("/api/v1/{list}cursor=!");
        let refused = service.expect(Method::GET, &path, None, 400).await;
        let message = refused["error"]["message"].as_str().unwrap();
        assert_eq!(message, "`cursor` is not a valid cursor", "{list}");
    }
    let path = "/api/v1/sandboxes?page=2&cursor=1_sbx-a";
    service.expect(Method::GET, path, None, 400).await;
}
