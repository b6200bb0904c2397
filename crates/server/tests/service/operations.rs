//! Every operation of the description succeeds with a good key.
//!
//! `routes` calls every operation without a key and with keys of others.

use std::collections::BTreeSet;

use elevo_testkit::docker;
use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};

use crate::harness::Service;

/// Calls operations, and keeps their names.
struct Caller {
    service: Service,
    called: BTreeSet<(String, String)>,
}

impl Caller {
    /// Builds a request for the operation with this method and path, with values
    /// for the parameters of the path.
    fn request(&mut self, operation: &str, values: &[&str], query: &str) -> RequestBuilder {
        let (method, path) = operation.split_once(' ').unwrap();
        let key = (method.to_lowercase(), format!("/api/v1/{path}"));
        self.called.insert(key);
        let mut values = values.iter();
        let parts = path.split('/').map(|part| match part.starts_with('{') {
            true => (*values.next().unwrap()).to_owned(),
            false => part.to_owned(),
        });
        let path = parts.collect::<Vec<_>>().join("/");
        let method: Method = method.parse().unwrap();
        self.service
            .request(method, &format!("/api/v1/{path}?{query}"))
    }

    /// Calls an operation and returns the JSON of its response.
    async fn call(&mut self, operation: &str, values: &[&str], body: Value) -> Value {
        let request = self.request(operation, values, "");
        let request = match body.is_null() {
            true => request,
            false => request.json(&body),
        };
        self.send(operation, request).await
    }

    /// Calls an operation that reads something.
    async fn read(&mut self, operation: &str, values: &[&str], query: &str) -> Value {
        let request = self.request(operation, values, query);
        self.send(operation, request).await
    }

    /// Begins to read a stream without an end.
    async fn begin(&mut self, operation: &str, id: &str) {
        let request = self.request(operation, &[id], "");
        let mut response = request.send().await.unwrap();
        assert_eq!(response.status(), 200, "{operation}");
        assert!(response.chunk().await.unwrap().is_some(), "{operation}");
    }

    async fn send(&self, operation: &str, request: RequestBuilder) -> Value {
        let response = request.send().await.unwrap();
        let status = response.status();
        let text = response.text().await.unwrap_or_default();
        assert!(status.is_success(), "{operation}: {status} {text}");
        serde_json::from_str(&text).unwrap_or_default()
    }
}

fn text(value: &Value) -> String {
    let text = value.as_str();
    text.unwrap_or_else(|| panic!("{value}")).to_owned()
}

/// An archive with one file.
fn archive() -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    let mut header = tar::Header::new_gnu();
    header.set_size(5);
    header.set_mode(0o644);
    builder
        .append_data(&mut header, "packed", &b"text\n"[..])
        .unwrap();
    builder.into_inner().unwrap()
}

async fn keys_and_tenants(caller: &mut Caller) {
    caller
        .call("POST agents", &[], json!({"name": "ada"}))
        .await;
    caller.read("GET agents", &[], "").await;
    let key = caller.call("POST keys", &[], json!({"name": "k"})).await;
    caller.read("GET keys", &[], "limit=1").await;
    caller
        .call("DELETE keys/{id}", &[&text(&key["id"])], Value::Null)
        .await;
    caller
        .call("POST tenants", &[], json!({"name": "other"}))
        .await;
    caller.read("GET tenants", &[], "").await;
    let change = json!({"suspended": true});
    caller.call("PATCH tenants/{id}", &["other"], change).await;
    caller.read("GET me", &[], "").await;
    caller.read("GET info", &[], "").await;
    caller.read("GET stats", &[], "").await;
    caller.read("GET gc", &[], "").await;
    caller.call("POST gc", &[], json!({"dryRun": true})).await;
    let image = caller.service.image();
    let template = json!({"name": "mine", "image": image});
    caller.call("POST templates", &[], template).await;
    let load = caller.request("PUT templates/{name}/archive", &["loaded"], "");
    let load = load.body(docker::image_archive("elevo-test/loaded:1"));
    let loaded = caller.send("PUT templates/{name}/archive", load).await;
    assert_eq!(loaded["image"], "elevo-test/loaded:1");
    caller.read("GET templates", &[], "").await;
    caller
        .call("DELETE templates/{name}", &["mine"], Value::Null)
        .await;
}

async fn projects(caller: &mut Caller) {
    let wish = json!({"name": "site", "policy": {"rules":
        [{"pattern": "core/**", "merge": "review"}]}});
    caller.call("POST projects", &[], wish).await;
    caller.read("GET projects", &[], "").await;
    caller.read("GET projects/{id}", &["site"], "").await;
    let change = json!({"description": "pages"});
    caller.call("PATCH projects/{id}", &["site"], change).await;
    let policy = caller.read("GET projects/{id}/policy", &["site"], "").await;
    let policy = json!({"policy": policy["policy"]});
    caller
        .call("PUT projects/{id}/policy", &["site"], policy)
        .await;
    for content in ["one\n", "two\n"] {
        let files = json!({"files": [{"path": "page", "content": content}]});
        caller
            .call("POST projects/{id}/apply", &["site"], files)
            .await;
    }
    let steps = caller.read("GET projects/{id}/steps", &["site"], "").await;
    let newest = text(&steps["items"][0]["snapshot"]);
    let first = text(&steps["items"][1]["snapshot"]);
    let one = ["site", "1"];
    caller
        .read("GET projects/{id}/steps/{step}", &one, "")
        .await;
    caller
        .read("GET projects/{id}/steps/{step}/changes", &one, "path=page")
        .await;
    for (what, query) in [
        ("history", "path=page"),
        ("blame", "path=page"),
        ("files", "path=page"),
        ("files/list", ""),
        ("diff", "format=stat"),
        ("archive", ""),
    ] {
        caller
            .read(&format!("GET projects/{{id}}/{what}"), &["site"], query)
            .await;
    }
    let upload = caller.request("PUT projects/{id}/archive", &["site"], "path=packed");
    let upload = upload.body(archive());
    caller.send("PUT projects/{id}/archive", upload).await;
    let snapshot = json!({"snapshot": newest});
    caller
        .call("POST projects/{id}/revert", &["site"], snapshot.clone())
        .await;
    let restore = json!({"snapshot": newest, "path": "page"});
    caller
        .call("POST projects/{id}/restore", &["site"], restore)
        .await;
    let tag = json!({"name": "v1", "snapshot": first});
    caller.call("POST projects/{id}/tags", &["site"], tag).await;
    caller.read("GET projects/{id}/tags", &["site"], "").await;
    caller
        .call(
            "DELETE projects/{id}/tags/{name}",
            &["site", "v1"],
            Value::Null,
        )
        .await;
    let import = caller.request("POST snapshots", &[], "").body(archive());
    let imported = caller.send("POST snapshots", import).await;
    let snapshot = json!({"snapshot": imported["id"]});
    caller
        .call("POST projects/{id}/import", &["site"], snapshot)
        .await;
    caller
        .call("POST projects", &[], json!({"name": "old"}))
        .await;
    caller
        .call("DELETE projects/{id}", &["old"], Value::Null)
        .await;
}

/// Creates a workspace on the project; returns its directory.
/// Calls the operations on single files of a sandbox or a workspace.
async fn files(caller: &mut Caller, base: &str, id: &str) {
    let operation = |method: &str, what: &str| format!("{method} {base}/{{id}}/files{what}");
    let put = operation("PUT", "");
    let upload = caller.request(&put, &[id], "path=single/file&mode=0600");
    caller.send(&put, upload.body("text")).await;
    let get = operation("GET", "");
    caller.read(&get, &[id], "path=single/file").await;
    let list = operation("GET", "/list");
    let page = caller.read(&list, &[id], "path=single&limit=1").await;
    assert_eq!(page["items"][0]["mode"], "0600", "{page}");
    let wish = json!({"from": "single/file", "to": "single/moved", "overwrite": true});
    caller.call(&operation("POST", "/move"), &[id], wish).await;
    let wish = json!({"path": "single/directory", "mode": "0700", "parents": false});
    caller.call(&operation("POST", "/mkdir"), &[id], wish).await;
    let delete = operation("DELETE", "");
    caller
        .read(&delete, &[id], "path=single&recursive=true")
        .await;
}

async fn workspace(caller: &mut Caller, name: &str) -> std::path::PathBuf {
    let wish = json!({"project": "site", "name": name});
    let made = caller.call("POST workspaces", &[], wish).await;
    text(&made["path"]).into()
}

async fn workspaces(caller: &mut Caller) {
    let path = workspace(caller, "fix").await;
    std::fs::write(path.join("page"), "fixed\n").unwrap();
    caller.read("GET workspaces", &[], "project=site").await;
    caller.read("GET workspaces/{id}", &["fix"], "").await;
    caller.read("GET workspaces/{id}/diff", &["fix"], "").await;
    caller
        .read("GET workspaces/{id}/archive", &["fix"], "path=page")
        .await;
    caller.begin("GET workspaces/{id}/files/watch", "fix").await;
    let upload = caller.request("PUT workspaces/{id}/archive", &["fix"], "path=");
    let upload = upload.body(archive());
    caller.send("PUT workspaces/{id}/archive", upload).await;
    files(caller, "workspaces", "fix").await;
    let wish = json!({"name": "fixed"});
    let taken = caller
        .call("POST workspaces/{id}/snapshot", &["fix"], wish)
        .await;
    let snapshot = json!({"snapshot": "fixed"});
    caller
        .call("POST workspaces/{id}/restore", &["fix"], snapshot)
        .await;
    caller.read("GET snapshots", &[], "name_prefix=fix").await;
    caller.read("GET snapshots/{id}", &["fixed"], "").await;
    for (what, query) in [("files", "path=page"), ("files/list", ""), ("archive", "")] {
        let operation = format!("GET snapshots/{{id}}/{what}");
        caller.read(&operation, &["fixed"], query).await;
    }
    let id = text(&taken["id"]);
    caller
        .read("GET snapshots/diff", &[], &format!("from={id}&to=fixed"))
        .await;
    let change = json!({"name": null});
    caller
        .call("PATCH snapshots/{id}", &["fixed"], change)
        .await;
    let wish = json!({"name": "idea"});
    caller
        .call("POST workspaces/{id}/fork", &["fix"], wish)
        .await;
    for what in ["park", "resume", "refresh"] {
        let operation = format!("POST workspaces/{{id}}/{what}");
        caller.call(&operation, &["fix"], Value::Null).await;
    }
    let wish = json!({"workspaces": ["idea"]});
    caller
        .call("POST projects/{id}/merge", &["site"], wish)
        .await;
    caller
        .call("DELETE workspaces/{id}", &["idea"], Value::Null)
        .await;
    caller
        .call("POST workspaces/{id}/merge", &["fix"], Value::Null)
        .await;
    caller
        .call("POST workspaces/{id}/complete", &["fix"], Value::Null)
        .await;
}

async fn reviews(caller: &mut Caller) {
    let path = workspace(caller, "held").await;
    std::fs::create_dir(path.join("core")).unwrap();
    for name in ["a", "b"] {
        std::fs::write(path.join("core").join(name), "held\n").unwrap();
    }
    let merged = caller
        .call("POST workspaces/{id}/merge", &["held"], Value::Null)
        .await;
    let review = |at: usize| text(&merged["conflicts"][at]["reviewId"]);
    let (one, two) = (review(0), review(1));
    caller.read("GET reviews", &[], "workspace=held").await;
    caller.read("GET reviews/{id}", &[&one], "").await;
    caller
        .read("GET reviews/{id}/content", &[&one], "side=workspace")
        .await;
    let take = json!({"take": "workspace"});
    caller
        .call("POST reviews/{id}/resolve", &[&one], take)
        .await;
    let take = json!({"items": [{"id": two, "take": "nothing"}]});
    let decided = caller.call("POST reviews/resolve", &[], take).await;
    assert_eq!(decided["failed"], json!([]), "{decided}");
}

async fn sandboxes(caller: &mut Caller) {
    let wish = json!({"template": "base", "name": "box"});
    let made = caller.call("POST sandboxes", &[], wish).await;
    let id = text(&made["id"]);
    caller.read("GET sandboxes", &[], "name_prefix=bo").await;
    for what in ["", "/logs", "/stats", "/diff", "/archive"] {
        let operation = format!("GET sandboxes/{{id}}{what}");
        caller.read(&operation, &["box"], "").await;
    }
    let change = json!({"metadata": {"task": "1"}});
    caller.call("PATCH sandboxes/{id}", &["box"], change).await;
    let more = json!({"seconds": 1});
    caller
        .call("POST sandboxes/{id}/extend", &["box"], more)
        .await;
    caller.begin("GET sandboxes/{id}/files/watch", "box").await;
    let upload = caller.request("PUT sandboxes/{id}/archive", &["box"], "path=");
    let upload = upload.body(archive());
    caller.send("PUT sandboxes/{id}/archive", upload).await;
    files(caller, "sandboxes", "box").await;
    let wish = json!({"name": "state"});
    caller
        .call("POST sandboxes/{id}/snapshot", &["box"], wish)
        .await;
    let wish = json!({"snapshot": "state"});
    caller
        .call("POST sandboxes/{id}/restore", &["box"], wish)
        .await;
    let wish = json!({"name": "fork"});
    caller
        .call("POST sandboxes/{id}/fork", &["box"], wish)
        .await;
    let wish = json!({"ids": ["fork"]});
    caller.call("POST sandboxes/batch-delete", &[], wish).await;
    commands(caller, &id).await;
    for what in ["stop", "start"] {
        let operation = format!("POST sandboxes/{{id}}/{what}");
        caller.call(&operation, &["box"], Value::Null).await;
    }
    caller
        .call("DELETE sandboxes/{id}", &["box"], Value::Null)
        .await;
}

/// Calls the operations on commands and terminals of a sandbox.
async fn commands(caller: &mut Caller, id: &str) {
    let wish = json!({"command": "cat", "background": true, "openStdin": true,
        "commandId": "cat"});
    let wish = caller.service.inside(id, wish);
    caller
        .call("POST sandboxes/{id}/process/run", &["box"], wish)
        .await;
    caller
        .read("GET sandboxes/{id}/process", &["box"], "")
        .await;
    let of = ["box", "cat"];
    caller
        .read("GET sandboxes/{id}/process/{cmdId}", &of, "")
        .await;
    let input = json!({"data": "YQo="});
    caller
        .call("POST sandboxes/{id}/process/{cmdId}/input", &of, input)
        .await;
    caller
        .call("POST sandboxes/{id}/process/{cmdId}/kill", &of, json!({}))
        .await;
    // The stream ends with the command.
    caller
        .read("GET sandboxes/{id}/process/{cmdId}/output", &of, "")
        .await;
    let wish = caller.service.inside(id, json!({"cols": 80, "rows": 24}));
    let made = caller.call("POST sandboxes/{id}/pty", &["box"], wish).await;
    let pty = text(&made["id"]);
    let of = ["box", &*pty];
    let size = json!({"cols": 100, "rows": 30});
    caller
        .call("POST sandboxes/{id}/pty/{ptyId}/resize", &of, size)
        .await;
    let ticket = caller
        .call("POST tickets", &[], json!({"path": "/api/v1/events"}))
        .await;
    assert!(ticket["ticket"].is_string(), "{ticket}");
    let link = json!({"expiresIn": 60});
    let link = caller
        .call(
            "POST sandboxes/{id}/ports/{port}/link",
            &["box", "80"],
            link,
        )
        .await;
    assert!(text(&link["url"]).contains("/ports/80/"), "{link}");
    let program = crate::ports::program::Program::echo().await;
    let port = program.port.to_string();
    caller
        .read(
            "GET sandboxes/{id}/ports/{port}/{path}",
            &["box", &port, "page"],
            "",
        )
        .await;
    let operation = "GET sandboxes/{id}/pty/{ptyId}/ws";
    let upgrade = caller
        .request(operation, &of, "")
        .header("connection", "upgrade")
        .header("upgrade", "websocket")
        .header("sec-websocket-version", "13")
        .header("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ==");
    let response = upgrade.send().await.unwrap();
    assert_eq!(response.status(), 101);
    drop(response);
    caller
        .call("DELETE sandboxes/{id}/pty/{ptyId}", &of, Value::Null)
        .await;
}

async fn events(caller: &mut Caller) {
    caller.read("GET events", &[], "limit=1").await;
    let url = "https://example.com/hook";
    let wish = json!({"url": url, "kinds": ["workspace.refused"]});
    let made = caller.call("POST webhooks", &[], wish).await;
    let id = text(&made["id"]);
    caller.read("GET webhooks", &[], "").await;
    caller.read("GET webhooks/{id}", &[&id], "").await;
    let change = json!({"kinds": ["workspace.expired"]});
    caller.call("PATCH webhooks/{id}", &[&id], change).await;
    caller
        .call("POST webhooks/{id}/rotate", &[&id], json!({}))
        .await;
    caller
        .read("GET webhooks/{id}/deliveries", &[&id], "")
        .await;
    caller
        .call("DELETE webhooks/{id}", &[&id], Value::Null)
        .await;
}

/// Operations that other tests call with success.
const ELSEWHERE: [(&str, &str); 3] = [
    // `webhooks::` repeats a delivery, which needs a receiver.
    ("post", "/api/v1/webhooks/{id}/deliveries/{event}/replay"),
    // They need no key, and every start of a server waits for them.
    ("get", "/health"),
    ("get", "/ready"),
];

#[tokio::test]
async fn every_operation_succeeds_with_a_good_key() {
    let mut caller = Caller {
        service: Service::start().await,
        called: BTreeSet::new(),
    };
    keys_and_tenants(&mut caller).await;
    projects(&mut caller).await;
    workspaces(&mut caller).await;
    reviews(&mut caller).await;
    sandboxes(&mut caller).await;
    events(&mut caller).await;
    caller
        .call("DELETE agents/{id}", &["ada"], Value::Null)
        .await;
    // The erasure goes on in the background, and excludes garbage collection.
    caller
        .call("DELETE tenants/{id}", &["other"], Value::Null)
        .await;
    let api: Value = serde_json::from_str(&elevo_server::openapi_json()).unwrap();
    let mut missing = Vec::new();
    for (path, methods) in api["paths"].as_object().unwrap() {
        for method in methods.as_object().unwrap().keys() {
            let is_called = caller.called.contains(&(method.clone(), path.clone()));
            if !is_called && !ELSEWHERE.contains(&(method, path)) {
                missing.push(format!("{method} {path}"));
            }
        }
    }
    assert!(missing.is_empty(), "not called: {missing:#?}");
}
