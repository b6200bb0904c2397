//! Workspaces without a row in the catalog.

use std::fs;
use std::path::{Path, PathBuf};

use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::Service;

/// Creates a workspace on a new project, with a file that was not merged; returns
/// its id and the file.
async fn unmerged(service: &Service) -> (String, PathBuf) {
    let made = service.post("/api/v1/projects", json!({"name": "p"})).await;
    let wish = json!({"project": made["id"]});
    let made = service.post("/api/v1/workspaces", wish).await;
    let file = Path::new(made["path"].as_str().unwrap()).join("unmerged");
    fs::write(&file, "work").unwrap();
    (made["id"].as_str().unwrap().to_owned(), file)
}

/// Starts a server, creates a workspace with a file that was not merged, and
/// deletes the row of the workspace.
async fn unknown() -> (Service, String, PathBuf) {
    let mut service = Service::start_without_engine(&[]);
    service.expect_complaint("so it is in quarantine");
    let (id, file) = unmerged(&service).await;
    service.stop();
    service
        .sql(&format!("delete from workspaces where id = '{id}'"))
        .await;
    service.run();
    (service, id, file)
}

fn admin(service: &Service) -> reqwest::Client {
    let socket = service.data.join("run/admin/admin.sock");
    let client = reqwest::Client::builder().unix_socket(socket);
    client.build().unwrap()
}

async fn listed(service: &Service) -> Vec<String> {
    let list = admin(service)
        .get("http://localhost/quarantine")
        .send()
        .await;
    let list: Value = list.unwrap().json().await.unwrap();
    let items = list["items"].as_array().unwrap().iter();
    items
        .map(|item| item["id"].as_str().unwrap().to_owned())
        .collect()
}

/// Makes a workspace older than the time for which quarantine keeps it.
fn age(service: &Service, id: &str) {
    let tenant = "0".repeat(32);
    let entry = service
        .data
        .join(format!("workspaces/{tenant}/quarantine/{id}"));
    assert!(entry.is_file());
    fs::write(entry, "2026-01-01T00:00:00.000Z").unwrap();
}

async fn clear(service: &Service) -> Value {
    service
        .expect(Method::POST, "/api/v1/gc", Some(json!({})), 200)
        .await
}

#[tokio::test]
async fn an_unknown_workspace_is_kept_for_a_week_and_then_deleted() {
    let (service, id, file) = unknown().await;
    service.expect_complaint("whose time in the quarantine was over");
    assert_eq!(clear(&service).await["cleanedWorkspaces"], 0);
    assert_eq!(fs::read_to_string(&file).unwrap(), "work");
    assert_eq!(listed(&service).await, [id.as_str()]);
    let metrics = service
        .http
        .get(format!("{}/metrics", service.metrics))
        .send()
        .await;
    let metrics = metrics.unwrap().text().await.unwrap();
    assert!(metrics.contains("workspaces_quarantined 1"), "{metrics}");
    let log = fs::read_to_string(service.data.with_file_name("log")).unwrap();
    assert!(log.contains("in quarantine") && log.contains(&id), "{log}");

    age(&service, &id);
    assert_eq!(clear(&service).await["cleanedWorkspaces"], 1);
    assert!(!file.exists());
    assert!(listed(&service).await.is_empty());
}

#[tokio::test]
async fn a_restored_workspace_is_kept() {
    let (mut service, id, file) = unknown().await;
    let restore = |id: &str| {
        let url = format!("http://localhost/quarantine/{id}/restore");
        admin(&service).post(url).send()
    };
    assert_eq!(restore("ws-none").await.unwrap().status(), 404);
    age(&service, &id);
    assert_eq!(restore(&id).await.unwrap().status(), 204);
    assert!(listed(&service).await.is_empty());
    assert_eq!(clear(&service).await["cleanedWorkspaces"], 0);
    service.stop();
    service.run();
    assert_eq!(fs::read_to_string(&file).unwrap(), "work");
    assert!(listed(&service).await.is_empty());
}

#[tokio::test]
async fn workspaces_survive_the_adoption_of_a_new_catalog_and_the_return_of_the_old() {
    let mut service = Service::start_without_engine(&[]);
    service.expect_complaint("so it is in quarantine");
    service.expect_complaint("were adopted as one installation");
    let (id, file) = unmerged(&service).await;
    service.stop();
    let aside = service.data.with_file_name("catalog.db");
    service.sql("pragma wal_checkpoint(truncate)").await;
    fs::rename(service.data.join("catalog.db"), &aside).unwrap();
    service.try_run(&[]).expect_err("the server started");
    service.try_run(&["--adopt"]).unwrap();
    assert_eq!(listed(&service).await, [id.as_str()]);
    assert_eq!(fs::read_to_string(&file).unwrap(), "work");
    service
        .expect(Method::POST, "/api/v1/gc", Some(json!({})), 409)
        .await;
    service.stop();

    for end in ["", "-wal", "-shm"] {
        let _ = fs::remove_file(service.data.join(format!("catalog.db{end}")));
    }
    fs::rename(&aside, service.data.join("catalog.db")).unwrap();
    let words = service.try_run(&[]).expect_err("the server started");
    assert!(words.contains("an older copy"), "{words}");
    service.try_run(&["--adopt"]).unwrap();
    assert!(listed(&service).await.is_empty());
    let path = format!("/api/v1/workspaces/{id}/merge");
    let merged = service.expect(Method::POST, &path, None, 200).await;
    assert_eq!(merged["landedCount"], 1, "{merged}");
    assert_eq!(fs::read_to_string(&file).unwrap(), "work");
    service.stop();
    service.run();
}
