//! Merges of several workspaces by one request.

use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::Service;
use crate::shared::{Ws, agent, file, project, workspace, write};

const NOTES: &str = "one\ntwo\nthree\nfour\nfive\nsix\n";

/// A project with two agents, each with a workspace.
struct Two {
    service: Service,
    project: String,
    agents: [String; 2],
    workspaces: [Ws; 2],
}

impl Two {
    async fn start(policy: Value) -> Self {
        let service = Service::start_without_engine(&[]);
        let project = project(&service, policy, &[("notes.md", NOTES)]).await;
        let (mut agents, mut workspaces) = (Vec::new(), Vec::new());
        for name in ["alice", "bob"] {
            let (id, key) = agent(&service, name).await;
            let wish = Some(json!({"project": project, "name": format!("of-{name}")}));
            let path = "/api/v1/workspaces";
            let made = service.expect_as(&key, Method::POST, path, wish, 201).await;
            agents.push(id);
            workspaces.push(Ws {
                id: made["id"].as_str().unwrap().to_owned(),
                path: made["path"].as_str().unwrap().into(),
            });
        }
        Self {
            service,
            project,
            agents: agents.try_into().unwrap(),
            workspaces: workspaces.try_into().ok().unwrap(),
        }
    }

    fn ids(&self) -> [&str; 2] {
        [&self.workspaces[0].id, &self.workspaces[1].id]
    }

    async fn merge(&self, wish: Value, status: u16) -> Value {
        let path = format!("/api/v1/projects/{}/merge", self.project);
        let wish = Some(wish);
        self.service.expect(Method::POST, &path, wish, status).await
    }

    async fn get(&self, what: &str) -> Value {
        let path = format!("/api/v1/projects/{}{what}", self.project);
        self.service.get(&path).await
    }

    async fn notes(&self) -> String {
        let notes = file(&self.service, &self.project, "notes.md").await;
        notes.unwrap()
    }

    /// Changes the same line in both workspaces, and another file in each.
    fn write_conflict(&self) {
        for (ws, word) in self.workspaces.iter().zip(["ALICE", "BOB"]) {
            write(ws, "notes.md", &NOTES.replace("three", word));
            write(ws, word, "content\n");
        }
    }
}

#[tokio::test]
async fn an_atomic_merge_lands_all_workspaces_at_once() {
    let two = Two::start(json!({})).await;
    let [alice, bob] = &two.workspaces;
    write(alice, "notes.md", &NOTES.replace("one", "ONE"));
    write(alice, "a", "of alice\n");
    write(bob, "notes.md", &NOTES.replace("six", "SIX"));
    write(bob, "b", "of bob\n");
    let before = two.get("").await["step"].as_u64().unwrap();
    let wish = json!({"workspaces": two.ids(), "atomic": true, "message": "both"});
    let merged = two.merge(wish.clone(), 200).await;
    assert_eq!(merged["failed"], json!([]), "{merged}");
    let merged = merged["succeeded"].as_array().unwrap();
    let head = two.get("").await;
    assert_eq!(head["step"], before + 2);
    for (at, one) in merged.iter().enumerate() {
        assert_eq!(one["workspace"], two.ids()[at], "{one}");
        assert_eq!(one["result"]["step"], before + 1 + at as u64, "{one}");
        assert_eq!(one["result"]["landedCount"], 2, "{one}");
    }
    assert_eq!(merged[1]["result"]["head"], head["head"]);
    let both = NOTES.replace("one", "ONE").replace("six", "SIX");
    assert_eq!(two.notes().await, both);
    // Each step and each version has its own agent and workspace.
    let log = two.get("/steps?limit=2").await;
    for (step, at) in log["items"].as_array().unwrap().iter().zip([1, 0]) {
        assert_eq!(step["agent"], two.agents[at], "{step}");
        assert_eq!(step["workspace"], two.ids()[at], "{step}");
        assert_eq!(step["message"], "both", "{step}");
    }
    for (path, at) in [("a", 0), ("b", 1)] {
        let history = two.get(&format!("/history?path={path}")).await;
        let version = &history["items"][0];
        assert_eq!(version["agent"], two.agents[at], "{history}");
    }
    // A repetition has nothing to land.
    let again = two.merge(wish, 200).await;
    let results = again["succeeded"].as_array().unwrap();
    assert!(results.iter().all(|one| one["result"]["landedCount"] == 0));
    assert_eq!(two.get("").await["head"], head["head"]);
}

#[tokio::test]
async fn a_conflict_between_two_workspaces_prevents_the_atomic_merge() {
    let two = Two::start(json!({})).await;
    two.write_conflict();
    let before = two.get("").await;
    let wish = json!({"workspaces": two.ids(), "atomic": true});
    let refused = two.merge(wish, 409).await;
    let error = &refused["error"];
    assert_eq!(error["name"], "MERGE_CONFLICT", "{refused}");
    assert_eq!(error["details"]["workspace"], two.ids()[1], "{refused}");
    let path = &error["details"]["conflicts"][0]["path"];
    assert_eq!(path, "notes.md", "{refused}");
    assert_eq!(two.get("").await["head"], before["head"]);
    assert_eq!(two.notes().await, NOTES);
    let reviews = two.service.get("/api/v1/reviews").await;
    assert_eq!(reviews["items"], json!([]), "no review was opened");
    // The other workspace alone can land.
    let wish = json!({"workspaces": [two.ids()[0]], "atomic": true});
    two.merge(wish, 200).await;
    assert_eq!(two.notes().await, NOTES.replace("three", "ALICE"));
}

#[tokio::test]
async fn a_change_that_is_not_allowed_prevents_the_atomic_merge() {
    let rules = json!({"rules": [{"pattern": "core/**", "access": "r"}]});
    let two = Two::start(rules).await;
    let [alice, bob] = &two.workspaces;
    write(alice, "open", "content\n");
    write(bob, "core/secret", "content\n");
    let wish = json!({"workspaces": two.ids(), "atomic": true});
    let refused = two.merge(wish, 409).await;
    let details = &refused["error"]["details"];
    assert_eq!(details["workspace"], two.ids()[1], "{refused}");
    let path = details["refused"][0]["path"].as_str().unwrap();
    assert!(path.starts_with("core"), "{refused}");
    assert_eq!(file(&two.service, &two.project, "open").await, None);
}

#[tokio::test]
async fn workspaces_are_merged_one_by_one_and_each_result_is_reported() {
    let two = Two::start(json!({})).await;
    two.write_conflict();
    let wish = json!({"project": two.project, "readOnly": true});
    let reader = workspace(&two.service, wish).await;
    let names = ["of-bob", "nothing", &reader.id, "of-alice"];
    let wish = json!({"workspaces": names, "dryRun": true});
    let rehearsed = two.merge(wish, 200).await;
    assert_eq!(two.notes().await, NOTES, "a dry run lands nothing");
    let done = two.merge(json!({"workspaces": names}), 200).await;
    for (done, is_rehearsal) in [(&rehearsed, true), (&done, false)] {
        let results = done["succeeded"].as_array().unwrap();
        let order: Vec<_> = results.iter().map(|one| &one["workspace"]).collect();
        assert_eq!(order, [two.ids()[1], two.ids()[0]], "{done}");
        let counts = |at: usize| {
            let result = &results[at]["result"];
            assert_eq!(result["dryRun"], is_rehearsal, "{result}");
            [&result["landedCount"], &result["conflictCount"]].map(|it| it.as_u64().unwrap())
        };
        assert_eq!([counts(0), counts(1)], [[2, 0], [1, 1]], "{done}");
        let failed = done["failed"].as_array().unwrap().iter();
        let failed: Vec<_> = failed
            .map(|one| (one["id"].clone(), one["error"]["name"].clone()))
            .collect();
        let expected = [
            (json!("nothing"), json!("WORKSPACE_NOT_FOUND")),
            (json!(reader.id), json!("WORKSPACE_READ_ONLY")),
        ];
        assert_eq!(failed, expected, "{done}");
    }
    assert_eq!(two.notes().await, NOTES.replace("three", "BOB"));
    let reviews = two.service.get("/api/v1/reviews").await;
    assert_eq!(reviews["items"].as_array().unwrap().len(), 1, "{reviews}");
}

#[tokio::test]
async fn a_batch_that_cannot_be_merged_is_rejected() {
    let two = Two::start(json!({})).await;
    let other = json!({"name": "other"});
    let other = two.service.post("/api/v1/projects", other).await;
    let elsewhere = workspace(&two.service, json!({"project": other["id"]})).await;
    let twice = [two.ids()[0], "of-alice"];
    let many = vec!["ws"; 51];
    for wish in [
        json!({"workspaces": []}),
        json!({"workspaces": many}),
        json!({"workspaces": twice}),
        json!({"workspaces": [elsewhere.id], "atomic": true}),
    ] {
        two.merge(wish, 400).await;
    }
    let wish = json!({"workspaces": ["nothing", "of-bob"], "atomic": true});
    let missing = two.merge(wish, 404).await;
    assert_eq!(missing["error"]["details"]["workspace"], "nothing");
    let wish = json!({"workspaces": ["of-bob"], "strategy": "crdt"});
    let denied = two.merge(wish, 403).await;
    assert_eq!(denied["error"]["name"], "POLICY_REFUSED", "{denied}");
    // A name means the workspace of this project, not that of another one.
    let wish = json!({"project": other["id"], "name": "of-bob"});
    workspace(&two.service, wish).await;
    let done = two.merge(json!({"workspaces": ["of-bob"]}), 200).await;
    assert_eq!(done["failed"], json!([]), "{done}");
}
