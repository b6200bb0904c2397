//! Forks, snapshots, diffs, archives.

use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::Service;

/// A sandbox with a snapshot, and changes since.
struct Changed {
    service: Service,
    id: String,
    snapshot: String,
}

impl Changed {
    async fn start() -> Self {
        let service = Service::start().await;
        let id = service.sandbox().await;
        let files = "mkdir src && echo one > src/a && echo two > b && echo secret > ~/home";
        service.output_of(&id, files).await;
        let at = |what: &str| format!("/api/v1/sandboxes/{id}/{what}");
        let diff = service.get(&at("diff")).await;
        let expected = json!({"added": 3, "removed": 0, "changed": 0});
        assert_eq!(diff["totals"], expected, "{diff}");
        let (url, wish) = (at("snapshot"), Some(json!({"message": "first"})));
        let taken = service.expect(Method::POST, &url, wish, 201).await;
        assert_eq!(taken["isNew"], true);
        let changes = "echo changed > src/a && rm b && ln -s src c";
        service.output_of(&id, changes).await;
        Self {
            snapshot: taken["id"].as_str().unwrap().to_owned(),
            service,
            id,
        }
    }

    fn at(&self, what: &str) -> String {
        format!("/api/v1/sandboxes/{}/{what}", self.id)
    }

    /// Creates a sandbox with the files of a snapshot or of another sandbox.
    async fn sandbox_from(&self, workspace: Value) -> String {
        let wish = json!({"template": "base", "workspace": workspace});
        let made = self.service.post("/api/v1/sandboxes", wish).await;
        made["id"].as_str().unwrap().to_owned()
    }
}

/// Returns the changes of a diff, as `KIND PATH`.
pub(crate) fn changes(diff: &Value) -> Vec<String> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let changes = diff["changes"].as_array().unwrap().iter();
    changes
        .map(|change| format!("{} {}", text(&change["kind"]), text(&change["path"])))
        .collect()
}

#[tokio::test]
async fn a_diff_shows_the_changes_since_the_start_or_a_snapshot() {
    let changed = Changed::start().await;
    let service = &changed.service;
    for query in ["diff", "diff?from=start"] {
        let diff = service.get(&changed.at(query)).await;
        assert_eq!(
            changes(&diff),
            ["added c", "added src", "added src/a"],
            "{diff}"
        );
    }
    let since = ["removed b", "added c", "changed src/a"];
    for from in ["last", &changed.snapshot] {
        let diff = service.get(&changed.at(&format!("diff?from={from}"))).await;
        assert_eq!(diff["base"], json!(changed.snapshot));
        assert_eq!(changes(&diff), since);
    }
    let url = changed.at("diff?format=patch&from=last");
    let patch = service.request(Method::GET, &url).send().await;
    let patch = patch.unwrap().text().await.unwrap();
    assert!(patch.contains("-one\n+changed\n"), "{patch}");
    let stat = service.get(&changed.at("diff?format=stat&from=last")).await;
    assert_eq!(stat["files"], 3, "{stat}");
    let file = json!({"path": "src/a", "kind": "changed", "added": 1, "removed": 1});
    assert_eq!(stat["changes"][2], file, "{stat}");
}

#[tokio::test]
async fn the_diff_of_a_fork_has_the_changes_of_its_origin() {
    let changed = Changed::start().await;
    let service = &changed.service;
    let before = service.get(&changed.at("diff")).await;
    let forked = service.post(&changed.at("fork"), json!({})).await;
    let fork = forked["succeeded"][0]["id"].as_str().unwrap();
    let of_fork = service.get(&format!("/api/v1/sandboxes/{fork}/diff")).await;
    assert_eq!(of_fork, before);
    assert_eq!(service.get(&changed.at("diff")).await, before);
}

#[tokio::test]
async fn snapshots_of_equal_files_have_the_same_tree() {
    let changed = Changed::start().await;
    let service = &changed.service;
    let first = service.post(&changed.at("snapshot"), json!({})).await;
    let again = service.post(&changed.at("snapshot"), json!({})).await;
    assert_eq!(again["isNew"], false);
    assert_eq!(again["id"], first["id"]);
    let (_directory, tar) = directory_and_tar();
    let mut trees = Vec::new();
    for _ in 0..2 {
        let request = service.request(Method::POST, "/api/v1/snapshots");
        let imported = request.body(tar.clone()).send().await.unwrap();
        let imported: Value = imported.json().await.unwrap();
        assert_eq!(imported["isNew"], true);
        trees.push(imported["tree"].clone());
    }
    assert_eq!(trees[0], trees[1]);
    assert_ne!(trees[0], first["tree"]);
}

#[tokio::test]
async fn forks_have_all_files_and_change_only_their_own() {
    let changed = Changed::start().await;
    let service = &changed.service;
    let (url, wish) = (changed.at("fork"), Some(json!({"count": 3, "name": "try"})));
    let forked = service.expect(Method::POST, &url, wish, 201).await;
    let forks = forked["succeeded"].as_array().unwrap();
    assert_eq!(
        (forks.len(), forked["failed"].as_array().unwrap().len()),
        (3, 0),
        "{forked}"
    );
    for fork in forks {
        let fork = fork["id"].as_str().unwrap();
        let command = "cat src/a c/a; cat ~/home; echo mine > b";
        let seen = service.output_of(fork, command).await;
        assert_eq!(seen, "changed\nchanged\nsecret\n");
    }
    let own = service.run_in(&changed.id, "cat b").await;
    assert_eq!(own["exitCode"], 1);
}

#[tokio::test]
async fn a_restore_brings_the_files_of_a_snapshot_back() {
    let changed = Changed::start().await;
    let service = &changed.service;
    let (url, wish) = (
        changed.at("restore"),
        Some(json!({"snapshot": changed.snapshot})),
    );
    service.expect(Method::POST, &url, wish, 200).await;
    let seen = service.output_of(&changed.id, "cat src/a b; ls").await;
    assert_eq!(seen, "one\ntwo\nb\nsrc\n");
    let diff = service.get(&changed.at("diff?from=last")).await;
    assert_eq!(diff["changes"], json!([]), "{diff}");
}

#[tokio::test]
async fn a_sandbox_can_begin_with_a_snapshot_or_as_a_fork() {
    let changed = Changed::start().await;
    let service = &changed.service;
    let snapshot = json!({"snapshot": changed.snapshot});
    let other = changed.sandbox_from(snapshot).await;
    let command = "cat src/a b && echo more >> b && cat b";
    let seen = service.output_of(&other, command).await;
    assert_eq!(seen, "one\ntwo\ntwo\nmore\n");
    let fork = changed.sandbox_from(json!({"fork": other})).await;
    assert_eq!(service.output_of(&fork, "cat b").await, "two\nmore\n");
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

/// A directory with a file in it, and the same as a tar.
fn directory_and_tar() -> (tempfile::TempDir, Vec<u8>) {
    let directory = tempfile::tempdir().unwrap();
    std::fs::create_dir(directory.path().join("dir")).unwrap();
    std::fs::write(directory.path().join("dir/file"), "content").unwrap();
    let mut builder = tar::Builder::new(Vec::new());
    builder.append_dir_all(".", directory.path()).unwrap();
    (directory, builder.into_inner().unwrap())
}

#[tokio::test]
async fn archives_go_in_and_out() {
    let service = Service::start().await;
    let id = service.sandbox().await;
    let (_directory, tar) = directory_and_tar();
    let archive = |path: &str| format!("/api/v1/sandboxes/{id}/archive?path={path}");
    let sent = service.request(Method::PUT, &archive("/in")).body(tar);
    assert_eq!(sent.send().await.unwrap().status(), 204);
    let command = "cat in/dir/file && echo more >> in/dir/file && stat -c %u in in/dir/file";
    let uid = service.sandbox_uid();
    assert_eq!(
        service.output_of(&id, command).await,
        format!("content{uid}\n{uid}\n")
    );
    let got = service.request(Method::GET, &archive("in/dir")).send();
    let got = got.await.unwrap();
    assert_eq!(got.headers()["content-type"], "application/x-tar");
    let bytes = got.bytes().await.unwrap();
    let mut read = tar::Archive::new(&bytes[..]);
    let entries = read.entries().unwrap();
    let names: Vec<_> = entries
        .map(|entry| entry.unwrap().path().unwrap().display().to_string())
        .collect();
    assert_eq!(names, ["file"]);
}

#[tokio::test]
async fn archives_stay_below_the_workspace() {
    let service = Service::start().await;
    let id = service.sandbox().await;
    let archive = |path: &str| format!("/api/v1/sandboxes/{id}/archive?path={path}");
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
    let refused = service.request(Method::PUT, &archive(""));
    let refused = refused.body("no tar at all").send().await.unwrap();
    assert_eq!(refused.status(), 422);
}

#[tokio::test]
async fn a_sandbox_can_begin_with_an_archive_or_a_directory() {
    let service = Service::start().await;
    let (directory, tar) = directory_and_tar();
    let imported = service.request(Method::POST, "/api/v1/snapshots").body(tar);
    let imported: Value = imported.send().await.unwrap().json().await.unwrap();
    for workspace in [
        json!({"snapshot": imported["id"]}),
        json!({"directory": directory.path()}),
    ] {
        let wish = json!({"template": "base", "workspace": workspace});
        let made = service.post("/api/v1/sandboxes", wish).await;
        let id = made["id"].as_str().unwrap();
        assert_eq!(service.output_of(id, "cat dir/file").await, "content");
    }
}

/// Tests that need a real container engine.
mod on_docker {
    use std::collections::HashSet;

    use super::*;
    use crate::harness::docker;

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
        let service = Service::with_docker().await;
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
}
