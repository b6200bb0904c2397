//! Repeated merges of several workspaces, and repeated rotations of secrets.

use serde_json::json;

use super::{NO_ANSWERS, post, sql};
use crate::harness::Service;
use crate::shared::{project, workspace, write};

/// The server ends after the landing, and before it has stored the response.
#[tokio::test]
async fn a_batch_lands_once_though_the_server_is_killed() {
    let mut service = Service::start_without_engine(&[]);
    service.expect_complaint("cannot store the outcome of a request");
    let project = project(&service, json!({}), &[("base", "base")]).await;
    let mut ids = Vec::new();
    for name in ["a", "b", "c", "d"] {
        let ws = workspace(&service, json!({"project": project})).await;
        write(&ws, name, "content");
        ids.push(ws);
    }
    let path = format!("/api/v1/projects/{project}/merge");
    let wish = |at: usize, atomic: bool| {
        let both = [&ids[at].id, &ids[at + 1].id];
        json!({"workspaces": both, "atomic": atomic, "message": "batch"})
    };
    let wishes = [("together", wish(0, true)), ("each", wish(2, false))];
    sql(&service, NO_ANSWERS);
    let mut first = Vec::new();
    for (key, wish) in &wishes {
        let answer = post(&service, &path, key, wish).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        first.push(answer.body);
    }
    // An agent continues meanwhile: a repetition does not land it.
    write(&ids[0], "later", "content");
    service.kill();
    service.sql("DROP TRIGGER no_answer").await;
    service.run();
    for ((key, wish), first) in wishes.iter().zip(first) {
        let again = post(&service, &path, key, wish).await;
        assert_eq!(again.status, 200, "{again:?}");
        for at in 0..2 {
            let field = |body: &serde_json::Value, name: &str| {
                let one = &body["succeeded"][at];
                (one["workspace"].clone(), one["result"][name].clone())
            };
            for name in ["step", "head", "landedCount", "landed"] {
                assert_eq!(field(&again.body, name), field(&first, name), "{again:?}");
            }
        }
    }
    let log = service
        .get(&format!("/api/v1/projects/{project}/steps"))
        .await;
    let items = log["items"].as_array().unwrap().iter();
    let landed = items.filter(|step| step["message"] == "batch").count();
    assert_eq!(landed, 4, "each has landed once: {log}");
}

#[tokio::test]
async fn a_repeated_rotation_keeps_the_secret_of_the_receiver() {
    let mut service = Service::start_without_engine(&[("WEBHOOK_ALLOW_PRIVATE", "true")]);
    service.expect_complaint("cannot store the outcome of a request");
    let hook = json!({"url": "http://localhost:1/hook", "secret": "of the receiver"});
    let made = service.post("/api/v1/webhooks", hook).await;
    let path = format!("/api/v1/webhooks/{}/rotate", made["id"].as_str().unwrap());
    sql(&service, NO_ANSWERS);
    let first = post(&service, &path, "key", &json!({})).await;
    assert_eq!(first.status, 200, "{first:?}");
    let kept = sql(&service, "SELECT secret, previous_secret FROM webhooks");
    // Neither the row nor the notes of the request have the secret in plain text.
    let secret = first.body["secret"].as_str().unwrap();
    let notes = sql(&service, "SELECT made, body FROM requests");
    assert!(!format!("{kept}{notes}").contains(secret));
    service.kill();
    service.sql("DROP TRIGGER no_answer").await;
    service.run();
    let again = post(&service, &path, "key", &json!({})).await;
    assert_eq!(again.body, first.body);
    let after = sql(&service, "SELECT secret, previous_secret FROM webhooks");
    assert_eq!(after, kept);
    let replayed = post(&service, &path, "key", &json!({})).await;
    assert!(replayed.is_replayed && replayed.body["secret"].is_null());
}
