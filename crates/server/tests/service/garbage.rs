//! Garbage collection deletes everything that is not needed, and nothing else.

use std::collections::BTreeMap;

use elevo_core::{TenantId, Timestamp, TreePath};
use elevo_engine::{Attributes, CommitInfo, Repository, StateTree};
use elevo_objects::SnapshotId;
use elevo_store_local::{LocalStore, Options};
use reqwest::Method;
use serde_json::json;

use crate::harness::Service;
use crate::shared::{at, file, merge, project, read, workspace, write};

/// Leaves an old snapshot in a store that no server has open.
pub(crate) async fn leave_snapshot(service: &Service) -> SnapshotId {
    let path = service.data.join("store");
    let store = LocalStore::open(&path, &Options::default()).unwrap();
    let repository = Repository::new(std::sync::Arc::new(store), TenantId::LOCAL, 1 << 20);
    let tree = StateTree::empty(&repository);
    let at = TreePath::new("forgotten").unwrap();
    let content = vec![7; 100_000].into();
    tree.write(&at, content, Attributes::default())
        .await
        .unwrap();
    let info = CommitInfo {
        parents: Vec::new(),
        author: "somebody".into(),
        message: "long ago".into(),
        created: Timestamp::new(1, 0).unwrap(),
        labels: BTreeMap::new(),
        reference: None,
    };
    tree.commit(info).await.unwrap()
}

#[tokio::test]
async fn only_unneeded_objects_are_collected() {
    let mut service = Service::start().await;
    let id = project(&service, json!({}), &[("a.txt", "one\n"), ("b.txt", "b\n")]).await;
    let ws = workspace(&service, json!({"project": id})).await;
    write(&ws, "a.txt", "two\n");
    merge(&service, &ws).await;
    write(&ws, "a.txt", "three\n");
    service.stop();
    let left = leave_snapshot(&service).await;
    service.run();

    let collected = service.expect(Method::POST, "/api/v1/gc", None, 200).await;
    assert_eq!(
        collected["cleanedSnapshots"], 1,
        "{collected} without {left}"
    );
    assert!(
        collected["cleanedObjects"].as_u64().unwrap() > 1,
        "{collected}"
    );
    assert_eq!(file(&service, &id, "a.txt").await.unwrap(), "two\n");
    assert_eq!(read(&ws, "a.txt"), "three\n");
    let log = service.get(&format!("/api/v1/projects/{id}/steps")).await;
    for landing in log["items"].as_array().unwrap() {
        let snapshot = landing["snapshot"].as_str().unwrap();
        let url = format!("/api/v1/projects/{id}/files/list?snapshot={snapshot}");
        service.get(&url).await;
    }
    let merged = merge(&service, &ws).await;
    assert_eq!(merged["landedCount"], 1, "{merged}");
    let refreshed = service
        .expect(Method::POST, &at(&ws, "refresh"), None, 200)
        .await;
    assert_eq!(refreshed["conflicts"], json!([]));
    let again = service.expect(Method::POST, "/api/v1/gc", None, 200).await;
    assert_eq!(again["cleanedSnapshots"], 0, "{again}");
    let made = workspace(&service, json!({"project": id})).await;
    assert_eq!(read(&made, "a.txt"), "three\n");
}
