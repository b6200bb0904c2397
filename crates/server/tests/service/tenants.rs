//! The trouble of one tenant, row or container stops nothing of another's.

use elevo_sandbox::sim::Call;
use reqwest::Method;
use serde_json::json;

use crate::harness::{Service, eventually};
use crate::shared::{self, file};

#[tokio::test]
async fn a_container_that_cannot_be_removed_does_not_stop_the_start() {
    let (mut service, engine) = Service::start_simulated(|_| {}).await;
    let (stuck, kept) = (service.sandbox().await, service.sandbox().await);
    service.stop_here().await;
    service
        .sql(&format!("delete from sandboxes where id = '{stuck}'"))
        .await;
    engine.fail(Call::Remove, &stuck, u32::MAX);
    service.run_simulated(&engine, |_| {}).await;
    let row = service.get(&format!("/api/v1/sandboxes/{kept}")).await;
    assert_eq!(row["state"], "running", "{row}");
    service.delete(&kept).await;
    let cleared = service.post("/api/v1/gc", json!({})).await;
    assert_eq!(cleared["cleanedSandboxes"], 0, "{cleared}");
}

#[tokio::test]
async fn an_expired_sandbox_that_cannot_go_does_not_keep_others() {
    let (service, engine) = Service::start_simulated(|_| {}).await;
    let wish = json!({"template": "base", "timeoutSeconds": 60});
    let mut ids = Vec::new();
    for _ in 0..2 {
        let made = service.post("/api/v1/sandboxes", wish.clone()).await;
        ids.push(made["id"].as_str().unwrap().to_owned());
    }
    engine.fail(Call::Remove, &ids[0], u32::MAX);
    service.sql("update sandboxes set expires = 1").await;
    eventually("the second sandbox is gone", async || {
        !engine.containers().contains(&ids[1])
    })
    .await;
}

#[tokio::test]
async fn a_tenant_whose_workspaces_are_damaged_stops_neither_start_nor_collection() {
    let mut service = Service::start_without_engine(&[]);
    let project = shared::project(&service, json!({}), &[("a", "1\n")]).await;
    let other = service
        .expect(
            Method::POST,
            "/api/v1/tenants",
            Some(json!({"name": "other"})),
            201,
        )
        .await;
    let key = other["secret"].as_str().unwrap();
    let theirs = json!({"name": "theirs"});
    let theirs = service
        .expect_as(key, Method::POST, "/api/v1/projects", Some(theirs), 201)
        .await;
    let wish = json!({"project": theirs["id"]});
    let ws = service
        .expect_as(key, Method::POST, "/api/v1/workspaces", Some(wish), 201)
        .await;
    let directory = ws["path"].as_str().unwrap().split("/live/").next().unwrap();
    service.stop();
    let registry = std::path::Path::new(directory).join("registry/log");
    assert!(registry.exists(), "{}", registry.display());
    std::fs::write(&registry, "damaged\n").unwrap();
    service.run();
    assert_eq!(file(&service, &project, "a").await.unwrap(), "1\n");
    let cleared = service
        .expect(Method::POST, "/api/v1/gc", Some(json!({})), 200)
        .await;
    assert_eq!(cleared["failedTenants"], json!(["other"]), "{cleared}");
}

#[tokio::test]
async fn a_project_with_a_sandbox_is_not_deleted_under_it() {
    let (service, _engine) = Service::start_simulated(|_| {}).await;
    let project = shared::project(&service, json!({}), &[("a", "1\n")]).await;
    let wish = json!({"template": "base", "workspace": {"project": {"name": project}}});
    let made = service
        .expect(Method::POST, "/api/v1/sandboxes", Some(wish), 201)
        .await;
    let path = format!("/api/v1/projects/{project}");
    let refused = service.expect(Method::DELETE, &path, None, 409).await;
    assert_eq!(refused["error"]["name"], "WORKSPACE_BUSY", "{refused}");
    assert_eq!(refused["error"]["details"]["sandboxId"], made["id"]);
    service.delete(made["id"].as_str().unwrap()).await;
    service.expect(Method::DELETE, &path, None, 204).await;
}
