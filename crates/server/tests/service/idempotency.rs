//! Requests with an `Idempotency-Key`: each is carried out once, even if its
//! response is lost.

mod batches;
mod sandboxes;

use std::process::Command;

use reqwest::Method;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use crate::harness::{KEY, Service, eventually};
use crate::shared::{Ws, agent, at, file, project, workspace, write};

/// A response, and whether it is a replayed one.
#[derive(Debug)]
struct Answered {
    status: u16,
    body: Value,
    is_replayed: bool,
}

async fn answered(request: reqwest::RequestBuilder) -> Answered {
    let answer = request.send().await.unwrap();
    let status = answer.status().as_u16();
    let is_replayed = answer.headers().contains_key("idempotency-replayed");
    let text = answer.text().await.unwrap();
    Answered {
        status,
        body: serde_json::from_str(&text).unwrap_or(Value::Null),
        is_replayed,
    }
}

async fn post(service: &Service, path: &str, key: &str, body: &Value) -> Answered {
    let request = service.request(Method::POST, path);
    answered(request.header("Idempotency-Key", key).json(body)).await
}

async fn post_as(service: &Service, secret: &str, path: &str, key: &str) -> Answered {
    let request = service.http.post(format!("{}{path}", service.url));
    let request = request.bearer_auth(secret).header("Idempotency-Key", key);
    answered(request).await
}

/// Prevents responses from being stored, as if the server had ended before it
/// could store them.
const NO_ANSWERS: &str = "CREATE TRIGGER no_answer BEFORE UPDATE OF status ON requests \
                          BEGIN SELECT RAISE(ABORT, 'no room for an answer'); END";

/// Reads or changes the catalog of a running server.
fn sql(service: &Service, statement: &str) -> String {
    let output = Command::new("sqlite3")
        .args(["-cmd", ".timeout 20000"])
        .arg(service.data.join("catalog.db"))
        .arg(statement)
        .output()
        .unwrap();
    assert!(output.status.success(), "{statement}: {output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    text.trim().to_owned()
}

/// Waits until the server has recorded that many requests with keys.
async fn begun(service: &Service, count: &str) {
    eventually("the request has begun", async || {
        sql(service, "SELECT count(*) FROM requests") == count
    })
    .await;
}

/// Sends the beginning of a request; the request breaks off when the stream is
/// dropped.
async fn begin(service: &Service, path: &str, key: &str, length: usize, body: &[u8]) -> TcpStream {
    let address = service.url.strip_prefix("http://").unwrap();
    let mut socket = TcpStream::connect(address).await.unwrap();
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {KEY}\r\n\
         content-type: application/json\r\nidempotency-key: {key}\r\n\
         content-length: {length}\r\n\r\n"
    );
    socket.write_all(head.as_bytes()).await.unwrap();
    socket.write_all(body).await.unwrap();
    socket
}

async fn workspace_of(service: &Service, secret: &str, project: &str) -> Ws {
    let wish = Some(json!({"project": project}));
    let made = service
        .expect_as(secret, Method::POST, "/api/v1/workspaces", wish, 201)
        .await;
    Ws {
        id: made["id"].as_str().unwrap().to_owned(),
        path: made["path"].as_str().unwrap().into(),
    }
}

#[tokio::test]
async fn equal_keys_of_two_agents_are_two_requests() {
    let service = Service::start_without_engine(&[]);
    let project = project(&service, json!({}), &[("base", "base")]).await;
    let (_, first) = agent(&service, "first").await;
    let (_, second) = agent(&service, "second").await;
    let a = workspace_of(&service, &first, &project).await;
    let b = workspace_of(&service, &second, &project).await;
    write(&a, "a", "of the first");
    write(&b, "b", "of the second");
    let merged = post_as(&service, &first, &at(&a, "merge"), "step-1").await;
    assert_eq!(merged.body["landedCount"], 1, "{merged:?}");
    let completed = post_as(&service, &second, &at(&b, "complete"), "step-1").await;
    assert_eq!(completed.status, 200, "{completed:?}");
    assert_eq!(completed.body["landedCount"], 1, "{completed:?}");
    let landed = file(&service, &project, "b").await;
    assert_eq!(landed.as_deref(), Some("of the second"));
    let path = format!("/api/v1/workspaces/{}", b.id);
    service.expect(Method::GET, &path, None, 404).await;
}

#[tokio::test]
async fn equal_keys_of_two_routes_are_two_requests() {
    let service = Service::start_without_engine(&[]);
    let project = project(&service, json!({}), &[]).await;
    let ws = workspace(&service, json!({"project": project})).await;
    write(&ws, "a", "one");
    let merged = post(&service, &at(&ws, "merge"), "step-1", &json!({})).await;
    assert_eq!(merged.body["landedCount"], 1, "{merged:?}");
    write(&ws, "b", "two");
    let completed = post(&service, &at(&ws, "complete"), "step-1", &json!({})).await;
    assert_eq!(completed.body["landedCount"], 1, "{completed:?}");
    let landed = file(&service, &project, "b").await;
    assert_eq!(landed.as_deref(), Some("two"));
}

#[tokio::test]
async fn a_merge_is_answered_again_as_it_was_the_first_time() {
    let service = Service::start_without_engine(&[]);
    let project = project(&service, json!({}), &[]).await;
    let ws = workspace(&service, json!({"project": project})).await;
    for what in ["merge", "complete"] {
        write(&ws, what, "content");
        let wish = json!({"message": what});
        let first = post(&service, &at(&ws, what), what, &wish).await;
        assert_eq!(first.body["landedCount"], 1, "{first:?}");
        assert!(!first.is_replayed, "{first:?}");
        // The second time the workspace of `complete` no longer exists.
        let second = post(&service, &at(&ws, what), what, &wish).await;
        assert_eq!((second.status, &second.body), (200, &first.body));
        assert!(second.is_replayed, "{second:?}");
        let other = post(&service, &at(&ws, what), what, &json!({"message": "x"})).await;
        assert_eq!(other.body["error"]["name"], "IDEMPOTENCY_MISMATCH");
    }
    let log = service
        .get(&format!("/api/v1/projects/{project}/steps"))
        .await;
    assert_eq!(log["items"].as_array().unwrap().len(), 2, "{log}");
}

#[tokio::test]
async fn a_rehearsal_does_not_use_up_its_key() {
    let service = Service::start_without_engine(&[]);
    let project = project(&service, json!({}), &[]).await;
    let ws = workspace(&service, json!({"project": project})).await;
    write(&ws, "a", "one");
    for what in ["merge", "complete"] {
        for _ in 0..2 {
            let dry = post(&service, &at(&ws, what), "key", &json!({"dryRun": true})).await;
            assert_eq!(dry.body["dryRun"], true, "{dry:?}");
        }
    }
    let merged = post(&service, &at(&ws, "merge"), "key", &json!({})).await;
    assert_eq!(merged.body["landedCount"], 1, "{merged:?}");
}

#[tokio::test]
async fn a_refused_request_can_be_sent_corrected() {
    let service = Service::start_without_engine(&[]);
    let bad = post(&service, "/api/v1/projects", "key", &json!({"name": ""})).await;
    assert_eq!(bad.status, 400, "{bad:?}");
    let good = post(&service, "/api/v1/projects", "key", &json!({"name": "p"})).await;
    assert_eq!(good.status, 201, "{good:?}");
}

/// Otherwise the key of the upload would count as in use for a day.
#[tokio::test]
async fn an_upload_that_breaks_off_leaves_its_key_free() {
    let service = Service::start_without_engine(&[]);
    let tar = tar(&[("file", b"content")]);
    let path = "/api/v1/snapshots";
    let upload = begin(&service, path, "upload", tar.len(), &tar[..600]).await;
    begun(&service, "1").await;
    drop(upload);
    eventually("the key is free", async || {
        let request = service.request(Method::POST, path);
        let request = request
            .header("Idempotency-Key", "upload")
            .body(tar.clone());
        let answer = answered(request).await;
        match answer.status {
            201 => true,
            409 => false,
            _ => panic!("{answer:?}"),
        }
    })
    .await;
}

/// A tar of files.
fn tar(files: &[(&str, &[u8])]) -> Vec<u8> {
    let mut tar = tar::Builder::new(Vec::new());
    for (path, content) in files {
        let mut header = tar::Header::new_gnu();
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        tar.append_data(&mut header, path, *content).unwrap();
    }
    tar.into_inner().unwrap()
}

/// Requests that create something, with the field of the response that identifies
/// it.
fn creates(project: &str, ws: &Ws, done: &Ws, head: &str) -> Vec<(String, Value, &'static str)> {
    let of_project = |what: &str| format!("/api/v1/projects/{project}/{what}");
    let files = json!([{"path": "applied", "content": "one"}]);
    let apply = json!({"files": files, "merge": {"message": "apply"}});
    let import = json!({"snapshot": head, "path": "imported", "message": "import"});
    let hook = json!({"url": "http://localhost:1/hook"});
    vec![
        ("/api/v1/projects".into(), json!({"name": "another"}), "id"),
        (
            "/api/v1/workspaces".into(),
            json!({"project": project}),
            "id",
        ),
        ("/api/v1/agents".into(), json!({"name": "agent"}), "id"),
        ("/api/v1/tenants".into(), json!({"name": "tenant"}), "id"),
        ("/api/v1/keys".into(), json!({"name": "key"}), "name"),
        ("/api/v1/webhooks".into(), hook, "id"),
        (of_project("apply"), apply, "step"),
        (of_project("import"), import, "step"),
        (of_project("tags"), json!({"name": "v1"}), "snapshot"),
        (at(ws, "merge"), json!({"message": "merge"}), "step"),
        (at(done, "complete"), json!({"message": "complete"}), "step"),
    ]
}

/// The server ends after it has carried out the request, and before it has stored
/// the response.
#[tokio::test]
async fn a_repetition_finds_what_a_killed_server_has_made() {
    let mut service = Service::start_without_engine(&[("WEBHOOK_ALLOW_PRIVATE", "true")]);
    service.expect_complaint("cannot store the outcome of a request");
    let project = project(&service, json!({}), &[("base", "base")]).await;
    let [ws, done] = [
        workspace(&service, json!({"project": project})).await,
        workspace(&service, json!({"project": project})).await,
    ];
    write(&ws, "merged", "one");
    write(&done, "completed", "one");
    let info = service.get(&format!("/api/v1/projects/{project}")).await;
    let head = info["head"].as_str().unwrap();
    let creates = creates(&project, &ws, &done, head);
    let policy = json!({"policy": {}, "expectedVersion": 1});
    let policy_path = format!("/api/v1/projects/{project}/policy");
    let put = async |service: &Service| {
        let request = service.request(Method::PUT, &policy_path);
        answered(request.header("Idempotency-Key", "put").json(&policy)).await
    };
    sql(&service, NO_ANSWERS);
    let mut first = Vec::new();
    for (path, body, _) in &creates {
        let answer = post(&service, path, "key", body).await;
        assert!(matches!(answer.status, 200 | 201), "{path}: {answer:?}");
        first.push(answer);
    }
    assert_eq!(put(&service).await.status, 200);
    service.kill();
    service.sql("DROP TRIGGER no_answer").await;
    service.run();
    for ((path, body, field), first) in creates.iter().zip(first) {
        for is_replayed in [false, true] {
            let again = post(&service, path, "key", body).await;
            assert_eq!(again.status, first.status, "{path}: {again:?}");
            assert_eq!(again.body[field], first.body[field], "{path}: {again:?}");
            assert_eq!(again.is_replayed, is_replayed, "{path}");
        }
    }
    let set = put(&service).await;
    assert_eq!(
        (set.status, &set.body["version"]),
        (200, &json!(2)),
        "{set:?}"
    );
    // The key was created twice, but only one of the two is valid.
    let keys = service.get("/api/v1/keys").await;
    let keys = keys["items"].as_array().unwrap().iter();
    let valid = keys.filter(|key| key["name"] == "key" && key["revokedAt"].is_null());
    assert_eq!(valid.count(), 1);
    let log = service
        .get(&format!("/api/v1/projects/{project}/steps"))
        .await;
    let mut messages: Vec<_> = log["items"].as_array().unwrap().iter().collect();
    messages.retain(|entry| entry["message"] != "");
    assert_eq!(messages.len(), 4, "each has landed once: {log}");
    for (path, expected) in [("projects", 2), ("workspaces", 2), ("webhooks", 1)] {
        let list = service.get(&format!("/api/v1/{path}")).await;
        let items = list["items"].as_array().unwrap();
        assert_eq!(items.len(), expected, "{path}: {list}");
    }
}

/// A killed server leaves the row of a workspace that it was creating.
#[tokio::test]
async fn a_workspace_without_a_directory_does_not_hide_the_others() {
    let service = Service::start_without_engine(&[]);
    let project = project(&service, json!({}), &[]).await;
    let ws = workspace(&service, json!({"project": project})).await;
    let lost = "ws-aaaaaaaaaaaaaaaa";
    sql(
        &service,
        &format!(
            "CREATE TEMP TABLE lost AS SELECT * FROM workspaces WHERE id = '{}'; \
             UPDATE lost SET id = '{lost}'; INSERT INTO workspaces SELECT * FROM lost;",
            ws.id
        ),
    );
    let list = service.get("/api/v1/workspaces").await;
    let items = list["items"].as_array().unwrap_or_else(|| panic!("{list}"));
    let path = |id: &str| {
        let mut items = items.iter();
        items.find(|item| item["id"] == *id).unwrap()["path"].clone()
    };
    assert_eq!(path(&ws.id), json!(ws.path));
    assert_eq!(path(lost), Value::Null);
    let lost = format!("/api/v1/workspaces/{lost}");
    service.expect(Method::DELETE, &lost, None, 204).await;
}
