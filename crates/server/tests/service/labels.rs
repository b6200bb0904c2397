//! The metadata and the origin of sandboxes, and changes of sandboxes.

use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::Service;
use crate::shared::{agent, project};

const SANDBOXES: &str = "/api/v1/sandboxes";

async fn labelled(service: &Service, metadata: Value) -> String {
    let wish = json!({"template": "base", "metadata": metadata});
    let made = service.post(SANDBOXES, wish).await;
    assert_eq!(made["metadata"], metadata, "{made}");
    made["id"].as_str().unwrap().to_owned()
}

/// Returns the ids and the total of a list.
async fn found(service: &Service, query: &str) -> (Vec<String>, u64) {
    let list = service.get(&format!("{SANDBOXES}?{query}")).await;
    let items = list["items"].as_array().unwrap().iter();
    let ids = items.map(|one| one["id"].as_str().unwrap().to_owned());
    (ids.collect(), list["total"].as_u64().unwrap())
}

async fn change(service: &Service, id: &str, body: Value, status: u16) -> Value {
    let path = format!("{SANDBOXES}/{id}");
    let body = Some(body);
    service.expect(Method::PATCH, &path, body, status).await
}

#[tokio::test]
async fn sandboxes_are_listed_by_their_metadata() {
    let service = Service::start().await;
    let first = labelled(&service, json!({"run": "7", "url": "http://x/?a=b&c"})).await;
    let second = labelled(&service, json!({"run": "7", "part": "2"})).await;
    labelled(&service, json!({"run": "8"})).await;
    labelled(&service, json!({})).await;

    let both = vec![second.clone(), first.clone()];
    assert_eq!(found(&service, "metadata=run:7").await, (both, 2));
    let one = found(&service, "metadata=run:7&metadata=part:2").await;
    assert_eq!(one, (vec![second.clone()], 1));
    let one = found(&service, "metadata=url:http%3A%2F%2Fx%2F%3Fa%3Db%26c").await;
    assert_eq!(one, (vec![first.clone()], 1));
    let page = found(&service, "metadata=run:7&page=2&limit=1").await;
    assert_eq!(page, (vec![first.clone()], 2));
    assert_eq!(found(&service, "metadata=run:").await, (Vec::new(), 0));
    for query in ["metadata=run", "metadata=a:1&metadata=a:2", "metadata=:1"] {
        let path = format!("{SANDBOXES}?{query}");
        let refused = service.expect(Method::GET, &path, None, 400).await;
        assert_eq!(refused["error"]["name"], "INVALID_REQUEST", "{query}");
    }

    // The pairs of the principal of another agent or tenant are not found.
    let (_, key) = agent(&service, "other").await;
    let path = format!("{SANDBOXES}?metadata=run:7");
    let list = service.expect_as(&key, Method::GET, &path, None, 200).await;
    assert_eq!(list["total"], 0, "{list}");

    service.delete(&first).await;
    assert_eq!(found(&service, "metadata=run:7").await, (vec![second], 1));
}

#[tokio::test]
async fn rejects_metadata_that_a_sandbox_cannot_have() {
    let service = Service::start().await;
    let many = |count: u32| -> Value { (0..count).map(|n| (n.to_string(), "")).collect() };
    let bad = [
        many(65),
        json!({"": "x"}),
        json!({"a b": "x"}),
        json!({"k".repeat(65): "x"}),
        json!({"k": "x".repeat(513)}),
    ];
    let id = labelled(&service, many(64)).await;
    for metadata in bad {
        let wish = Some(json!({"template": "base", "metadata": metadata}));
        let refused = service.expect(Method::POST, SANDBOXES, wish, 400).await;
        assert_eq!(refused["error"]["name"], "INVALID_REQUEST", "{metadata}");
        let path = format!("{SANDBOXES}/{id}/fork");
        let wish = Some(json!({"metadata": metadata}));
        service.expect(Method::POST, &path, wish, 400).await;
        change(&service, &id, json!({"metadata": metadata}), 400).await;
    }
    // The limit counts the pairs of the original, too.
    let path = format!("{SANDBOXES}/{id}/fork");
    let wish = Some(json!({"metadata": {"one-more": "x"}}));
    service.expect(Method::POST, &path, wish, 400).await;
    assert_eq!(found(&service, "").await.1, 1);
}

#[tokio::test]
async fn a_change_sets_and_removes_names_and_pairs() {
    let service = Service::start().await;
    let id = labelled(&service, json!({"a": "1", "b": "2"})).await;
    let changed = change(
        &service,
        &id,
        json!({"name": "new", "metadata": {"a": null, "b": "3", "c": "4", "none": null}}),
        200,
    )
    .await;
    assert_eq!(changed["name"], "new", "{changed}");
    assert_eq!(changed["metadata"], json!({"b": "3", "c": "4"}));
    assert_eq!(found(&service, "metadata=b:3&name_prefix=ne").await.1, 1);
    assert_eq!(found(&service, "metadata=a:1").await.1, 0);

    let same = change(&service, &id, json!({}), 200).await;
    assert_eq!(same, changed);
    let unnamed = change(&service, &id, json!({"name": null}), 200).await;
    assert_eq!(unnamed.get("name"), None, "{unnamed}");
    assert_eq!(unnamed["metadata"], changed["metadata"]);

    for body in [
        json!({"name": ""}),
        json!({"nmae": "x"}),
        json!({"metadata": {"a": 1}}),
    ] {
        let refused = change(&service, &id, body, 400).await;
        assert_eq!(refused["error"]["name"], "INVALID_REQUEST", "{refused}");
    }
    change(&service, "sbx-none", json!({}), 404).await;
    let made = service.post(
        "/api/v1/keys",
        json!({"name": "reader", "limits": {}, "scopes": ["sandboxes:read"]}),
    );
    let key = made.await["secret"].as_str().unwrap().to_owned();
    let path = format!("{SANDBOXES}/{id}");
    let denied = service.expect_as(&key, Method::PATCH, &path, Some(json!({})), 403);
    assert_eq!(denied.await["error"]["name"], "FORBIDDEN");
}

#[tokio::test]
async fn concurrent_changes_keep_all_pairs() {
    let service = Service::start().await;
    let id = labelled(&service, json!({})).await;
    let changes = (0..20).map(|n| {
        let body = json!({"metadata": {n.to_string(): "x"}});
        change(&service, &id, body, 200)
    });
    futures::future::join_all(changes).await;
    let sandbox = service.get(&format!("{SANDBOXES}/{id}")).await;
    assert_eq!(
        sandbox["metadata"].as_object().unwrap().len(),
        20,
        "{sandbox}"
    );
}

#[tokio::test]
async fn a_change_moves_the_expiry_within_the_lifetime() {
    let service = Service::start_with(&[("MAX_SANDBOX_LIFETIME", "7200")]).await;
    let make = async |seconds: u32| {
        let wish = json!({"template": "base", "timeoutSeconds": seconds});
        service.post(SANDBOXES, wish).await
    };
    let (first, soon, late) = (make(3600).await, make(600).await, make(7200).await);
    let id = first["id"].as_str().unwrap();
    // Earlier is allowed as well as later.
    for other in [&soon, &soon] {
        let until = &other["expiresAt"];
        let changed = change(&service, id, json!({"expiresAt": until}), 200).await;
        assert_eq!(&changed["expiresAt"], until);
    }
    // A later sandbox lives until after the last expiry of this one.
    let cases = [
        (late["expiresAt"].clone(), 422, "LIFETIME_EXCEEDED"),
        (json!("9999-01-01T00:00:00Z"), 422, "LIFETIME_EXCEEDED"),
        (first["createdAt"].clone(), 400, "INVALID_REQUEST"),
        (json!("tomorrow"), 400, "INVALID_REQUEST"),
    ];
    for (until, status, name) in cases {
        let refused = change(&service, id, json!({"expiresAt": until}), status).await;
        assert_eq!(refused["error"]["name"], name, "{until}");
    }
    let sandbox = service.get(&format!("{SANDBOXES}/{id}")).await;
    assert_eq!(sandbox["expiresAt"], soon["expiresAt"], "{sandbox}");
}

#[tokio::test]
async fn a_sandbox_names_its_workspace_and_its_origin() {
    let service = Service::start().await;
    let empty = service.post(SANDBOXES, json!({"template": "base"})).await;
    let id = empty["id"].as_str().unwrap();
    assert_eq!(empty["workspace"], empty["id"], "{empty}");
    for absent in ["project", "base", "origin", "workspaceId"] {
        assert_eq!(empty.get(absent), None, "{absent}: {empty}");
    }

    let path = format!("{SANDBOXES}/{id}/snapshot");
    let taken = service.post(&path, json!({})).await;
    let snapshot = taken["id"].as_str();
    let wish = json!({"template": "base", "workspace": {"snapshot": snapshot}});
    let restored = service.post(SANDBOXES, wish).await;
    assert_eq!(restored["base"], json!(snapshot), "{restored}");
    assert_eq!(restored["origin"], json!({"snapshot": snapshot}));

    let path = format!("{SANDBOXES}/{}/fork", restored["id"].as_str().unwrap());
    let forked = service.post(&path, json!({})).await;
    let fork = &forked["succeeded"][0];
    assert_eq!(fork["base"], json!(snapshot), "{fork}");
    assert_eq!(fork["origin"], json!({"sandbox": restored["id"]}));
    let wish = json!({"template": "base", "workspace": {"fork": restored["id"]}});
    let copied = service.post(SANDBOXES, wish).await;
    assert_eq!(copied["origin"], fork["origin"], "{copied}");
    assert_eq!(copied["base"], fork["base"]);

    let project = project(&service, json!({}), &[("file", "one")]).await;
    let head = service.get(&format!("/api/v1/projects/{project}")).await;
    let wish = json!({"template": "base", "workspace": {"project": {"name": project}}});
    let shared = service.post(SANDBOXES, wish).await;
    assert_eq!(shared["project"], json!(project), "{shared}");
    assert_eq!(shared["base"], head["head"], "{shared}");
    let path = format!("{SANDBOXES}/{}/fork", shared["id"].as_str().unwrap());
    let forked = service.post(&path, json!({})).await;
    let fork = &forked["succeeded"][0];
    assert_eq!(fork["project"], json!(project), "{fork}");
    assert_eq!(fork["base"], head["head"], "{fork}");
}

#[tokio::test]
async fn forks_have_the_metadata_and_variables_of_the_original_and_their_own() {
    let service = Service::start().await;
    let wish = json!({
        "template": "base",
        "metadata": {"run": "7", "part": "all"},
        "envs": {"KEPT": "kept", "OURS": "of the original"},
    });
    let original = service.post(SANDBOXES, wish).await;
    let path = format!("{SANDBOXES}/{}/fork", original["id"].as_str().unwrap());
    let wish = json!({
        "count": 2,
        "metadata": {"part": "one", "new": "x"},
        "envs": {"OURS": "of the fork", "ADDED": "added"},
    });
    let forked = service.post(&path, wish).await;
    let forks = forked["succeeded"].as_array().unwrap();
    assert_eq!(forks.len(), 2, "{forked}");
    for fork in forks {
        let pairs = json!({"run": "7", "part": "one", "new": "x"});
        assert_eq!(fork["metadata"], pairs, "{fork}");
        let id = fork["id"].as_str().unwrap();
        let seen = service.output_of(id, "echo $KEPT, $OURS, $ADDED").await;
        assert_eq!(seen, "kept, of the fork, added\n");
    }
    let plain = service.post(&path, json!({})).await;
    assert_eq!(plain["succeeded"][0]["metadata"], original["metadata"]);
    for envs in [json!({"SANDBOX_TOKEN": "x"}), json!({"": "x"})] {
        let wish = Some(json!({"envs": envs}));
        let refused = service.expect(Method::POST, &path, wish, 400).await;
        assert_eq!(refused["error"]["name"], "INVALID_REQUEST", "{envs}");
    }
}
