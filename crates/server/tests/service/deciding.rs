//! Decisions on several reviews in one request.

use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::Service;
use crate::shared::{file, merge, project, workspace, write};

const RESOLVE: &str = "/api/v1/reviews/resolve";

/// Creates a project with reviews of `core/0` and so on; returns its id and
/// theirs.
async fn held(service: &Service, count: usize) -> (String, Vec<String>) {
    let rules = json!({"rules": [{"pattern": "core/**", "merge": "review"}]});
    let project = project(service, rules, &[("file", "one")]).await;
    let ws = workspace(service, json!({"project": project})).await;
    for number in 0..count {
        write(&ws, &format!("core/{number}"), "theirs\n");
    }
    let held = merge(service, &ws).await;
    let mut reviews: Vec<_> = held["conflicts"].as_array().unwrap().clone();
    reviews.sort_by_key(|conflict| conflict["path"].to_string());
    let id = |conflict: &Value| conflict["reviewId"].as_str().unwrap().to_owned();
    (project, reviews.iter().map(id).collect())
}

#[tokio::test]
async fn each_of_several_decisions_is_carried_out_separately() {
    let service = Service::start().await;
    let (project, reviews) = held(&service, 4).await;
    let wish = json!({"items": [
        {"id": reviews[0], "take": "workspace"},
        {"id": "rev-none", "take": "workspace"},
        {"id": reviews[1], "take": "edited", "content": "edited\n", "message": "mine"},
        {"id": reviews[2], "take": "nothing"},
        {"id": reviews[0], "take": "nothing"},
        {"id": "not an id", "take": "project"},
    ]});
    let done = service.expect(Method::POST, RESOLVE, Some(wish), 200).await;
    let list = |name: &str, field: &str| -> Vec<Value> {
        let items = done[name].as_array().unwrap().iter();
        items.map(|item| item[field].clone()).collect()
    };
    assert_eq!(list("succeeded", "id"), reviews[..3], "{done}");
    let states = ["resolved", "resolved", "rejected"];
    assert_eq!(list("succeeded", "state"), states, "{done}");
    let failed = ["rev-none", &reviews[0], "not an id"];
    assert_eq!(list("failed", "id"), failed, "{done}");
    let names = list("failed", "error").into_iter();
    let names: Vec<_> = names.map(|error| error["name"].clone()).collect();
    let expected = ["REVIEW_NOT_FOUND", "REVIEW_CLOSED", "REVIEW_NOT_FOUND"];
    assert_eq!(names, expected, "{done}");
    for (path, content) in [
        ("core/0", Some("theirs\n")),
        ("core/1", Some("edited\n")),
        ("core/2", None),
        ("core/3", None),
    ] {
        let found = file(&service, &project, path).await;
        assert_eq!(found.as_deref(), content, "{path}");
    }
    let open = service.get("/api/v1/reviews?state=open").await;
    assert_eq!(open["items"].as_array().unwrap().len(), 1, "{open}");
}

#[tokio::test]
async fn a_retry_of_several_decisions_changes_nothing() {
    let service = Service::start().await;
    let (project, reviews) = held(&service, 2).await;
    let items: Vec<_> = reviews
        .iter()
        .map(|id| json!({"id": id, "take": "workspace"}))
        .collect();
    let send = async || {
        let request = service.request(Method::POST, RESOLVE);
        let request = request.header("Idempotency-Key", "key");
        let answer = request.json(&json!({"items": items})).send().await.unwrap();
        assert_eq!(answer.status(), 200);
        answer.json::<Value>().await.unwrap()
    };
    let first = send().await;
    assert_eq!(first["succeeded"].as_array().unwrap().len(), 2, "{first}");
    assert_eq!(send().await, first);
    let log = service
        .get(&format!("/api/v1/projects/{project}/steps"))
        .await;
    let steps = log["items"].as_array().unwrap().iter();
    let decided = steps.filter(|step| step["kind"] == "resolve").count();
    assert_eq!(decided, 2, "{log}");
}

#[tokio::test]
async fn rejects_more_than_fifty_decisions_and_keys_without_the_scope() {
    let service = Service::start().await;
    let many = vec![json!({"id": "rev-none", "take": "project"}); 51];
    let wish = Some(json!({"items": many}));
    let refused = service.expect(Method::POST, RESOLVE, wish, 400).await;
    assert_eq!(refused["error"]["name"], "INVALID_REQUEST");
    // The contents of several files fit into one request.
    let large = json!({"id": "rev-none", "take": "edited", "content": "x".repeat(3 << 20)});
    let wish = Some(json!({"items": [large]}));
    let done = service.expect(Method::POST, RESOLVE, wish, 200).await;
    assert_eq!(done["failed"][0]["error"]["name"], "REVIEW_NOT_FOUND");
    let made = service.post("/api/v1/keys", json!({"name": "plain"})).await;
    let key = made["secret"].as_str().unwrap();
    let wish = Some(json!({"items": []}));
    let denied = service.expect_as(key, Method::POST, RESOLVE, wish, 403);
    assert_eq!(denied.await["error"]["name"], "FORBIDDEN");
}
