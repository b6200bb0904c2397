//! Moved files, and priorities.

use std::fs;

use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::Service;
use crate::shared::{Ws, agent, at, file, merge, paths, project, workspace, write};

async fn merge_moved(service: &Service, ws: &Ws) -> Value {
    let wish = Some(json!({"renames": true}));
    service
        .expect(Method::POST, &at(ws, "merge"), wish, 200)
        .await
}

async fn resolve(service: &Service, held: &Value, take: &str) -> Value {
    let review = held["conflicts"][0]["reviewId"].as_str().unwrap();
    let url = format!("/api/v1/reviews/{review}/resolve");
    let wish = Some(json!({"take": take}));
    service.expect(Method::POST, &url, wish, 200).await
}

#[tokio::test]
async fn a_change_goes_where_its_file_was_moved() {
    let service = Service::start().await;
    let text = "one\ntwo\nthree\n";
    let id = project(&service, json!({}), &[("old.txt", text)]).await;
    let changing = workspace(&service, json!({"project": id})).await;
    let moving = workspace(&service, json!({"project": id})).await;
    write(&changing, "old.txt", &text.replace("two", "TWO"));
    merge(&service, &changing).await;
    fs::rename(moving.path.join("old.txt"), moving.path.join("new.txt")).unwrap();
    let moved = merge_moved(&service, &moving).await;
    assert_eq!(moved["conflictCount"], 0, "{moved}");
    assert_eq!(paths(&moved["landed"]), ["new.txt", "old.txt"]);
    let found = file(&service, &id, "new.txt").await.unwrap();
    assert_eq!(found, text.replace("two", "TWO"));
    assert_eq!(file(&service, &id, "old.txt").await, None);

    let history = |path: &str| format!("/api/v1/projects/{id}/history?path={path}");
    let new = service.get(&history("new.txt")).await;
    let new = &new["items"][0];
    assert_eq!(
        (&new["kind"], &new["from"]),
        (&json!("renamed"), &json!("old.txt")),
        "{new}"
    );
    let old = service.get(&history("old.txt")).await;
    assert_eq!(old["items"][0]["kind"], "removed", "{old}");
}

#[tokio::test]
async fn a_decision_on_what_was_moved_and_removed_is_the_last() {
    let service = Service::start().await;
    let id = project(&service, json!({}), &[("old.txt", "text\n")]).await;
    let moving = workspace(&service, json!({"project": id})).await;
    let removing = workspace(&service, json!({"project": id})).await;
    fs::rename(moving.path.join("old.txt"), moving.path.join("new.txt")).unwrap();
    merge(&service, &moving).await;
    fs::remove_file(removing.path.join("old.txt")).unwrap();
    let held = merge_moved(&service, &removing).await;
    let conflict = &held["conflicts"][0];
    assert_eq!(
        (&conflict["kind"], &conflict["path"], &conflict["from"]),
        (&json!("renamed"), &json!("new.txt"), &json!("old.txt")),
        "{held}"
    );
    let decided = resolve(&service, &held, "project").await;
    assert_eq!(decided["state"], "resolved", "{decided}");
    let after = merge_moved(&service, &removing).await;
    assert_eq!(after["conflictCount"], 0, "{after}");
    assert_eq!(file(&service, &id, "new.txt").await.unwrap(), "text\n");
}

#[tokio::test]
async fn the_priority_is_a_setting_and_may_be_overridden() {
    let service = Service::start().await;
    let ((senior, senior_key), (junior, junior_key)) = (
        agent(&service, "senior").await,
        agent(&service, "junior").await,
    );
    let policy = json!({
        "rules": [{"pattern": "**", "merge": "priority"}],
        "members": {senior.as_str(): {"priority": 10}, junior.as_str(): {"priority": 1}},
        "overrides": ["review"],
    });
    let id = project(&service, policy, &[("plan.bin", "\0old")]).await;
    let of = |agent: &str| json!({"project": id, "agent": agent});
    let (high, low) = (
        workspace(&service, of(&senior)).await,
        workspace(&service, of(&junior)).await,
    );
    write(&high, "plan.bin", "\0senior");
    write(&low, "plan.bin", "\0junior");
    let merge_as = async |key: &str, ws: &Ws, wish: Value, status| {
        let (url, wish) = (at(ws, "merge"), Some(wish));
        service
            .expect_as(key, Method::POST, &url, wish, status)
            .await
    };
    let landed = merge_as(&senior_key, &high, json!({}), 200).await;
    assert_eq!(landed["landedCount"], 1, "{landed}");
    merge_as(&junior_key, &low, json!({"strategy": "last-writer"}), 403).await;
    let wish = json!({"strategy": "review", "dryRun": true});
    let wished = merge_as(&junior_key, &low, wish, 200).await;
    assert_eq!(wished["conflictCount"], 1, "{wished}");
    let lost = merge_as(&junior_key, &low, json!({}), 200).await;
    assert_eq!(lost["overruled"], json!(["plan.bin"]), "{lost}");
    assert_eq!(file(&service, &id, "plan.bin").await.unwrap(), "\0senior");
    let again = merge_as(&junior_key, &low, json!({}), 200).await;
    assert_eq!(again["overruled"], json!([]), "{again}");
}
