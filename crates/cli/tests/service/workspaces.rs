//! Commands on workspaces and snapshots of a server.

use std::fs;
use std::path::PathBuf;

use serde_json::Value;

use crate::server::Server;

/// A server with the project `site`, and the id and directory of a workspace of
/// it with one new file.
fn with_workspace() -> (Server, String, PathBuf) {
    let mut server = Server::new();
    server.up();
    server.ok(["project", "create", "site"]);
    let made = server.ok(["ws", "create", "--project", "site", "--json"]);
    let made: Value = serde_json::from_str(&made).unwrap();
    let path = PathBuf::from(made["path"].as_str().unwrap());
    fs::write(path.join("page"), "one\n").unwrap();
    let id = made["id"].as_str().unwrap().to_owned();
    (server, id, path)
}

#[test]
fn a_workspace_of_a_server_is_compared_saved_and_restored() {
    let (server, id, path) = with_workspace();
    assert_eq!(server.ok(["ws", "diff", &id]), "A\tpage\n");
    let first = server.ok(["ws", "snapshot", &id, "--name", "good"]);
    assert_eq!(server.ok(["ws", "diff", &id]), "A\tpage\n");
    assert_eq!(server.ok(["ws", "diff", &id, "--since-snapshot"]), "");
    fs::write(path.join("page"), "two\n").unwrap();
    let patch = server.ok(["ws", "diff", "-p", &id, "--from", "good"]);
    assert!(patch.contains("-one\n+two\n"), "{patch}");
    let second = server.ok(["ws", "snapshot", &id, "-m", "second"]);

    let listed = server.ok(["snapshot", "ls"]);
    assert!(
        listed.contains(first.trim()) && listed.contains("good"),
        "{listed}"
    );
    assert_eq!(
        server.ok(["snapshot", "diff", "good", second.trim()]),
        "M\tpage\n"
    );
    let shown = server.ok(["snapshot", "show", "good", "--json"]);
    let shown: Value = serde_json::from_str(&shown).unwrap();
    assert_eq!(shown["id"], first.trim());
    server.ok(["snapshot", "name", "good", "--delete"]);
    server.ok(["snapshot", "name", second.trim(), "better"]);
    server.ok(["ws", "restore", &id, first.trim()]);
    assert_eq!(fs::read_to_string(path.join("page")).unwrap(), "one\n");
}

#[test]
fn a_workspace_of_a_server_is_forked_parked_resumed_and_copied() {
    let (server, id, path) = with_workspace();
    let forked = server.ok(["ws", "fork", &id, "-n", "2", "--name", "try"]);
    let forks: Vec<_> = forked.lines().map(PathBuf::from).collect();
    assert_eq!(forks.len(), 2, "{forked}");
    for fork in &forks {
        assert_eq!(fs::read_to_string(fork.join("page")).unwrap(), "one\n");
    }
    server.ok(["ws", "park", &id]);
    assert!(!path.exists());
    let refused = server.run(["ws", "diff", &id, "--json"]);
    assert!(refused.stderr.contains("parked"), "{}", refused.stderr);
    let resumed = server.ok(["ws", "resume", &id]);
    let page = PathBuf::from(resumed.trim()).join("page");
    assert_eq!(fs::read_to_string(page).unwrap(), "one\n");

    let here = tempfile::tempdir().unwrap();
    let copy = here.path().join("copy");
    server.ok(["cp", &format!("{id}:page"), copy.to_str().unwrap()]);
    assert_eq!(fs::read_to_string(&copy).unwrap(), "one\n");
}
