//! Removing things of a server: several at once, and those with work in them.

use std::fs;
use std::path::PathBuf;

use serde_json::Value;

use crate::server::Server;

fn server() -> Server {
    let mut server = Server::new();
    server.up();
    server.ok(["project", "create", "site"]);
    server
}

/// A workspace of `site`: its id and its directory.
fn workspace(server: &Server) -> (String, PathBuf) {
    let made = server.ok(["ws", "create", "--project", "site", "--json"]);
    let made: Value = serde_json::from_str(&made).unwrap();
    let id = made["id"].as_str().unwrap().to_owned();
    (id, made["path"].as_str().unwrap().into())
}

fn names(stderr: &str) -> Vec<String> {
    let errors = stderr
        .lines()
        .map(|line| serde_json::from_str(line).unwrap());
    errors
        .map(|error: Value| error["error"]["name"].as_str().unwrap().to_owned())
        .collect()
}

/// Makes a key; returns its id.
fn key(server: &Server) -> String {
    let made: Value = serde_json::from_str(&server.ok(["key", "create", "ci", "--json"])).unwrap();
    made["id"].as_str().unwrap().to_owned()
}

#[test]
fn keys_after_one_that_is_not_there_are_revoked() {
    let server = server();
    let (one, two) = (key(&server), key(&server));
    let ended = server.run(["key", "rm", "--json", "key-none", &one, "key-nowhere", &two]);
    assert_eq!(ended.code, 3, "{}", ended.stderr);
    assert_eq!(names(&ended.stderr).len(), 2, "{}", ended.stderr);
    let said = String::from_utf8(ended.stdout).unwrap();
    assert_eq!(
        said,
        format!("{{\"revoked\":\"{one}\"}}\n{{\"revoked\":\"{two}\"}}\n")
    );
    let keys = server.ok(["key", "ls", "--json"]);
    for id in [one, two] {
        let line = keys.lines().find(|line| line.contains(&id)).unwrap();
        let key: Value = serde_json::from_str(line).unwrap();
        assert!(!key["revokedAt"].is_null(), "{line}");
    }
}

#[test]
fn projects_are_removed_when_that_is_confirmed() {
    let server = server();
    let refused = server.run(["project", "rm", "site", "--json"]);
    assert_eq!(refused.code, 2, "{}", refused.stderr);
    assert_eq!(names(&refused.stderr), ["not_confirmed"]);
    assert!(refused.stderr.contains("elevo project rm --yes site"));
    server.ok(["project", "create", "other"]);
    let removed = server.run(["project", "rm", "-y", "--json", "none", "site", "other"]);
    assert_eq!(removed.code, 3, "{}", removed.stderr);
    assert_eq!(names(&removed.stderr), ["project_not_found"]);
    assert_eq!(server.ok(["project", "ls"]), "");
}

#[test]
fn a_workspace_with_work_that_has_not_landed_is_not_removed_without_a_word() {
    let server = server();
    let (changed, path) = workspace(&server);
    fs::write(path.join("mine"), "mine\n").unwrap();
    let (merged, path) = workspace(&server);
    fs::write(path.join("landed"), "landed\n").unwrap();
    server.ok(["ws", "merge", &merged]);
    let (clean, _) = workspace(&server);
    let rm = ["ws", "rm", "--json", "--project", "site"];
    let ids = [&*changed, "ws-none", &merged, &clean];
    let ended = server.run(rm.into_iter().chain(ids));
    assert_eq!(ended.code, 4, "{}", ended.stderr);
    let found = names(&ended.stderr);
    assert_eq!(found, ["unmerged_changes", "workspace_not_found"]);
    assert!(ended.stderr.contains("--discard"), "{}", ended.stderr);
    let left = server.ok(["ws", "ls", "--project", "site", "--json"]);
    assert!(
        left.contains(&changed) && left.lines().count() == 1,
        "{left}"
    );
    server.ok(rm.into_iter().chain(["--discard", &changed]));
    assert_eq!(server.ok(["ws", "ls", "--project", "site", "--json"]), "");
}

#[test]
fn what_an_open_review_is_about_is_not_lost_with_its_workspace() {
    let server = server();
    let ((one, at_one), (two, at_two)) = (workspace(&server), workspace(&server));
    fs::write(at_one.join("page"), "one\n").unwrap();
    fs::write(at_two.join("page"), "two\n").unwrap();
    server.ok(["ws", "merge", &one]);
    let held = server.run(["ws", "merge", &two]);
    assert_eq!(held.code, 8, "{}", held.stderr);
    server.ok(["ws", "rm", "--project", "site", &two]);
    let reviews = server.ok(["review", "ls", "--json"]);
    let review: Value = serde_json::from_str(reviews.trim()).unwrap();
    let id = review["id"].as_str().unwrap();
    server.ok(["review", "resolve", id, "--theirs"]);
    assert_eq!(server.ok(["project", "cat", "site", "page"]), "two\n");
}
