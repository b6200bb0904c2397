//! Projects: merging, permissions, history, reviews, refreshing.

use std::path::Path;

use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::{KEY, Service, eventually};
use crate::shared::{Ws, agent, at, complete, file, merge, paths, project, read, workspace, write};

const NOTES: &str = "one\ntwo\nthree\nfour\nfive\nsix\n";

/// Two workspaces that changed different parts of the same files; the first is
/// merged.
struct TwoAgents {
    service: Service,
    id: String,
    one: Ws,
    two: Ws,
}

impl TwoAgents {
    async fn start() -> Self {
        let service = Service::start().await;
        let json = "{\n  \"count\": 1,\n  \"name\": \"old\"\n}\n";
        let files = [("notes.md", NOTES), ("a.json", json)];
        let id = project(&service, json!({}), &files).await;
        let (one, two) = (
            workspace(&service, json!({"project": "shared"})).await,
            workspace(&service, json!({"project": id})).await,
        );
        write(&one, "notes.md", &NOTES.replace("one", "ONE"));
        write(&one, "a.json", &json.replace('1', "2"));
        write(&one, "only/one", "1\n");
        write(&two, "notes.md", &NOTES.replace("six", "SIX"));
        write(&two, "a.json", &json.replace("old", "new"));
        write(&two, ".gitignore", "target/\n");
        write(&two, "target/out", "built\n");
        let first = merge(&service, &one).await;
        assert_eq!(first["landedCount"], 4, "{first}");
        Self {
            service,
            id,
            one,
            two,
        }
    }

    async fn file(&self, path: &str) -> Option<String> {
        file(&self.service, &self.id, path).await
    }

    async fn get(&self, what: &str) -> Value {
        let path = format!("/api/v1/projects/{}/{what}", self.id);
        self.service.get(&path).await
    }
}

/// Returns the notes with the changes of both workspaces.
fn merged_notes() -> String {
    NOTES.replace("one", "ONE").replace("six", "SIX")
}

#[tokio::test]
async fn a_rehearsed_merge_changes_nothing() {
    let both = TwoAgents::start().await;
    let (url, wish) = (at(&both.two, "merge"), Some(json!({"dryRun": true})));
    let rehearsed = both.service.expect(Method::POST, &url, wish, 200).await;
    assert_eq!(rehearsed["dryRun"], true);
    let notes = both.file("notes.md").await;
    assert_eq!(notes.unwrap(), NOTES.replace("one", "ONE"));
}

#[tokio::test]
async fn changes_of_two_agents_are_merged() {
    let both = TwoAgents::start().await;
    let second = merge(&both.service, &both.two).await;
    assert_eq!(second["conflictCount"], 0, "{second}");
    assert_eq!(second["local"], 1, "{second}");
    assert_eq!(
        paths(&second["landed"]),
        [".gitignore", "a.json", "notes.md"]
    );
    assert_eq!(both.file("notes.md").await.unwrap(), merged_notes());
    assert_eq!(
        both.file("a.json").await.unwrap(),
        "{\n  \"count\": 2,\n  \"name\": \"new\"\n}\n"
    );
    assert_eq!(both.file("target/out").await, None);
}

#[tokio::test]
async fn nothing_is_merged_twice() {
    let both = TwoAgents::start().await;
    let (service, one, two) = (&both.service, &both.one, &both.two);
    let second = merge(service, two).await;
    let again = merge(service, two).await;
    assert_eq!(again["landedCount"], 0, "nothing is applied twice: {again}");
    assert_eq!(again["head"], second["head"]);

    let refreshed = service
        .expect(Method::POST, &at(one, "refresh"), None, 200)
        .await;
    assert_eq!(refreshed["changedCount"], 3, "{refreshed}");
    assert_eq!(read(one, "notes.md"), merged_notes());
    assert_eq!(merge(service, one).await["landedCount"], 0);
}

#[tokio::test]
async fn log_history_blame_and_diff_show_a_merge() {
    let both = TwoAgents::start().await;
    merge(&both.service, &both.two).await;
    let log = both.get("steps").await;
    let log = log["items"].as_array().unwrap();
    assert_eq!(log.len(), 3);
    for (newer, older) in log.iter().zip(&log[1..]) {
        assert_eq!(newer["parent"], older["snapshot"]);
    }
    let history = both.get("history?path=notes.md").await;
    let steps = history["items"].as_array().unwrap().iter();
    let algorithms: Vec<_> = steps.map(|item| item["algorithm"].clone()).collect();
    assert_eq!(algorithms, ["text", "take", "take"], "{history}");
    let blame = both.get("blame?path=notes.md").await;
    let runs = blame["lines"].as_array().unwrap().iter();
    let blamed: Vec<_> = runs
        .map(|run| (run["start"].clone(), run["step"].clone()))
        .collect();
    assert_eq!(
        blamed,
        [
            (json!(1), json!(2)),
            (json!(2), json!(1)),
            (json!(6), json!(3))
        ],
        "{blame}"
    );
    let url = format!("/api/v1/projects/{}/diff?format=patch", both.id);
    let patch = both.service.request(Method::GET, &url).send().await;
    let patch = patch.unwrap().text().await.unwrap();
    assert!(patch.contains("-six\n+SIX\n"), "{patch}");
}

/// Two workspaces that changed the same file; the first is merged.
struct Conflict {
    service: Service,
    id: String,
    two: Ws,
}

impl Conflict {
    async fn start() -> Self {
        let service = Service::start().await;
        let files = [("a.txt", "base\n"), ("b.txt", "base\n")];
        let id = project(&service, json!({}), &files).await;
        let (one, two) = (
            workspace(&service, json!({"project": id})).await,
            workspace(&service, json!({"project": id})).await,
        );
        write(&one, "a.txt", "one\n");
        write(&two, "a.txt", "two\n");
        write(&two, "c.txt", "lands\n");
        merge(&service, &one).await;
        Self { service, id, two }
    }

    async fn file(&self, path: &str) -> Option<String> {
        file(&self.service, &self.id, path).await
    }

    /// Merges the second workspace; returns the review of its conflict.
    async fn review(&self) -> String {
        let held = merge(&self.service, &self.two).await;
        let review = &held["conflicts"][0]["reviewId"];
        review.as_str().unwrap().to_owned()
    }

    async fn shown(&self, review: &str) -> Value {
        self.service.get(&format!("/api/v1/reviews/{review}")).await
    }

    async fn resolve(&self, review: &str, decision: Value, status: u16) -> Value {
        let url = format!("/api/v1/reviews/{review}/resolve");
        let service = &self.service;
        service
            .expect(Method::POST, &url, Some(decision), status)
            .await
    }

    async fn open_reviews(&self) -> Value {
        let url = format!("/api/v1/reviews?project={}&state=open", self.id);
        self.service.get(&url).await["items"].clone()
    }
}

#[tokio::test]
async fn an_atomic_merge_with_a_conflict_lands_nothing() {
    let conflict = Conflict::start().await;
    let (url, wish) = (at(&conflict.two, "merge"), Some(json!({"atomic": true})));
    let refused = conflict.service.expect(Method::POST, &url, wish, 409).await;
    assert_eq!(refused["error"]["name"], "MERGE_CONFLICT", "{refused}");
    assert_eq!(conflict.file("c.txt").await, None);
}

#[tokio::test]
async fn a_conflict_is_held_and_the_rest_lands() {
    let conflict = Conflict::start().await;
    let held = merge(&conflict.service, &conflict.two).await;
    assert_eq!(paths(&held["landed"]), ["c.txt"]);
    assert_eq!(held["conflicts"][0]["kind"], "content", "{held}");
    let kept = conflict.review().await;
    assert_eq!(
        held["conflicts"][0]["reviewId"],
        json!(kept),
        "the same one"
    );
}

#[tokio::test]
async fn a_newer_change_supersedes_a_review() {
    let conflict = Conflict::start().await;
    let review = conflict.review().await;
    write(&conflict.two, "a.txt", "two again\n");
    let successor = conflict.review().await;
    assert_ne!(successor, review);
    let old = conflict.shown(&review).await;
    assert_eq!(
        (&old["state"], &old["successor"]),
        (&json!("superseded"), &json!(successor))
    );
    let decision = json!({"take": "workspace"});
    let closed = conflict.resolve(&review, decision, 409).await;
    assert_eq!(closed["error"]["name"], "REVIEW_CLOSED");

    let shown = conflict.shown(&successor).await;
    assert_eq!(shown["hunks"][0]["project"], "one\n", "{shown}");
    assert_eq!(shown["hunks"][0]["workspace"], "two again\n");
    for (side, content) in [
        ("base", "base\n"),
        ("project", "one\n"),
        ("workspace", "two again\n"),
    ] {
        let url = format!("/api/v1/reviews/{successor}/content?side={side}");
        let answer = conflict.service.request(Method::GET, &url).send().await;
        assert_eq!(answer.unwrap().text().await.unwrap(), content);
    }
}

#[tokio::test]
async fn a_decision_is_merged_with_the_new_head() {
    let conflict = Conflict::start().await;
    let service = &conflict.service;
    conflict.review().await;
    write(&conflict.two, "a.txt", "two again\n");
    let review = conflict.review().await;
    let three = workspace(service, json!({"project": conflict.id})).await;
    write(&three, "a.txt", "three\n");
    merge(service, &three).await;
    let decision = json!({"take": "workspace"});
    let open = conflict.resolve(&review, decision, 200).await;
    assert_eq!(
        (&open["state"], &open["reopened"]),
        (&json!("open"), &json!(1)),
        "{open}"
    );
    assert_eq!(conflict.file("a.txt").await.unwrap(), "three\n");
    let decision = json!({"take": "edited", "content": "all\n"});
    let decided = conflict.resolve(&review, decision, 200).await;
    assert_eq!(decided["state"], "resolved", "{decided}");
    assert_eq!(conflict.file("a.txt").await.unwrap(), "all\n");
    let after = merge(service, &conflict.two).await;
    assert_eq!(
        (&after["landedCount"], &after["conflictCount"]),
        (&json!(0), &json!(0)),
        "{after}"
    );
    assert_eq!(conflict.open_reviews().await, json!([]));
}

#[tokio::test]
async fn a_review_outlives_its_workspace() {
    let conflict = Conflict::start().await;
    let (service, two) = (&conflict.service, &conflict.two);
    write(two, "a.txt", "one\n");
    let four = workspace(service, json!({"project": conflict.id})).await;
    write(two, "b.txt", "two's b\n");
    merge(service, two).await;
    write(&four, "b.txt", "four's b\n");
    let held = merge(service, &four).await;
    assert_eq!(held["conflictCount"], 1, "{held}");
    let url = format!("/api/v1/workspaces/{}", four.id);
    service.expect(Method::DELETE, &url, None, 204).await;
    let review = held["conflicts"][0]["reviewId"].as_str().unwrap();
    let decision = json!({"take": "nothing"});
    let rejected = conflict.resolve(review, decision, 200).await;
    assert_eq!(rejected["state"], "rejected");
    assert_eq!(conflict.open_reviews().await, json!([]));
}

/// A project whose policy treats two agents differently.
struct Agents {
    service: Service,
    id: String,
    alice: String,
    bob: String,
}

impl Agents {
    async fn start() -> Self {
        let service = Service::start().await;
        let ((alice, alice_key), (bob, bob_key)) =
            (agent(&service, "alice").await, agent(&service, "bob").await);
        let policy = json!({
            "default": "r",
            "rules": [
                {"pattern": "alice/**", "access": "none"},
                {"pattern": "alice/**", "agents": [alice], "access": "rw"},
                {"pattern": "bob/**", "access": "none"},
                {"pattern": "bob/**", "agents": [bob], "access": "rw"},
                {"pattern": "dropbox/**", "access": "ra"},
                {"pattern": "core/**", "agents": [alice], "access": "rw"},
                {"pattern": "core/**", "merge": "review"},
            ],
        });
        let made = service.post("/api/v1/projects", json!({"name": "p"})).await;
        let id = made["id"].as_str().unwrap().to_owned();
        let ws = workspace(&service, json!({"project": id})).await;
        for path in ["alice/a", "bob/secret", "dropbox/old", "config", "core/c"] {
            write(&ws, path, "first\n");
        }
        complete(&service, &ws).await;
        let (url, wish) = (
            format!("/api/v1/projects/{id}/policy"),
            Some(json!({"policy": policy})),
        );
        service.expect(Method::PUT, &url, wish, 200).await;
        Self {
            service,
            id,
            alice: alice_key,
            bob: bob_key,
        }
    }

    async fn ask(&self, key: &str, method: Method, url: &str, status: u16) -> Value {
        self.service.expect_as(key, method, url, None, status).await
    }

    async fn workspace(&self, key: &str, wish: Value) -> Ws {
        let url = "/api/v1/workspaces";
        let made = self
            .service
            .expect_as(key, Method::POST, url, Some(wish), 201);
        let made = made.await;
        Ws {
            id: made["id"].as_str().unwrap().to_owned(),
            path: made["path"].as_str().unwrap().into(),
        }
    }

    async fn merge(&self, key: &str, ws: &Ws) -> Value {
        self.ask(key, Method::POST, &at(ws, "merge"), 200).await
    }

    async fn file(&self, path: &str) -> Option<String> {
        file(&self.service, &self.id, path).await
    }

    /// Bob changes a file that is hidden from Alice, and adds a report.
    async fn work_of_bob(&self) -> Ws {
        let bobs = self.workspace(&self.bob, json!({"project": "p"})).await;
        write(&bobs, "dropbox/report.md", "bob's\n");
        write(&bobs, "bob/secret", "changed by bob\n");
        self.merge(&self.bob, &bobs).await;
        bobs
    }

    /// Alice changes a protected file; returns the merge.
    async fn work_of_alice(&self) -> Value {
        let ws = self.workspace(&self.alice, json!({"project": "p"})).await;
        assert!(!ws.path.join("bob").exists(), "what is hidden is not there");
        assert_eq!(read(&ws, "config"), "first\n");
        write(&ws, "alice/a", "changed\n");
        write(&ws, "config", "hacked\n");
        write(&ws, "bob/secret", "hacked\n");
        write(&ws, "dropbox/new", "from alice\n");
        write(&ws, "dropbox/old", "hacked\n");
        write(&ws, "core/c", "changed\n");
        self.merge(&self.alice, &ws).await
    }
}

#[tokio::test]
async fn an_agent_sees_and_changes_what_the_policy_says() {
    let agents = Agents::start().await;
    let merged = agents.work_of_alice().await;
    assert_eq!(
        paths(&merged["landed"]),
        ["alice/a", "dropbox/new"],
        "{merged}"
    );
    assert_eq!(
        paths(&merged["refused"]),
        ["bob/secret", "config", "dropbox/old"],
        "{merged}"
    );
    assert_eq!(merged["conflicts"][0]["kind"], "protected", "{merged}");
    assert_eq!(agents.file("bob/secret").await.unwrap(), "first\n");
}

#[tokio::test]
async fn agents_that_may_only_add_can_add_the_same_name() {
    let agents = Agents::start().await;
    let other = json!({"project": "p"});
    let other = agents.workspace(&agents.alice, other).await;
    agents.work_of_bob().await;
    write(&other, "dropbox/report.md", "alice's\n");
    let second = agents.merge(&agents.alice, &other).await;
    let landed = &second["landed"][0]["path"];
    assert_eq!(landed, "dropbox/report-2.md", "{second}");
    let bobs = agents.file("dropbox/report.md").await;
    assert_eq!(bobs.unwrap(), "bob's\n");
    let alices = agents.file("dropbox/report-2.md").await;
    assert_eq!(alices.unwrap(), "alice's\n");
}

#[tokio::test]
async fn an_agent_gets_nothing_about_the_files_of_another() {
    let agents = Agents::start().await;
    agents.work_of_alice().await;
    agents.work_of_bob().await;
    let (id, key) = (&agents.id, &agents.alice);
    for url in [
        format!("/api/v1/projects/{id}/files/list"),
        format!("/api/v1/projects/{id}/steps"),
        format!("/api/v1/projects/{id}/diff"),
        format!("/api/v1/projects/{id}/history?path=bob/secret"),
        "/api/v1/reviews".to_owned(),
    ] {
        let answer = agents.ask(key, Method::GET, &url, 200).await;
        assert!(!answer.to_string().contains("secret"), "{url}: {answer}");
        assert!(!answer.to_string().contains("\"bob"), "{url}: {answer}");
    }
    for what in ["files", "blame"] {
        let url = format!("/api/v1/projects/{id}/{what}?path=bob/secret");
        agents.ask(key, Method::GET, &url, 404).await;
    }
}

#[tokio::test]
async fn the_workspace_of_another_agent_is_not_found() {
    let agents = Agents::start().await;
    let bobs = agents.work_of_bob().await;
    for (method, url) in [
        (Method::GET, format!("/api/v1/workspaces/{}", bobs.id)),
        (Method::POST, at(&bobs, "merge")),
        (Method::POST, at(&bobs, "refresh")),
        (Method::DELETE, format!("/api/v1/workspaces/{}", bobs.id)),
    ] {
        agents.ask(&agents.alice, method, &url, 404).await;
    }
}

#[tokio::test]
async fn the_snapshot_of_another_agent_gives_no_access() {
    let agents = Agents::start().await;
    let service = &agents.service;
    let other = json!({"project": "p"});
    let other = agents.workspace(&agents.alice, other).await;
    let bobs = agents.work_of_bob().await;
    write(&other, "dropbox/report.md", "alice's\n");
    let alices = agents.merge(&agents.alice, &other).await["snapshot"].clone();
    let url = format!("/api/v1/projects/{}", agents.id);
    let head = service.get(&url).await["head"].clone();
    let url = format!("/api/v1/workspaces/{}", bobs.id);
    let of_bob = service.get(&url).await["synced"].clone();
    let create = async |snapshot: &Value, status: u16| {
        let wish = json!({"template": "base", "workspace": {"snapshot": snapshot}});
        let (wish, url) = (Some(wish), "/api/v1/sandboxes");
        service
            .expect_as(&agents.alice, Method::POST, url, wish, status)
            .await
    };
    for snapshot in [&head, &of_bob] {
        let refused = create(snapshot, 404).await;
        assert_eq!(refused["error"]["name"], "SNAPSHOT_NOT_FOUND", "{refused}");
    }
    let own = create(&alices, 201).await;
    service.delete(own["id"].as_str().unwrap()).await;
    let wish = json!({"project": "p", "snapshot": head});
    let made = agents.workspace(&agents.alice, wish).await;
    assert!(!made.path.join("bob").exists());
}

/// An agent cannot accept its own change; another may.
#[tokio::test]
async fn an_agent_cannot_decide_about_its_own_change() {
    let agents = Agents::start().await;
    let merged = agents.work_of_alice().await;
    let review = merged["conflicts"][0]["reviewId"].as_str().unwrap();
    let url = format!("/api/v1/reviews/{review}/resolve");
    let resolve = async |key: &str, status: u16| {
        let wish = Some(json!({"take": "workspace"}));
        let service = &agents.service;
        service
            .expect_as(key, Method::POST, &url, wish, status)
            .await
    };
    let own = resolve(&agents.alice, 403).await;
    assert_eq!(own["error"]["name"], "FORBIDDEN", "{own}");
    let read_only = resolve(&agents.bob, 403).await;
    assert_eq!(read_only["error"]["name"], "POLICY_REFUSED", "{read_only}");
    resolve(KEY, 200).await;
    assert_eq!(agents.file("core/c").await.unwrap(), "changed\n");
}

#[tokio::test]
async fn workspaces_keep_up_by_themselves() {
    let service = Service::start().await;
    // A merge and a refresh of one workspace can meet; the next run retries.
    service.expect_complaint("of a workspace failed");
    let id = project(&service, json!({}), &[("a", "1\n")]).await;
    let sync = |mode: &str, seconds: u32| json!({"project": id, "sync": {"mode": mode, "seconds": seconds}});
    let lazy = workspace(&service, sync("lazy", 1)).await;
    let regular = workspace(&service, sync("regular", 1)).await;
    let event = workspace(&service, json!({"project": id, "sync": {"mode": "event"}})).await;
    write(&regular, "from-regular", "r\n");
    write(&event, "from-event", "e\n");
    write(&lazy, "from-lazy", "l\n");
    let everywhere = |name: &str| {
        [&lazy, &regular, &event]
            .iter()
            .all(|ws| ws.path.join(name).exists())
    };
    eventually("what is merged by itself is everywhere", async || {
        everywhere("from-regular") && everywhere("from-event")
    })
    .await;
    assert_eq!(
        file(&service, &id, "from-lazy").await,
        None,
        "merged only when asked"
    );
    assert!(Path::new(&lazy.path.join("from-lazy")).exists());
}

/// Tests that need a real container engine.
mod on_docker {
    use super::*;

    #[tokio::test]
    async fn readers_follow_the_head_in_their_containers() {
        let service = Service::with_docker().await;
        let id = project(&service, json!({}), &[("a", "1\n"), ("b", "1\n")]).await;
        let wish = json!({"template": "base", "workspace": {"project":
        {"name": "shared", "readOnly": true, "sync": {"mode": "event"}}}});
        let reader = service.post("/api/v1/sandboxes", wish).await;
        let reader = reader["id"].as_str().unwrap();
        assert_eq!(service.output_of(reader, "cat a").await, "1\n");
        let denied = service.run_in(reader, "echo x > a").await;
        assert_ne!(denied["exitCode"], 0, "{denied}");
        let writer = json!({"template": "base", "workspace": {"project": {"name": "shared"}}});
        let writer = service.post("/api/v1/sandboxes", writer).await;
        let writer = writer["id"].as_str().unwrap();
        service
            .output_of(writer, "echo 2 > a && echo 2 > b && rm -f c")
            .await;
        let merged = service
            .expect(
                Method::POST,
                &format!("/api/v1/workspaces/{writer}/merge"),
                None,
                200,
            )
            .await;
        assert_eq!(paths(&merged["landed"]), ["a", "b"]);
        assert_eq!(merged["project"], json!(id));
        eventually("the reader sees the new head", async || {
            service
                .output_of(reader, "cat /workspace/a /workspace/b")
                .await
                == "2\n2\n"
        })
        .await;

        let busy = service
            .expect(Method::DELETE, &format!("/api/v1/projects/{id}"), None, 409)
            .await;
        assert_eq!(busy["error"]["name"], "WORKSPACE_IN_USE");
        service.delete(reader).await;
        service.delete(writer).await;
        service
            .expect(Method::DELETE, &format!("/api/v1/projects/{id}"), None, 204)
            .await;
        service
            .expect(Method::GET, &format!("/api/v1/projects/{id}"), None, 404)
            .await;
    }
}
