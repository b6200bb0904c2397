//! Policies bind the agents that they name.

use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::{Service, eventually};
use crate::shared::{Ws, agent, at, file, paths, project, write};

const FILES: [(&str, &str); 2] = [("src/app.py", "first\n"), ("docs/a.md", "first\n")];

async fn workspace_as(service: &Service, key: &str, project: &str) -> Ws {
    let wish = Some(json!({"project": project}));
    let url = "/api/v1/workspaces";
    let made = service.expect_as(key, Method::POST, url, wish, 201).await;
    Ws {
        id: made["id"].as_str().unwrap().to_owned(),
        path: made["path"].as_str().unwrap().into(),
    }
}

async fn merge_as(service: &Service, key: &str, ws: &Ws) -> Value {
    let url = at(ws, "merge");
    service.expect_as(key, Method::POST, &url, None, 200).await
}

fn policy_url(project: &str) -> String {
    format!("/api/v1/projects/{project}/policy")
}

async fn set_policy(service: &Service, project: &str, policy: &Value, status: u16) -> Value {
    let wish = Some(json!({"policy": policy}));
    let url = policy_url(project);
    service.expect(Method::PUT, &url, wish, status).await
}

#[tokio::test]
async fn a_policy_binds_agents_by_name_and_by_id() {
    let service = Service::start_without_engine(&[]);
    let (alice, alice_key) = agent(&service, "alice").await;
    let (bob, bob_key) = agent(&service, "bob").await;
    let id = project(&service, json!({}), &FILES).await;
    let policy = json!({
        "rules": [
            {"pattern": "src", "agents": ["alice", bob], "access": "r"},
            {"pattern": "docs", "roles": ["reader"], "access": "r"},
        ],
        "members": {"alice": {"roles": ["reader"]}},
    });
    let set = set_policy(&service, &id, &policy, 200).await;
    let stored = service.get(&policy_url(&id)).await;
    assert_eq!(set, stored, "the answer is what is stored");
    assert_eq!(
        stored["policy"]["rules"][0]["agents"],
        json!([alice, bob]),
        "stored by id"
    );
    assert!(stored["policy"]["members"][&alice].is_object(), "{stored}");

    let refused = [
        (&alice_key, json!(["docs/a.md", "src/app.py"])),
        (&bob_key, json!(["src/app.py"])),
    ];
    for (key, expected) in refused {
        let ws = workspace_as(&service, key, &id).await;
        for (path, _) in FILES {
            write(&ws, path, "changed\n");
        }
        let merged = merge_as(&service, key, &ws).await;
        assert_eq!(json!(paths(&merged["refused"])), expected, "{merged}");
    }
    assert_eq!(file(&service, &id, "src/app.py").await.unwrap(), "first\n");
}

#[tokio::test]
async fn a_policy_that_names_an_unknown_agent_is_refused() {
    let service = Service::start_without_engine(&[]);
    agent(&service, "alice").await;
    let id = project(&service, json!({}), &FILES).await;
    let policy = json!({
        "rules": [{"pattern": "src", "agents": ["alice", "nosuch"], "access": "r"}],
        "members": {"neither": {"roles": ["reader"]}},
    });
    let create = json!({"name": "other", "policy": policy});
    let answers = [
        set_policy(&service, &id, &policy, 422).await,
        service
            .expect(Method::POST, "/api/v1/projects", Some(create), 422)
            .await,
    ];
    for answer in answers {
        let error = &answer["error"];
        assert_eq!(error["name"], "POLICY_INVALID", "{error}");
        let message = error["message"].as_str().unwrap();
        for expected in ["`nosuch`", "`neither`", "`elevo agent ls`"] {
            assert!(message.contains(expected), "{expected}: {message}");
        }
        assert!(!message.contains("alice"), "{message}");
    }
    let stored = service.get(&policy_url(&id)).await;
    assert_eq!(stored["version"], 1, "the old one holds: {stored}");
}

#[tokio::test]
async fn a_policy_that_was_stored_with_names_binds_them() {
    let mut service = Service::start_without_engine(&[]);
    service.expect_complaint("the policy names agents that do not exist");
    let (_, alice_key) = agent(&service, "alice").await;
    let id = project(&service, json!({}), &FILES).await;
    service.stop();
    let policy = json!({
        "rules": [{"pattern": "src", "agents": ["alice", "later"], "access": "r"}],
    });
    service
        .sql(&format!(
            "UPDATE policies SET policy = '{policy}' WHERE project = '{id}'"
        ))
        .await;
    service.run();

    let ws = workspace_as(&service, &alice_key, &id).await;
    write(&ws, "src/app.py", "changed\n");
    let merged = merge_as(&service, &alice_key, &ws).await;
    assert_eq!(paths(&merged["refused"]), ["src/app.py"], "{merged}");
    eventually("the log names the agent that is missing", async || {
        service.logged("there is no agent `later`")
    })
    .await;

    // The policy names an agent that does not exist yet. It binds the agent
    // from its creation on.
    let (_, later_key) = agent(&service, "later").await;
    let ws = workspace_as(&service, &later_key, &id).await;
    write(&ws, "src/app.py", "changed\n");
    let merged = merge_as(&service, &later_key, &ws).await;
    assert_eq!(paths(&merged["refused"]), ["src/app.py"], "{merged}");
}

const JSON: &str = "{\n  \"a\": 1,\n  \"b\": 1,\n  \"c\": 1\n}\n";

/// The JSON with some values replaced.
fn json_with(pairs: &[(&str, u8)]) -> String {
    let replace = |text: String, (key, value): &(&str, u8)| {
        text.replace(&format!("\"{key}\": 1"), &format!("\"{key}\": {value}"))
    };
    pairs.iter().fold(JSON.to_owned(), replace)
}

#[tokio::test]
async fn last_writer_and_priority_settle_only_what_conflicts() {
    let service = Service::start_without_engine(&[]);
    let (_, senior) = agent(&service, "senior").await;
    let (_, junior) = agent(&service, "junior").await;
    let policy = json!({
        "rules": [
            {"pattern": "last.json", "merge": "last-writer"},
            {"pattern": "first.json", "merge": "priority"},
        ],
        "members": {"senior": {"priority": 10}, "junior": {"priority": 1}},
    });
    let files = [("last.json", JSON), ("first.json", JSON)];
    let id = project(&service, policy, &files).await;
    let first = workspace_as(&service, &senior, &id).await;
    let second = workspace_as(&service, &junior, &id).await;
    for name in ["last.json", "first.json"] {
        write(&first, name, &json_with(&[("a", 2), ("c", 2)]));
        write(&second, name, &json_with(&[("b", 3), ("c", 3)]));
    }
    merge_as(&service, &senior, &first).await;
    let merged = merge_as(&service, &junior, &second).await;
    assert_eq!(merged["conflictCount"], 0, "{merged}");
    assert_eq!(merged["overruled"], json!(["first.json"]), "{merged}");
    let last = file(&service, &id, "last.json").await.unwrap();
    assert_eq!(last, json_with(&[("a", 2), ("b", 3), ("c", 3)]));
    let first = file(&service, &id, "first.json").await.unwrap();
    assert_eq!(first, json_with(&[("a", 2), ("b", 3), ("c", 2)]));
}

/// Files of one merge, enough for its computation to take a while.
const MANY: usize = 1500;

#[tokio::test]
async fn a_policy_that_was_set_binds_merges_that_began_before() {
    let service = Service::start_without_engine(&[]);
    let (_, key) = agent(&service, "alice").await;
    let id = project(&service, json!({}), &FILES).await;
    // Any round may land before the policy is set; no round may land after it.
    for round in 0..8_u64 {
        set_policy(&service, &id, &json!({}), 200).await;
        let ws = workspace_as(&service, &key, &id).await;
        for number in 0..MANY {
            write(&ws, &format!("src/{number}.txt"), &format!("{round}\n"));
        }
        let request = service
            .http
            .post(format!("{}{}", service.url, at(&ws, "merge")));
        let merging = tokio::spawn(request.bearer_auth(&key).send());
        // The policy is set at another moment of the merge in each round; the
        // server does not report how far a merge is. Both orders are correct.
        tokio::time::sleep(std::time::Duration::from_millis(20 * round)).await;
        let read_only = json!({"rules": [{"pattern": "src", "agents": ["alice"], "access": "r"}]});
        set_policy(&service, &id, &read_only, 200).await;
        let before = service.get(&format!("/api/v1/projects/{id}")).await;
        let merged = merging.await.unwrap().unwrap();
        assert_eq!(merged.status(), 200);
        let merged: Value = merged.json().await.unwrap();
        match merged["step"].as_u64() {
            Some(sequence) => assert!(
                sequence <= before["step"].as_u64().unwrap(),
                "step {sequence} of round {round} landed after its policy was set"
            ),
            None => assert!(merged["refusedCount"].as_u64() > Some(0), "{merged}"),
        }
    }
}
