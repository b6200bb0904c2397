//! Projects: merging, permissions, history, reviews, refreshing.

use std::path::Path;

use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::{Service, eventually};
use crate::shared::{Ws, agent, at, complete, file, merge, paths, project, read, workspace, write};

#[tokio::test]
async fn changes_of_two_agents_are_merged() {
    let service = Service::start().await;
    let text = "one\ntwo\nthree\nfour\nfive\nsix\n";
    let id = project(
        &service,
        json!({}),
        &[
            ("notes.md", text),
            ("a.json", "{\n  \"count\": 1,\n  \"name\": \"old\"\n}\n"),
        ],
    )
    .await;
    let (one, two) = (
        workspace(&service, json!({"project": "shared"})).await,
        workspace(&service, json!({"project": id})).await,
    );
    write(&one, "notes.md", &text.replace("one", "ONE"));
    write(
        &one,
        "a.json",
        "{\n  \"count\": 2,\n  \"name\": \"old\"\n}\n",
    );
    write(&one, "only/one", "1\n");
    write(&two, "notes.md", &text.replace("six", "SIX"));
    write(
        &two,
        "a.json",
        "{\n  \"count\": 1,\n  \"name\": \"new\"\n}\n",
    );
    write(&two, ".gitignore", "target/\n");
    write(&two, "target/out", "built\n");

    let first = merge(&service, &one).await;
    assert_eq!(first["landedCount"], 4, "{first}");
    let rehearsed = service
        .expect(
            Method::POST,
            &at(&two, "merge"),
            Some(json!({"dryRun": true})),
            200,
        )
        .await;
    assert_eq!(rehearsed["dryRun"], true);
    assert_eq!(
        file(&service, &id, "notes.md").await.unwrap(),
        text.replace("one", "ONE")
    );
    let second = merge(&service, &two).await;
    assert_eq!(second["conflictCount"], 0, "{second}");
    assert_eq!(second["local"], 1, "{second}");
    assert_eq!(
        paths(&second["landed"]),
        [".gitignore", "a.json", "notes.md"]
    );
    let merged = text.replace("one", "ONE").replace("six", "SIX");
    assert_eq!(file(&service, &id, "notes.md").await.unwrap(), merged);
    assert_eq!(
        file(&service, &id, "a.json").await.unwrap(),
        "{\n  \"count\": 2,\n  \"name\": \"new\"\n}\n"
    );
    assert_eq!(file(&service, &id, "target/out").await, None);

    let again = merge(&service, &two).await;
    assert_eq!(again["landedCount"], 0, "nothing is applied twice: {again}");
    assert_eq!(again["head"], second["head"]);

    let refreshed = service
        .expect(Method::POST, &at(&one, "refresh"), None, 200)
        .await;
    assert_eq!(refreshed["changedCount"], 3, "{refreshed}");
    assert_eq!(read(&one, "notes.md"), merged);
    assert_eq!(merge(&service, &one).await["landedCount"], 0);

    let log = service.get(&format!("/api/v1/projects/{id}/log")).await;
    let log = log["items"].as_array().unwrap();
    assert_eq!(log.len(), 3);
    for (newer, older) in log.iter().zip(&log[1..]) {
        assert_eq!(newer["parent"], older["snapshot"]);
    }
    let history = service
        .get(&format!("/api/v1/projects/{id}/history?path=notes.md"))
        .await;
    let algorithms: Vec<_> = history["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| item["algorithm"].clone())
        .collect();
    assert_eq!(algorithms, ["text", "take", "take"], "{history}");
    let blame = service
        .get(&format!("/api/v1/projects/{id}/blame?path=notes.md"))
        .await;
    let blamed: Vec<_> = blame["lines"]
        .as_array()
        .unwrap()
        .iter()
        .map(|run| (run["start"].clone(), run["sequence"].clone()))
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
    let patch = service
        .request(
            Method::GET,
            &format!("/api/v1/projects/{id}/diff?format=patch"),
        )
        .send()
        .await
        .unwrap()
        .text()
        .await
        .unwrap();
    assert!(patch.contains("-six\n+SIX\n"), "{patch}");
}

#[tokio::test]
async fn a_conflict_is_held_and_decided() {
    let service = Service::start().await;
    let id = project(
        &service,
        json!({}),
        &[("a.txt", "base\n"), ("b.txt", "base\n")],
    )
    .await;
    let (one, two) = (
        workspace(&service, json!({"project": id})).await,
        workspace(&service, json!({"project": id})).await,
    );
    write(&one, "a.txt", "one\n");
    write(&two, "a.txt", "two\n");
    write(&two, "c.txt", "lands\n");
    merge(&service, &one).await;

    let refused = service
        .expect(
            Method::POST,
            &at(&two, "merge"),
            Some(json!({"atomic": true})),
            409,
        )
        .await;
    assert_eq!(refused["error"]["name"], "MERGE_CONFLICT", "{refused}");
    assert_eq!(file(&service, &id, "c.txt").await, None);

    let held = merge(&service, &two).await;
    assert_eq!(paths(&held["landed"]), ["c.txt"]);
    assert_eq!(held["conflicts"][0]["kind"], "content", "{held}");
    let review = held["conflicts"][0]["review"].as_str().unwrap().to_owned();
    let kept = merge(&service, &two).await;
    assert_eq!(
        kept["conflicts"][0]["review"],
        json!(review),
        "the same one"
    );

    write(&two, "a.txt", "two again\n");
    let newer = merge(&service, &two).await;
    let successor = newer["conflicts"][0]["review"].as_str().unwrap().to_owned();
    assert_ne!(successor, review);
    let old = service.get(&format!("/api/v1/reviews/{review}")).await;
    assert_eq!(
        (&old["state"], &old["successor"]),
        (&json!("superseded"), &json!(successor))
    );
    let closed = service
        .expect(
            Method::POST,
            &format!("/api/v1/reviews/{review}/resolve"),
            Some(json!({"resolution": "theirs"})),
            409,
        )
        .await;
    assert_eq!(closed["error"]["name"], "REVIEW_CLOSED");

    let shown = service.get(&format!("/api/v1/reviews/{successor}")).await;
    assert_eq!(shown["hunks"][0]["ours"], "one\n", "{shown}");
    assert_eq!(shown["hunks"][0]["theirs"], "two again\n");
    for (side, content) in [
        ("base", "base\n"),
        ("ours", "one\n"),
        ("theirs", "two again\n"),
    ] {
        let url = format!("/api/v1/reviews/{successor}/content?side={side}");
        let answer = service.request(Method::GET, &url).send().await.unwrap();
        assert_eq!(answer.text().await.unwrap(), content);
    }

    // The head moves on; the decision is merged against the new head.
    let three = workspace(&service, json!({"project": id})).await;
    write(&three, "a.txt", "three\n");
    merge(&service, &three).await;
    let resolve = format!("/api/v1/reviews/{successor}/resolve");
    let open = service
        .expect(
            Method::POST,
            &resolve,
            Some(json!({"resolution": "theirs"})),
            200,
        )
        .await;
    assert_eq!(
        (&open["state"], &open["reopened"]),
        (&json!("open"), &json!(1)),
        "{open}"
    );
    assert_eq!(file(&service, &id, "a.txt").await.unwrap(), "three\n");
    let decided = service
        .expect(
            Method::POST,
            &resolve,
            Some(json!({"resolution": "edited", "content": "all\n"})),
            200,
        )
        .await;
    assert_eq!(decided["state"], "resolved", "{decided}");
    assert_eq!(file(&service, &id, "a.txt").await.unwrap(), "all\n");
    let after = merge(&service, &two).await;
    assert_eq!(
        (&after["landedCount"], &after["conflictCount"]),
        (&json!(0), &json!(0)),
        "{after}"
    );

    // A review outlives its workspace.
    let four = workspace(&service, json!({"project": id})).await;
    write(&two, "b.txt", "two's b\n");
    merge(&service, &two).await;
    write(&four, "b.txt", "four's b\n");
    let held = merge(&service, &four).await;
    assert_eq!(held["conflictCount"], 1, "{held}");
    service
        .expect(
            Method::DELETE,
            &format!("/api/v1/workspaces/{}", four.id),
            None,
            204,
        )
        .await;
    let review = held["conflicts"][0]["review"].as_str().unwrap();
    let reject = Some(json!({"resolution": "reject"}));
    let rejected = service
        .expect(
            Method::POST,
            &format!("/api/v1/reviews/{review}/resolve"),
            reject,
            200,
        )
        .await;
    assert_eq!(rejected["state"], "rejected");

    let list = service
        .get(&format!("/api/v1/reviews?project={id}&state=open"))
        .await;
    assert_eq!(list["items"], json!([]));
}

#[tokio::test]
async fn an_agent_sees_and_changes_what_the_policy_says() {
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
    service
        .expect(
            Method::PUT,
            &format!("/api/v1/projects/{id}/policy"),
            Some(json!({"policy": policy})),
            200,
        )
        .await;

    let ask = |wish: Value| {
        service.expect_as(
            &alice_key,
            Method::POST,
            "/api/v1/workspaces",
            Some(wish),
            201,
        )
    };
    let made = ask(json!({"project": "p"})).await;
    let ws = Ws {
        id: made["id"].as_str().unwrap().to_owned(),
        path: made["path"].as_str().unwrap().into(),
    };
    assert!(!ws.path.join("bob").exists(), "what is hidden is not there");
    assert_eq!(read(&ws, "config"), "first\n");
    write(&ws, "alice/a", "changed\n");
    write(&ws, "config", "hacked\n");
    write(&ws, "bob/secret", "hacked\n");
    write(&ws, "dropbox/new", "from alice\n");
    write(&ws, "dropbox/old", "hacked\n");
    write(&ws, "core/c", "changed\n");
    let merged = service
        .expect_as(&alice_key, Method::POST, &at(&ws, "merge"), None, 200)
        .await;
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
    assert_eq!(file(&service, &id, "bob/secret").await.unwrap(), "first\n");

    // Two agents that may only add, and add the same name.
    let made = service
        .expect_as(
            &bob_key,
            Method::POST,
            "/api/v1/workspaces",
            Some(json!({"project": "p"})),
            201,
        )
        .await;
    let bobs = Ws {
        id: made["id"].as_str().unwrap().to_owned(),
        path: made["path"].as_str().unwrap().into(),
    };
    let made = ask(json!({"project": "p"})).await;
    let other = Ws {
        id: made["id"].as_str().unwrap().to_owned(),
        path: made["path"].as_str().unwrap().into(),
    };
    write(&bobs, "dropbox/report.md", "bob's\n");
    write(&bobs, "bob/secret", "changed by bob\n");
    write(&other, "dropbox/report.md", "alice's\n");
    service
        .expect_as(&bob_key, Method::POST, &at(&bobs, "merge"), None, 200)
        .await;
    let second = service
        .expect_as(&alice_key, Method::POST, &at(&other, "merge"), None, 200)
        .await;
    assert_eq!(
        second["landed"][0]["path"], "dropbox/report-2.md",
        "{second}"
    );
    assert_eq!(
        file(&service, &id, "dropbox/report.md").await.unwrap(),
        "bob's\n"
    );
    assert_eq!(
        file(&service, &id, "dropbox/report-2.md").await.unwrap(),
        "alice's\n"
    );

    // Alice gets nothing about Bob's files.
    for url in [
        format!("/api/v1/projects/{id}/tree"),
        format!("/api/v1/projects/{id}/log"),
        format!("/api/v1/projects/{id}/diff"),
        format!("/api/v1/projects/{id}/history?path=bob/secret"),
        "/api/v1/reviews".to_owned(),
    ] {
        let answer = service
            .expect_as(&alice_key, Method::GET, &url, None, 200)
            .await;
        assert!(!answer.to_string().contains("secret"), "{url}: {answer}");
        assert!(!answer.to_string().contains("\"bob"), "{url}: {answer}");
    }
    for what in ["file", "blame"] {
        let url = format!("/api/v1/projects/{id}/{what}?path=bob/secret");
        service
            .expect_as(&alice_key, Method::GET, &url, None, 404)
            .await;
    }
    for (method, url) in [
        (Method::GET, format!("/api/v1/workspaces/{}", bobs.id)),
        (Method::POST, at(&bobs, "merge")),
        (Method::POST, at(&bobs, "refresh")),
        (Method::DELETE, format!("/api/v1/workspaces/{}", bobs.id)),
    ] {
        service.expect_as(&alice_key, method, &url, None, 404).await;
    }

    // Nor does the snapshot of another give it access.
    let head = service.get(&format!("/api/v1/projects/{id}")).await["head"].clone();
    let theirs = second["snapshot"].clone();
    let bobs_own = service
        .get(&format!("/api/v1/workspaces/{}", bobs.id))
        .await["synced"]
        .clone();
    for snapshot in [&head, &bobs_own] {
        let wish = json!({"template": "base", "workspace": {"snapshot": snapshot}});
        let (wish, url) = (Some(wish), "/api/v1/sandboxes");
        let refused = service
            .expect_as(&alice_key, Method::POST, url, wish, 404)
            .await;
        assert_eq!(refused["error"]["name"], "SNAPSHOT_NOT_FOUND", "{refused}");
    }
    let wish = json!({"template": "base", "workspace": {"snapshot": theirs}});
    let own = service
        .expect_as(
            &alice_key,
            Method::POST,
            "/api/v1/sandboxes",
            Some(wish),
            201,
        )
        .await;
    service.delete(own["id"].as_str().unwrap()).await;
    let made = ask(json!({"project": "p", "snapshot": head})).await;
    assert!(
        !Path::new(made["path"].as_str().unwrap())
            .join("bob")
            .exists()
    );

    // An agent cannot accept its own change; another may.
    let review = merged["conflicts"][0]["review"].as_str().unwrap();
    let url = format!("/api/v1/reviews/{review}/resolve");
    let wish = Some(json!({"resolution": "theirs"}));
    let own = service
        .expect_as(&alice_key, Method::POST, &url, wish.clone(), 403)
        .await;
    assert_eq!(own["error"]["name"], "FORBIDDEN", "{own}");
    let may_not_write = service
        .expect_as(&bob_key, Method::POST, &url, wish.clone(), 403)
        .await;
    assert_eq!(
        may_not_write["error"]["name"], "POLICY_REFUSED",
        "{may_not_write}"
    );
    service.expect(Method::POST, &url, wish, 200).await;
    assert_eq!(file(&service, &id, "core/c").await.unwrap(), "changed\n");
}

#[tokio::test]
async fn readers_follow_the_head_in_their_containers() {
    let service = Service::start().await;
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
    assert_eq!(busy["error"]["name"], "WORKSPACE_BUSY");
    service.delete(reader).await;
    service.delete(writer).await;
    service
        .expect(Method::DELETE, &format!("/api/v1/projects/{id}"), None, 204)
        .await;
    service
        .expect(Method::GET, &format!("/api/v1/projects/{id}"), None, 404)
        .await;
}

#[tokio::test]
async fn workspaces_keep_up_by_themselves() {
    let service = Service::start().await;
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
