//! Forks, snapshots, diffs, archives.

use std::collections::HashSet;

use reqwest::Method;
use serde_json::json;

use crate::harness::{Service, docker};

#[tokio::test]
async fn files_are_snapshotted_compared_restored_and_forked() {
    let service = Service::start().await;
    let id = service.sandbox().await;
    let at = |what: &str| format!("/api/v1/sandboxes/{id}/{what}");
    service
        .output_of(
            &id,
            "mkdir src && echo one > src/a && echo two > b && echo secret > ~/home",
        )
        .await;
    let diff = service.get(&at("diff")).await;
    assert_eq!(
        diff["totals"],
        json!({"added": 3, "removed": 0, "changed": 0}),
        "{diff}"
    );
    let taken = service
        .expect(
            Method::POST,
            &at("snapshot"),
            Some(json!({"message": "first"})),
            201,
        )
        .await;
    let first = taken["snapshotId"].as_str().unwrap().to_owned();
    assert_eq!(taken["isNew"], true);
    service
        .output_of(&id, "echo changed > src/a && rm b && ln -s src c")
        .await;
    let diff = service.get(&at("diff")).await;
    assert_eq!(diff["base"], json!(first));
    let paths: Vec<_> = diff["changes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|change| {
            format!(
                "{} {}",
                change["kind"].as_str().unwrap(),
                change["path"].as_str().unwrap()
            )
        })
        .collect();
    assert_eq!(paths, ["removed b", "added c", "changed src/a"]);
    let patch = service
        .request(Method::GET, &at("diff?format=patch"))
        .send()
        .await
        .unwrap()
        .text()
        .await
        .unwrap();
    assert!(patch.contains("-one\n+changed\n"), "{patch}");

    let forked = service
        .expect(
            Method::POST,
            &at("fork"),
            Some(json!({"count": 3, "name": "try"})),
            201,
        )
        .await;
    let forks = forked["succeeded"].as_array().unwrap();
    assert_eq!(
        (forks.len(), forked["failed"].as_array().unwrap().len()),
        (3, 0),
        "{forked}"
    );
    for fork in forks {
        let fork = fork["id"].as_str().unwrap();
        assert_eq!(
            service
                .output_of(fork, "cat src/a c/a; cat ~/home; echo mine > b")
                .await,
            "changed\nchanged\nsecret\n"
        );
    }
    assert_eq!(service.run_in(&id, "cat b").await["exitCode"], 1);

    service
        .expect(
            Method::POST,
            &at("restore"),
            Some(json!({"snapshotId": first})),
            200,
        )
        .await;
    assert_eq!(
        service.output_of(&id, "cat src/a b; ls").await,
        "one\ntwo\nb\nsrc\n"
    );
    let diff = service.get(&at("diff")).await;
    assert_eq!(diff["changes"], json!([]), "{diff}");

    let made = service
        .post(
            "/api/v1/sandboxes",
            json!({"template": "base", "workspace": {"snapshot": first}}),
        )
        .await;
    let other = made["id"].as_str().unwrap();
    assert_eq!(
        service
            .output_of(other, "cat src/a b && echo more >> b && cat b")
            .await,
        "one\ntwo\ntwo\nmore\n"
    );
    let made = service
        .post(
            "/api/v1/sandboxes",
            json!({"template": "base", "workspace": {"fork": other}}),
        )
        .await;
    assert_eq!(
        service
            .output_of(made["id"].as_str().unwrap(), "cat b")
            .await,
        "two\nmore\n"
    );
}

/// Returns the token that the engine has given to the agent of a sandbox.
fn token_of(id: &str) -> String {
    let env = docker(&[
        "inspect",
        "--format",
        "{{range .Config.Env}}{{println .}}{{end}}",
        id,
    ]);
    let mut tokens = env
        .lines()
        .filter_map(|line| line.strip_prefix("SANDBOX_TOKEN="));
    tokens.next().unwrap().to_owned()
}

#[tokio::test]
async fn a_sandbox_can_begin_as_a_fork_which_leaves_its_origin_alone() {
    let service = Service::start().await;
    let wish = json!({"template": "base", "resources": {"disk": "64m"}});
    let made = service.post("/api/v1/sandboxes", wish).await;
    let origin = made["id"].as_str().unwrap();
    service
        .output_of(origin, "echo one > file && echo two > ~/file")
        .await;
    let path = format!("/api/v1/sandboxes/{origin}/diff");
    let before = service.get(&path).await;
    assert_eq!(before["totals"]["added"], 1, "{before}");

    let wish = |disk: Option<&str>| json!({"template": "base", "workspace": {"fork": origin}, "resources": {"disk": disk}});
    let refused = service
        .expect(
            Method::POST,
            "/api/v1/sandboxes",
            Some(wish(Some("128m"))),
            422,
        )
        .await;
    assert_eq!(refused["error"]["name"], "RESOURCE_REFUSED");
    assert_eq!(refused["error"]["details"]["resource"], "disk", "{refused}");
    let mut tokens = HashSet::from([token_of(origin)]);
    for disk in [None, Some("64m")] {
        let made = service
            .expect(Method::POST, "/api/v1/sandboxes", Some(wish(disk)), 201)
            .await;
        assert_eq!(made["resources"]["disk"], "64m", "{made}");
        let fork = made["id"].as_str().unwrap();
        let seen = service
            .output_of(fork, "cat file ~/file; echo mine > file")
            .await;
        assert_eq!(seen, "one\ntwo\n");
        tokens.insert(token_of(fork));
    }
    let path_of_fork = format!("/api/v1/sandboxes/{origin}/fork");
    let forked = service.post(&path_of_fork, json!({"count": 2})).await;
    for fork in forked["succeeded"].as_array().unwrap() {
        tokens.insert(token_of(fork["id"].as_str().unwrap()));
    }
    assert_eq!(tokens.len(), 5, "every fork has another token");
    assert_eq!(
        service.get(&path).await,
        before,
        "the same base, the same changes"
    );
    assert_eq!(service.output_of(origin, "cat file").await, "one\n");
}

#[tokio::test]
async fn a_repeated_import_makes_nothing_twice() {
    let service = Service::start_bare(&[]);
    let import = |key: &'static str| {
        let request = service.request(Method::POST, "/api/v1/snapshots");
        request
            .header("Idempotency-Key", key)
            .body(vec![0; 1024])
            .send()
    };
    let first = import("one").await.unwrap();
    assert_eq!(first.status(), 201);
    assert!(!first.headers().contains_key("idempotency-replayed"));
    let first: serde_json::Value = first.json().await.unwrap();
    let second = import("one").await.unwrap();
    assert_eq!(second.headers()["idempotency-replayed"], "true");
    let second: serde_json::Value = second.json().await.unwrap();
    assert_eq!(first, second);
}

#[tokio::test]
async fn archives_go_in_and_out() {
    let service = Service::start().await;
    let id = service.sandbox().await;
    let directory = tempfile::tempdir().unwrap();
    std::fs::create_dir(directory.path().join("dir")).unwrap();
    std::fs::write(directory.path().join("dir/file"), "content").unwrap();
    let mut builder = tar::Builder::new(Vec::new());
    builder.append_dir_all(".", directory.path()).unwrap();
    let tar = builder.into_inner().unwrap();
    let archive = |path: &str| format!("/api/v1/sandboxes/{id}/archive?path={path}");
    let sent = service
        .request(Method::PUT, &archive("/in"))
        .body(tar.clone())
        .send()
        .await
        .unwrap();
    assert_eq!(sent.status(), 204);
    assert_eq!(
        service
            .output_of(
                &id,
                "cat in/dir/file && echo more >> in/dir/file && stat -c %u in in/dir/file"
            )
            .await,
        "content64000\n64000\n"
    );
    let got = service
        .request(Method::GET, &archive("in/dir"))
        .send()
        .await
        .unwrap();
    assert_eq!(got.headers()["content-type"], "application/x-tar");
    let bytes = got.bytes().await.unwrap();
    let mut read = tar::Archive::new(&bytes[..]);
    let names: Vec<_> = read
        .entries()
        .unwrap()
        .map(|entry| entry.unwrap().path().unwrap().display().to_string())
        .collect();
    assert_eq!(names, ["file"]);
    let missing = service
        .expect(Method::GET, &archive("nowhere"), None, 404)
        .await;
    assert_eq!(missing["error"]["name"], "PATH_NOT_FOUND");
    service
        .expect(Method::GET, &archive("../../etc"), None, 400)
        .await;
    service.output_of(&id, "ln -s /etc link").await;
    service
        .expect(Method::GET, &archive("link/passwd"), None, 404)
        .await;
    let refused = service
        .request(Method::PUT, &archive(""))
        .body("no tar at all")
        .send()
        .await
        .unwrap();
    assert_eq!(refused.status(), 422);

    let imported = service
        .request(Method::POST, "/api/v1/snapshots")
        .body(tar)
        .send()
        .await
        .unwrap();
    let imported: serde_json::Value = imported.json().await.unwrap();
    let wish = json!({"template": "base", "workspace": {"snapshot": imported["snapshotId"]}});
    let made = service.post("/api/v1/sandboxes", wish).await;
    assert_eq!(
        service
            .output_of(made["id"].as_str().unwrap(), "cat dir/file")
            .await,
        "content"
    );
    let wish = json!({"template": "base", "workspace": {"directory": directory.path()}});
    let made = service.post("/api/v1/sandboxes", wish).await;
    assert_eq!(
        service
            .output_of(made["id"].as_str().unwrap(), "cat dir/file")
            .await,
        "content"
    );
}
