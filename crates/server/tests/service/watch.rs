//! Watches of files.

use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::{Events, Service};

/// Opens a watch, and waits until all directories are watched.
async fn watch(service: &Service, path: &str) -> Events {
    let request = service.request(Method::GET, &format!("/api/v1/{path}"));
    let mut events = Events::new(request.send().await.unwrap());
    let (number, event) = next(&mut events).await;
    assert_eq!((number, &event["kind"]), (1, &json!("watching")), "{event}");
    events
}

async fn next(events: &mut Events) -> (u64, Value) {
    let next = tokio::time::timeout(Duration::from_secs(30), events.next());
    next.await.expect("an event").expect("a stream")
}

/// Returns the event as `KIND PATH`, with a slash after a directory.
fn text(event: &Value) -> String {
    let word = |name: &str| event[name].as_str().unwrap_or_default().to_owned();
    let end = if event["isDirectory"] == true {
        "/"
    } else {
        ""
    };
    format!("{} {}{end}", word("kind"), word("path"))
}

/// Reads events until the one that is wanted. Returns all of them.
async fn until(events: &mut Events, wanted: &str) -> Vec<String> {
    let mut seen = Vec::new();
    while seen.last().is_none_or(|last| last != wanted) {
        let next = tokio::time::timeout(Duration::from_secs(30), events.next()).await;
        let next = next.unwrap_or_else(|_| panic!("no `{wanted}` in {seen:?}"));
        seen.push(text(&next.expect("a stream").1));
    }
    seen
}

/// Reads events up to one of two. Returns that event.
async fn one_of(events: &mut Events, wanted: &[String; 2]) -> String {
    loop {
        let next = tokio::time::timeout(Duration::from_secs(30), events.next()).await;
        let next = next.unwrap_or_else(|_| panic!("none of {wanted:?}"));
        let next = text(&next.expect("a stream").1);
        if wanted.contains(&next) {
            return next;
        }
    }
}

fn tar(path: &str) -> Vec<u8> {
    let mut archive = tar::Builder::new(Vec::new());
    let mut header = tar::Header::new_gnu();
    header.set_size(4);
    header.set_mode(0o644);
    archive
        .append_data(&mut header, path, &b"text"[..])
        .unwrap();
    archive.into_inner().unwrap()
}

/// Changes files in all ways, and expects the events.
async fn notices_everything(service: &Service) {
    let id = service.sandbox().await;
    let run = async |command: &str| service.output_of(&id, command).await;
    // A directory of the snapshot below the workspace, which an overlay copies
    // when a file in it is changed.
    run("mkdir -p src/deep && echo one > src/deep/old && echo two > src/other").await;
    let at = |what: &str| format!("/api/v1/sandboxes/{id}/{what}");
    let wish = Some(json!({"message": "first"}));
    let taken = service
        .expect(Method::POST, &at("snapshot"), wish, 201)
        .await;
    let made = json!({"template": "base", "workspace": {"snapshot": taken["id"]}});
    let made = service.post("/api/v1/sandboxes", made).await;
    let id = made["id"].as_str().unwrap();
    let run = async |command: &str| service.output_of(id, command).await;
    let at = |what: &str| format!("/api/v1/sandboxes/{id}/{what}");

    let mut events = watch(service, &format!("sandboxes/{id}/files/watch")).await;
    let mut below = watch(
        service,
        &format!("sandboxes/{id}/files/watch?path=/workspace/src"),
    )
    .await;
    run("echo new > src/deep/new").await;
    until(&mut events, "created src/deep/new").await;
    until(&mut below, "created src/deep/new").await;
    run("echo more >> src/deep/old").await;
    until(&mut events, "changed src/deep/old").await;
    run("mkdir -p a/b/c && echo text > a/b/c/file").await;
    until(&mut events, "created a/b/c/file").await;
    run("mv a/b/c/file a/moved").await;
    until(&mut events, "deleted a/b/c/file").await;
    until(&mut events, "created a/moved").await;
    run("mv src/deep src/shallow; echo text > src/shallow/last").await;
    until(&mut events, "deleted src/deep/").await;
    until(&mut events, "created src/shallow/last").await;
    run("rm -r a").await;
    until(&mut events, "deleted a/").await;

    let upload = service.request(Method::PUT, &at("archive?path=up"));
    let answer = upload.body(tar("packed/file")).send().await.unwrap();
    assert_eq!(answer.status(), 204);
    until(&mut events, "created up/packed/file").await;

    let back = Some(json!({"snapshot": taken["id"]}));
    service
        .expect(Method::POST, &at("restore"), back, 200)
        .await;
    // The order of the changes of a restore is not defined.
    let mut restored = vec![
        "deleted up/",
        "created src/deep/old",
        "deleted src/shallow/",
    ];
    while !restored.is_empty() {
        let (_, event) = next(&mut events).await;
        assert_ne!(event["kind"], "gap");
        restored.retain(|wanted| *wanted != text(&event));
    }
    run("echo after > src/deep/after").await;
    until(&mut events, "created src/deep/after").await;
    let seen = until(&mut below, "created src/deep/after").await;
    assert!(!seen.iter().any(|event| event.contains("up/")), "{seen:?}");

    let mut home = watch(
        service,
        &format!("sandboxes/{id}/files/watch?path=/home/agent"),
    )
    .await;
    run("mkdir ~/tools; echo text > ~/tools/file").await;
    until(&mut home, "created /home/agent/tools/file").await;
}

#[tokio::test]
async fn a_watch_notices_all_changes() {
    notices_everything(&Service::start().await).await;
}

#[tokio::test]
async fn a_watch_of_a_workspace_notices_a_refresh_and_ends_when_it_is_parked() {
    let service = Service::start_without_engine(&[]);
    let project = json!({"name": "site"});
    service.post("/api/v1/projects", project).await;
    let apply = async |path: &str| {
        let files = json!({"files": [{"path": path, "content": "text"}]});
        service.post("/api/v1/projects/site/apply", files).await;
    };
    apply("src/one").await;
    let wish = json!({"project": "site", "name": "fix"});
    service.post("/api/v1/workspaces", wish).await;
    let mut events = watch(&service, "workspaces/fix/files/watch?path=src").await;
    apply("src/deep/two").await;
    service
        .post("/api/v1/workspaces/fix/refresh", json!({}))
        .await;
    until(&mut events, "created src/deep/two").await;
    let path = "/api/v1/workspaces/fix/files/watch";
    let park = async || {
        service.post("/api/v1/workspaces/fix/park", json!({})).await;
    };
    let end = rest(&service, path, park).await;
    assert!(
        end.contains("event: error") && end.contains("WORKSPACE_PARKED"),
        "{end}"
    );
}

#[tokio::test]
async fn a_watch_needs_a_directory_of_the_workspace_or_the_home() {
    let service = Service::start().await;
    let id = service.sandbox().await;
    service
        .output_of(
            &id,
            "echo text > file; ln -s /etc out; ln -s / up; mkdir in",
        )
        .await;
    for (path, status, name) in [
        ("none", 404, "PATH_NOT_FOUND"),
        ("out", 404, "PATH_NOT_FOUND"),
        ("up/etc", 404, "PATH_NOT_FOUND"),
        ("file", 409, "NOT_A_DIRECTORY"),
        ("/etc", 400, "INVALID_REQUEST"),
        ("/", 400, "INVALID_REQUEST"),
        ("../x", 400, "INVALID_REQUEST"),
        ("in/../..", 400, "INVALID_REQUEST"),
    ] {
        let path = format!("/api/v1/sandboxes/{id}/files/watch?path={path}");
        let refused = service.expect(Method::GET, &path, None, status).await;
        assert_eq!(refused["error"]["name"], name, "{path}");
    }
    let key = json!({"name": "guest", "scopes": ["process", "sandboxes:read"]});
    let key = service.post("/api/v1/keys", key).await;
    let path = format!("/api/v1/sandboxes/{id}/files/watch");
    let secret = key["secret"].as_str().unwrap();
    let denied = service.expect_as(secret, Method::GET, &path, None, 403);
    assert_eq!(denied.await["error"]["details"]["scope"], "files");

    service
        .output_of(&id, "mkdir many; cd many; seq 10001 | xargs mkdir")
        .await;
    let refused = service.expect(Method::GET, &path, None, 422).await;
    assert_eq!(refused["error"]["name"], "TOO_MANY_DIRECTORIES");
    // The other directories can be watched, and a tenant has some watches.
    let path = format!("sandboxes/{id}/files/watch?path=in");
    let mut watches = Vec::new();
    for _ in 0..16 {
        watches.push(watch(&service, &path).await);
    }
    let path = format!("/api/v1/{path}");
    let refused = service.expect(Method::GET, &path, None, 429).await;
    assert_eq!(refused["error"]["name"], "QUOTA_EXCEEDED");
    drop(watches);
    crate::harness::eventually("the watches end", async || {
        let answer = service.request(Method::GET, &path).send().await.unwrap();
        answer.status() == 200
    })
    .await;
}

#[tokio::test]
async fn a_client_that_stalls_gets_one_gap_and_then_later_changes() {
    let service = Service::start().await;
    let id = service.sandbox().await;
    service.output_of(&id, "mkdir busy").await;
    let mut events = watch(&service, &format!("sandboxes/{id}/files/watch")).await;
    // More events than fit into the buffers of the connection and the queue of
    // the kernel together, while this client reads nothing.
    let name = "n".repeat(200);
    let busy = format!(
        "cd busy; for round in 1 2 3; do n=0; while [ $n -lt 20000 ]; do : > {name}$n; \
         n=$((n+1)); done; find . -type f -delete; done; echo text > kept"
    );
    service.output_of(&id, &busy).await;
    let seen = until(&mut events, "gap ").await;
    assert!(seen.len() < 120_000, "{}", seen.len());
    // The list after the gap agrees with the files.
    assert_eq!(service.output_of(&id, "ls busy").await, "kept\n");
    // The queue may have overflowed again before this client began to read.
    for n in 0.. {
        service.output_of(&id, &format!("echo > busy/{n}")).await;
        let wanted = [format!("created busy/{n}"), "gap ".to_owned()];
        if one_of(&mut events, &wanted).await == wanted[0] {
            break;
        }
    }
    service
        .output_of(&id, "mkdir busy/later; echo text > busy/later/file")
        .await;
    until(&mut events, "created busy/later/file").await;
}

#[tokio::test]
async fn a_watched_directory_that_is_replaced_is_a_gap() {
    let service = Service::start().await;
    let id = service.sandbox().await;
    service.output_of(&id, "mkdir top").await;
    let mut events = watch(&service, &format!("sandboxes/{id}/files/watch?path=top")).await;
    service
        .output_of(
            &id,
            "mkdir new; mv -T --exchange new top 2>/dev/null || { mv top old && mv new top; }",
        )
        .await;
    until(&mut events, "gap ").await;
    service.output_of(&id, "echo text > top/file").await;
    until(&mut events, "created top/file").await;
}

/// Returns the rest of a watch as text.
async fn rest(service: &Service, path: &str, during: impl AsyncFnOnce()) -> String {
    let request = service.request(Method::GET, path);
    let mut answer = request.send().await.unwrap();
    assert!(answer.chunk().await.unwrap().is_some());
    during().await;
    let rest = tokio::time::timeout(Duration::from_secs(60), answer.text());
    rest.await.expect("the end of the stream").unwrap()
}

#[tokio::test]
async fn a_watch_ends_with_its_key_its_files_and_the_server() {
    let mut service = Service::start().await;
    let id = service.sandbox().await;
    let path = format!("/api/v1/sandboxes/{id}/files/watch");
    let key = json!({"name": "guest", "scopes": ["files"]});
    let key = service.post("/api/v1/keys", key).await;
    let ticket = Some(json!({"path": path}));
    let secret = key["secret"].as_str().unwrap();
    let made = service.expect_as(secret, Method::POST, "/api/v1/tickets", ticket, 201);
    let made = made.await;
    let url = made["url"].as_str().unwrap();
    let mut by_ticket = service.http.get(url).send().await.unwrap();
    assert!(by_ticket.chunk().await.unwrap().is_some());
    let revoke = format!("/api/v1/keys/{}", key["id"].as_str().unwrap());
    service.expect(Method::DELETE, &revoke, None, 204).await;
    let end = by_ticket.text().await.unwrap();
    assert!(
        end.contains("event: error") && end.contains("UNAUTHORIZED"),
        "{end}"
    );

    let end = rest(&service, &path, async || service.delete(&id).await).await;
    assert!(
        end.contains("event: error") && end.contains("SANDBOX_NOT_FOUND"),
        "{end}"
    );

    let id = service.sandbox().await;
    let path = format!("/api/v1/sandboxes/{id}/files/watch");
    let end = rest(&service, &path, async || service.terminate()).await;
    assert!(end.contains("event: stopping"), "{end}");
    service.wait();
}

mod on_docker {
    use super::*;

    #[tokio::test]
    async fn a_watch_notices_all_changes_in_a_container() {
        notices_everything(&Service::with_docker().await).await;
    }
}
