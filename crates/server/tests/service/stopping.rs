//! A server that is stopped while it is busy.

use std::fs::File;
use std::path::Path;
use std::process::Command;

use futures::StreamExt;
use reqwest::Method;
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Message;

use crate::harness::{Events, Service, connect, eventually};

/// Long enough that a test never sees its end.
const LONG: (&str, &str) = ("STOP_GRACE", "600");

/// A command that ends once a file exists, which the test creates behind the
/// server's back.
const WAITING: &str = "until [ -e go ]; do sleep 0.1; done; echo went";

fn let_go(service: &Service, sandbox: &str) {
    let path = service.simulated().path(sandbox, "/workspace/go");
    File::create(path.unwrap()).unwrap();
}

fn run_path(sandbox: &str) -> String {
    format!("/api/v1/sandboxes/{sandbox}/process/run")
}

async fn stream(service: &Service, sandbox: &str, command: &str) -> Events {
    let wish = service.inside(sandbox, json!({"command": command, "stream": true}));
    let request = service
        .request(Method::POST, &run_path(sandbox))
        .json(&wish);
    Events::new(request.send().await.unwrap())
}

/// Waits until a command runs.
async fn is_running(service: &Service, sandbox: &str) {
    let url = format!("/api/v1/sandboxes/{sandbox}/process");
    eventually("the command runs", async || {
        let list = service.get(&url).await;
        let items = list["items"].as_array();
        items.is_some_and(|items| !items.is_empty())
    })
    .await;
}

/// Waits until new requests on new connections are rejected.
async fn is_draining(service: &Service) {
    service.expect_complaint("the server is stopping");
    eventually("new requests are refused", async || {
        let url = format!("{}/api/v1/sandboxes", service.url);
        let request = reqwest::Client::new()
            .get(url)
            .bearer_auth(crate::harness::KEY);
        let answer = request.send().await.expect("connections are still taken");
        if answer.status().is_success() {
            return false;
        }
        assert_eq!(answer.status().as_u16(), 503);
        assert_eq!(answer.headers()["retry-after"], "5");
        let error: Value = answer.json().await.unwrap();
        assert_eq!(error["error"]["name"], "SHUTTING_DOWN", "{error}");
        true
    })
    .await;
}

#[tokio::test]
async fn requests_at_work_finish_while_new_ones_are_refused() {
    let mut service = Service::start_with(&[LONG]).await;
    let id = service.sandbox().await;
    let request = service.request(Method::POST, &run_path(&id));
    let request = request.json(&service.inside(&id, json!({"command": WAITING})));
    let at_work = tokio::spawn(request.send());
    is_running(&service, &id).await;
    service.terminate();
    is_draining(&service).await;
    let_go(&service, &id);
    let done: Value = at_work.await.unwrap().unwrap().json().await.unwrap();
    assert_eq!(done["stdout"], "went\n", "{done}");
    service.wait();
}

#[tokio::test]
async fn output_goes_on_while_the_server_drains() {
    let mut service = Service::start_with(&[LONG]).await;
    let id = service.sandbox().await;
    let mut output = stream(&service, &id, WAITING).await;
    let (_, start) = output.next().await.unwrap();
    assert_eq!(start["type"], "start", "{start}");
    service.terminate();
    is_draining(&service).await;
    let_go(&service, &id);
    let mut kinds = Vec::new();
    while let Some((_, event)) = output.next().await {
        kinds.push(event["type"].as_str().unwrap().to_owned());
    }
    assert_eq!(kinds, ["stdout", "exit"]);
    service.wait();
}

#[tokio::test]
async fn output_that_is_cut_off_says_where_to_go_on() {
    let mut service = Service::start_with(&[("STOP_GRACE", "1")]).await;
    let id = service.sandbox().await;
    let counting = "n=0; while :; do n=$((n+1)); echo $n; sleep 0.01; done";
    let mut output = stream(&service, &id, counting).await;
    let (_, start) = output.next().await.unwrap();
    let command = start["commandId"].as_str().unwrap().to_owned();
    service.terminate();
    let (mut text, mut last) = (String::new(), None);
    while let Some((at, event)) = output.next().await {
        match event["type"].as_str() {
            Some("stdout") => text += event["data"].as_str().unwrap(),
            _ => last = Some((at, event)),
        }
    }
    let (at, last) = last.expect("a last event");
    assert_eq!(last["type"], "stopping", "{last}");
    assert_eq!(last["offset"], json!(text.len()), "{last}");
    assert_eq!(at, text.len() as u64, "{last}");
    service.wait();

    service.run();
    let url = format!("/api/v1/sandboxes/{id}/process/{command}/output?offset={at}");
    let answer = service.request(Method::GET, &url).send().await.unwrap();
    let mut output = Events::new(answer);
    while text.lines().count() < 1000 {
        let (_, event) = output.next().await.unwrap();
        assert_eq!(event["type"], "stdout", "{event}");
        text += event["data"].as_str().unwrap();
    }
    let mut lines = text.lines().take(999).enumerate();
    assert!(lines.all(|(n, line)| line == (n + 1).to_string()), "{text}");
}

#[tokio::test]
async fn readers_of_events_are_notified() {
    let mut service = Service::start_without_engine(&[LONG]);
    let request = service.request(Method::GET, "/api/v1/events");
    let request = request.header("accept", "text/event-stream");
    let mut answer = request.send().await.unwrap();
    let begun = answer.chunk().await.unwrap().unwrap();
    assert!(begun.starts_with(b": begun\n"), "{begun:?}");
    service.terminate();
    let rest = answer.text().await.unwrap();
    assert!(rest.contains("event: stopping\ndata: "), "{rest}");
    assert!(rest.contains("Last-Event-ID"), "{rest}");
    service.wait();
}

#[tokio::test]
async fn terminals_are_notified_and_closed() {
    let mut service = Service::start_with(&[LONG]).await;
    let id = service.sandbox().await;
    let path = format!("/api/v1/sandboxes/{id}/pty");
    let wish = json!({"cols": 80, "rows": 24, "shell": "/bin/sh"});
    let made = service.post(&path, service.inside(&id, wish)).await;
    let url = made["websocketUrl"].as_str().unwrap();
    let mut socket = connect(url).await.unwrap();
    service.terminate();
    let (mut told, mut closed) = (None, None);
    while let Some(Ok(message)) = socket.next().await {
        match message {
            Message::Text(text) => {
                let message: Value = serde_json::from_str(&text).unwrap();
                if message["type"] == "stopping" {
                    told = message["message"].as_str().map(str::to_owned);
                }
            }
            Message::Close(frame) => closed = frame.map(|frame| u16::from(frame.code)),
            _ => {}
        }
    }
    assert!(told.expect("a message").contains("reconnect with"));
    assert_eq!(closed, Some(1001));
    service.wait();

    // The terminal still exists.
    service.run();
    let url = url.split_once("/api/").unwrap().1;
    let url = format!("{}/api/{url}", service.url.replace("http", "ws"));
    let mut socket = connect(&url).await.unwrap();
    let first = socket.next().await.unwrap().unwrap();
    assert!(first.to_text().unwrap().contains("attached"), "{first}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_ends_all_running_work() {
    let mut service = Service::start_with(&[("STOP_GRACE", "1")]).await;
    let id = service.sandbox().await;
    let request = service.request(Method::POST, &run_path(&id));
    let request = request.json(&service.inside(&id, json!({"command": WAITING})));
    let at_work = tokio::spawn(request.send());
    is_running(&service, &id).await;
    let _unread = stream(&service, &id, "yes").await;
    service.terminate();
    tokio::task::block_in_place(|| service.wait());
    assert!(at_work.await.unwrap().is_err(), "it was cut off");
}

/// Replaces a file by a pipe. A server that reads it waits forever.
fn replace_by_a_pipe(file: &Path) {
    let pipe = file.with_extension("pipe");
    let made = Command::new("mkfifo").arg(&pipe).status().unwrap();
    assert!(made.success());
    std::fs::rename(&pipe, file).unwrap();
}

/// Waits until the server reads from a pipe. It waits there while the returned
/// end is open.
async fn is_read(pipe: &Path) -> File {
    let pipe = pipe.to_owned();
    let opening = move || File::options().write(true).open(pipe).unwrap();
    tokio::task::spawn_blocking(opening).await.unwrap()
}

fn git(directory: &Path, arguments: &[&str]) {
    let mut git = Command::new("git");
    git.arg("-C").arg(directory).args(arguments);
    git.env("GIT_CONFIG_GLOBAL", "/dev/null");
    git.env("GIT_CONFIG_NOSYSTEM", "1");
    assert!(git.status().unwrap().success(), "{arguments:?}");
}

#[tokio::test]
async fn an_import_that_never_ends_does_not_hold_up_a_stop() {
    let mut service = Service::start_without_engine(&[("STOP_GRACE", "1")]);
    let project = service
        .post("/api/v1/projects", json!({"name": "site"}))
        .await;
    let path = format!(
        "/api/v1/projects/{}/import",
        project["id"].as_str().unwrap()
    );
    let directory = tempfile::tempdir().unwrap();
    git(directory.path(), &["init", "--quiet"]);
    let settings = directory.path().join(".git/config");
    replace_by_a_pipe(&settings);
    let request = service.request(Method::POST, &path);
    let request = request.json(&json!({"git": directory.path()}));
    let at_work = tokio::spawn(request.send());
    let open = is_read(&settings).await;
    service.terminate();
    service.ends().await;
    assert!(at_work.await.unwrap().is_err(), "it was cut off");
    drop(open);
}

#[tokio::test]
async fn a_job_that_never_ends_does_not_hold_up_a_stop() {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".into()]).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let [certificate, key] = ["cert.pem", "key.pem"].map(|name| directory.path().join(name));
    std::fs::write(&certificate, made.cert.pem()).unwrap();
    std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    let mut service = Service::start_without_engine(&[
        ("TLS_CERT", certificate.to_str().unwrap()),
        ("TLS_KEY", key.to_str().unwrap()),
    ]);
    // The server reads the certificate again when its file changes.
    replace_by_a_pipe(&certificate);
    let open = is_read(&certificate).await;
    service.terminate();
    service.ends().await;
    drop(open);
}
