//! Deletion on a server: several resources at once, and workspaces with work.

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

/// Creates a workspace of `site`. Returns its id and its directory.
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

/// Creates a key. Returns its id.
fn key(server: &Server) -> String {
    let made: Value = serde_json::from_str(&server.ok(["key", "create", "ci", "--json"])).unwrap();
    made["id"].as_str().unwrap().to_owned()
}

#[test]
fn keys_after_a_missing_one_are_revoked() {
    let server = server();
    let (one, two) = (key(&server), key(&server));
    let ended = server.run([
        "key",
        "revoke",
        "--json",
        "key-none",
        &one,
        "key-nowhere",
        &two,
    ]);
    assert_eq!(ended.code, 3, "{}", ended.stderr);
    assert_eq!(names(&ended.stderr).len(), 2, "{}", ended.stderr);
    let said = String::from_utf8(ended.stdout).unwrap();
    assert_eq!(
        said,
        format!("{{\"revoked\":\"{one}\"}}\n{{\"revoked\":\"{two}\"}}\n")
    );
    let keys = server.ok(["key", "ls", "--all", "--json"]);
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
fn a_workspace_with_unmerged_work_needs_discard() {
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
fn an_open_review_keeps_its_change_when_the_workspace_is_deleted() {
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
    server.ok(["review", "accept", id, "--take", "workspace"]);
    assert_eq!(server.ok(["project", "cat", "site:page"]), "two\n");
}
