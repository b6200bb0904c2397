//! Warm sandboxes with a runtime that hides later mounts.

use serde_json::json;

use super::{Runtime, create};
use crate::harness::{Service, eventually};

#[tokio::test]
async fn a_runtime_that_hides_later_mounts_has_no_pool_and_works_without() {
    let pool = [("WARM_POOL", "base=1 runtime=runsc"), ("RUNTIMES", "runsc")];
    let service = Service::with_docker_and(&pool).await;
    service.expect_complaint("cannot fill a warm pool");
    let log = service.data.with_file_name("log");
    eventually("the log says why there is none", async || {
        let log = std::fs::read_to_string(&log).unwrap();
        log.contains("does not show mounts that are made after the start")
    })
    .await;
    let stats = service.get("/api/v1/stats").await;
    assert_eq!(stats["pools"][0]["ready"], 0, "{stats}");
    // Each sandbox sees its own files, and keeps them over a stop.
    let id = create(&service, Runtime::Runsc, json!({})).await;
    service
        .output_of(&id, "echo one > file; echo two > ~/file")
        .await;
    let path = format!("/api/v1/sandboxes/{id}");
    let forked = service
        .post(&format!("{path}/fork"), json!({"count": 1}))
        .await;
    let fork = forked["succeeded"][0]["id"].as_str().unwrap();
    assert_eq!(
        service.output_of(fork, "cat file ~/file").await,
        "one\ntwo\n"
    );
    service.post(&format!("{path}/stop"), json!({})).await;
    let started = service.post(&format!("{path}/start"), json!({})).await;
    assert_eq!(started["state"], "running", "{started}");
    assert_eq!(
        service.output_of(&id, "cat file ~/file").await,
        "one\ntwo\n"
    );
}
