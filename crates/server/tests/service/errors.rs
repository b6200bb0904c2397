//! Every error of the API is the response that a test expects.

use std::fs;
use std::path::{Path, PathBuf};

use elevo_core::ErrorCode;
use elevo_sandbox::sim::Call;
use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::Service;
use crate::shared::{project, workspace};

/// Errors that no request causes in a test, with the reason.
const UNTESTED: [(ErrorCode, &str); 2] = [
    (
        ErrorCode::ProcessLimitExceeded,
        "it needs 64 commands at once",
    ),
    (ErrorCode::TooManyChanges, "it needs 100,000 changes"),
];

fn sources(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => sources(&path, found),
            false => found.push(path),
        }
    }
}

#[test]
fn every_error_has_a_test() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = vec![root.join("../../docs/api.md")];
    sources(&root.join("tests"), &mut files);
    let texts = files
        .iter()
        .map(|path| fs::read_to_string(path).unwrap_or_default());
    let texts: String = texts.collect();
    for code in ErrorCode::ALL {
        let is_tested = texts.contains(&format!("\"{}\"", code.name()));
        let is_untested = UNTESTED.iter().any(|(untested, _)| untested == code);
        assert_ne!(is_tested, is_untested, "{code}");
    }
}

/// Sends a request and checks the name of its error.
async fn refused(service: &Service, request: (Method, &str), body: Value, error: (u16, &str)) {
    let (method, path) = request;
    let body = Some(body).filter(|body| !body.is_null());
    let found = service.expect(method, path, body, error.0).await;
    assert_eq!(found["error"]["name"], error.1, "{path}");
}

#[tokio::test]
async fn requests_for_what_does_not_exist_name_it() {
    let service = Service::start().await;
    service
        .post("/api/v1/projects", json!({"name": "site"}))
        .await;
    let none = Value::Null;
    let at = (Method::DELETE, "/api/v1/keys/key-none");
    refused(&service, at, none.clone(), (404, "KEY_NOT_FOUND")).await;
    let at = (Method::DELETE, "/api/v1/agents/nobody");
    refused(&service, at, none.clone(), (404, "AGENT_NOT_FOUND")).await;
    let wish = json!({"project": "site", "agent": "nobody"});
    let at = (Method::POST, "/api/v1/workspaces");
    refused(&service, at, wish, (404, "AGENT_NOT_FOUND")).await;
    for step in ["steps/1", "steps/18446744073709551615"] {
        let path = format!("/api/v1/projects/site/{step}");
        let at = (Method::GET, path.as_str());
        refused(&service, at, none.clone(), (404, "STEP_NOT_FOUND")).await;
    }
}

#[tokio::test]
async fn requests_in_the_wrong_form_are_rejected() {
    let service = Service::start().await;
    service
        .post("/api/v1/projects", json!({"name": "site"}))
        .await;
    let at = (Method::GET, "/api/v1/nothing");
    refused(&service, at, Value::Null, (404, "NOT_FOUND")).await;
    let at = (Method::DELETE, "/api/v1/projects");
    refused(&service, at, Value::Null, (405, "METHOD_NOT_ALLOWED")).await;
    let large = json!({"name": "x".repeat(4 << 20)});
    let at = (Method::POST, "/api/v1/projects");
    refused(&service, at, large, (413, "PAYLOAD_TOO_LARGE")).await;
    let wish = json!({"policy": {}, "expectedVersion": 99});
    let at = (Method::PUT, "/api/v1/projects/site/policy");
    refused(&service, at, wish, (409, "VERSION_CONFLICT")).await;
    let request = service.request(Method::POST, "/api/v1/projects");
    let request = request.header("content-type", "text/plain").body("{}");
    let response = request.send().await.unwrap();
    assert_eq!(response.status(), 415);
    let found: Value = response.json().await.unwrap();
    assert_eq!(found["error"]["name"], "UNSUPPORTED_MEDIA_TYPE");
}

#[tokio::test]
async fn a_retry_of_a_request_that_still_runs_is_rejected() {
    let service = Service::start().await;
    let hold = service.simulated().hold(Call::Create);
    let request = |service: &Service| {
        let request = service.request(Method::POST, "/api/v1/sandboxes");
        let request = request.header("idempotency-key", "once");
        request.json(&json!({"template": "base", "name": "slow"}))
    };
    let first = tokio::spawn(request(&service).send());
    loop {
        let found = service.request(Method::GET, "/api/v1/sandboxes/slow");
        if found.send().await.unwrap().status() == 200 {
            break;
        }
        tokio::task::yield_now().await;
    }
    let second = request(&service).send().await.unwrap();
    assert_eq!(second.status(), 409);
    let second: Value = second.json().await.unwrap();
    assert_eq!(second["error"]["name"], "IDEMPOTENCY_RUNNING");
    drop(hold);
    assert_eq!(first.await.unwrap().unwrap().status(), 201);
}

#[tokio::test]
async fn a_workspace_that_another_process_has_locked_is_busy() {
    let service = Service::start().await;
    let id = project(&service, json!({}), &[("page", "first\n")]).await;
    let ws = workspace(&service, json!({"project": id})).await;
    let lock = fs::File::open(ws.path.with_file_name("lock")).unwrap();
    lock.lock().unwrap();
    let path = format!("/api/v1/workspaces/{}/snapshot", ws.id);
    let at = (Method::POST, path.as_str());
    refused(&service, at, json!({}), (409, "WORKSPACE_BUSY")).await;
    lock.unlock().unwrap();
    service.post(&path, json!({})).await;
}
