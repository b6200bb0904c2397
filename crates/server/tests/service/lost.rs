//! Containers that die and agents that are lost.

use std::process::Command;

use serde_json::{Value, json};

use crate::harness::{Events, Service};

/// Streams the events of the server from the beginning.
async fn events(service: &Service) -> Events {
    let request = service.request(reqwest::Method::GET, "/api/v1/events?cursor=0");
    let request = request.header("accept", "text/event-stream");
    Events::new(request.send().await.unwrap())
}

/// The next event of a kind about a sandbox.
async fn next(events: &mut Events, kind: &str, sandbox: &str) -> Value {
    loop {
        let (_, event) = events.next().await.expect("the stream goes on");
        if event["kind"] == kind && event["data"]["sandboxId"] == sandbox {
            return event["data"].clone();
        }
    }
}

async fn start(service: &Service, id: &str) {
    let url = format!("/api/v1/sandboxes/{id}/start");
    let started = service.post(&url, json!({})).await;
    assert_eq!(started["state"], "running", "{started}");
    assert_eq!(started["reason"], Value::Null, "{started}");
}

/// Sends a signal to the first process of a container, which is its agent.
fn signal(service: &Service, id: &str, signal: &str) {
    let pid = service.simulated().pid(id).unwrap().to_string();
    let status = Command::new("kill").arg(signal).arg(&pid).status();
    assert!(status.unwrap().success(), "{signal} {pid}");
}

#[tokio::test]
async fn a_container_that_dies_is_an_error_with_an_event() {
    let mut service = Service::start().await;
    service.expect_complaint("a sandbox has failed");
    let id = service.sandbox().await;
    service.output_of(&id, "echo mine > file").await;
    let mut told = events(&service).await;
    let engine = service.simulated().clone();
    let before = engine.id(&id);
    engine.end(&id, false).await;
    let error = next(&mut told, "sandbox.error", &id).await;
    assert_eq!(error["state"], "error", "{error}");
    let reason = error["reason"].as_str().unwrap();
    assert!(reason.contains("ended with exit code 137"), "{reason}");
    let row = service.get(&format!("/api/v1/sandboxes/{id}")).await;
    assert_eq!(
        (&row["state"], &row["reason"]),
        (&json!("error"), &json!(reason))
    );
    start(&service, &id).await;
    assert_eq!(engine.id(&id), before, "with what its root has");
    assert_eq!(service.output_of(&id, "cat file").await, "mine\n");

    // The container ends while no server runs.
    service.kill();
    engine.end(&id, false).await;
    service.run();
    let row = service.get(&format!("/api/v1/sandboxes/{id}")).await;
    assert_eq!(row["state"], "error", "{row}");
    let mut told = events(&service).await;
    next(&mut told, "sandbox.error", &id).await;
    next(&mut told, "sandbox.error", &id).await;
    start(&service, &id).await;
    assert_eq!(service.output_of(&id, "cat file").await, "mine\n");
}

#[tokio::test]
async fn a_lost_agent_is_an_error_until_it_is_back() {
    let service = Service::start_with(&[("AGENT_TIMEOUT", "3")]).await;
    service.expect_complaint("a sandbox has failed");
    let id = service.sandbox().await;
    service.output_of(&id, "echo mine > file").await;
    let mut told = events(&service).await;
    next(&mut told, "sandbox.running", &id).await;
    signal(&service, &id, "-STOP");
    let error = next(&mut told, "sandbox.error", &id).await;
    let reason = error["reason"].as_str().unwrap();
    assert!(reason.contains("agent"), "{reason}");
    let row = service.get(&format!("/api/v1/sandboxes/{id}")).await;
    assert_eq!(row["state"], "error", "{row}");

    signal(&service, &id, "-CONT");
    next(&mut told, "sandbox.running", &id).await;
    assert_eq!(service.output_of(&id, "cat file").await, "mine\n");

    // A sandbox whose agent stays away is restarted.
    signal(&service, &id, "-STOP");
    next(&mut told, "sandbox.error", &id).await;
    start(&service, &id).await;
    assert_eq!(service.output_of(&id, "cat file").await, "mine\n");
}

#[tokio::test]
async fn stopping_a_sandbox_on_request_is_not_an_error() {
    let mut service = Service::start().await;
    let id = service.sandbox().await;
    let mut told = events(&service).await;
    let url = format!("/api/v1/sandboxes/{id}/stop");
    let stopped = service.post(&url, json!({})).await;
    assert_eq!(stopped["state"], "stopped", "{stopped}");
    next(&mut told, "sandbox.stopped", &id).await;
    service.stop();
    service.run();
    start(&service, &id).await;
    let mut told = events(&service).await;
    let mut kinds = Vec::new();
    while kinds
        .iter()
        .filter(|kind| *kind == "sandbox.running")
        .count()
        < 2
    {
        let (_, event) = told.next().await.expect("the stream goes on");
        kinds.push(event["kind"].as_str().unwrap().to_owned());
    }
    assert!(
        !kinds.iter().any(|kind| kind == "sandbox.error"),
        "{kinds:?}"
    );
}
