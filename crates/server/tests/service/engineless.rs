//! A server without a container engine, and one whose engine comes and goes.

use reqwest::Method;
use serde_json::json;

use crate::harness::{Service, eventually};
use crate::shared::{self, complete, file, merge, workspace, write};

#[tokio::test]
async fn a_server_without_an_engine_serves_projects_and_refuses_sandboxes() {
    let agent = crate::harness::agent();
    let mut service = Service::start_without_engine(&[("AGENT_BINARY", &agent)]);
    let project = shared::project(&service, json!({}), &[("a", "1\n")]).await;
    let ws = workspace(&service, json!({"project": project})).await;
    write(&ws, "a", "2\n");
    assert_eq!(merge(&service, &ws).await["landedCount"], 1);
    complete(&service, &ws).await;

    let ready = service.expect(Method::GET, "/ready", None, 200).await;
    let checks = ready["checks"].as_array().unwrap();
    let engine = checks.iter().find(|check| check["name"] == "engine");
    assert_eq!(engine.unwrap()["ok"], false, "{ready}");

    let wish = json!({"template": "base"});
    let refused = service
        .expect(Method::POST, "/api/v1/sandboxes", Some(wish), 503)
        .await;
    assert_eq!(refused["error"]["name"], "RUNTIME_UNAVAILABLE", "{refused}");
    assert_eq!(refused["error"]["retry"], "later", "{refused}");
    let words = refused["error"]["remediation"].as_str().unwrap();
    assert!(words.contains("container engine"), "{words}");

    service.stop();
    service.run();
    assert_eq!(file(&service, &project, "a").await.unwrap(), "2\n");
}

#[tokio::test]
async fn a_template_needs_an_engine() {
    let service = Service::start_without_engine(&[("AGENT_BINARY", &crate::harness::agent())]);
    let wish = json!({"name": "base", "image": "debian:12"});
    let refused = service
        .expect(Method::POST, "/api/v1/templates", Some(wish), 503)
        .await;
    assert_eq!(refused["error"]["name"], "RUNTIME_UNAVAILABLE", "{refused}");
}

#[tokio::test]
async fn a_server_without_an_agent_says_how_to_get_one() {
    let (service, _engine) = Service::start_simulated(|_| {}).await;
    service.expect_complaint("the server has no `workspace-agent`");
    std::fs::remove_file(service.data.join("agent/workspace-agent")).unwrap();
    let wish = json!({"template": "base"});
    let refused = service
        .expect(Method::POST, "/api/v1/sandboxes", Some(wish), 503)
        .await;
    assert_eq!(refused["error"]["name"], "RUNTIME_UNAVAILABLE", "{refused}");
    let words = refused["error"]["remediation"].as_str().unwrap();
    assert!(words.contains("AGENT_BINARY"), "{words}");
}

#[tokio::test]
async fn a_simulated_sandbox_runs_commands_of_the_real_agent() {
    let (service, engine) = Service::start_simulated(|_| {}).await;
    let id = service.sandbox().await;
    service.output_of(&id, "echo mine > file").await;
    assert_eq!(service.output_of(&id, "cat file").await, "mine\n");
    let snapshot = service
        .post(&format!("/api/v1/sandboxes/{id}/snapshot"), json!({}))
        .await;
    assert!(snapshot["id"].is_string(), "{snapshot}");
    assert_eq!(snapshot["notKept"], json!([]), "{snapshot}");
    service.delete(&id).await;
    assert!(engine.containers().is_empty());
}

#[tokio::test]
async fn sandboxes_are_recovered_when_the_engine_answers_again() {
    let (mut service, engine) = Service::start_simulated(|_| {}).await;
    service.expect_complaint("cannot recover sandboxes");
    let (gone, kept) = (service.sandbox().await, service.sandbox().await);
    service.output_of(&kept, "echo mine > file").await;
    service.stop_here().await;
    engine.vanish(&gone).await;
    engine.set_down(true);
    service.run_simulated(&engine, |_| {}).await;
    let path = format!("/api/v1/sandboxes/{gone}");
    assert_eq!(service.get(&path).await["state"], "running");
    engine.set_down(false);
    eventually("the lost container is noticed", async || {
        service.get(&path).await["state"] == "error"
    })
    .await;
    assert_eq!(service.output_of(&kept, "cat file").await, "mine\n");
}
