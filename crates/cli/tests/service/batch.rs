//! Merges of several workspaces by one command.

use std::fs;
use std::path::PathBuf;

use serde_json::Value;

use crate::server::Server;

/// Creates a workspace on the project `site`.
fn workspace(server: &Server, name: &str) -> PathBuf {
    let made = server.ok(["ws", "create", "--project", "site", name]);
    PathBuf::from(made.trim_end())
}

#[test]
fn several_workspaces_are_merged_by_one_command() {
    let mut server = Server::new();
    server.up();
    server.ok(["project", "create", "site"]);
    let [one, two] = ["one", "two"].map(|name| workspace(&server, name));
    fs::write(one.join("page"), "one\n").unwrap();
    fs::write(two.join("page"), "two\n").unwrap();
    fs::write(two.join("other"), "two\n").unwrap();
    let merge = ["project", "merge", "site", "one", "two"];
    let refused = server.run([&merge[..], &["--atomic"]].concat());
    let shown = String::from_utf8_lossy(&refused.stdout);
    assert_eq!(refused.code, 4, "{shown}{}", refused.stderr);
    assert!(shown.contains("page"), "{shown}");
    assert_eq!(server.ok(["project", "files", "site"]), "");

    let done = server.run([&merge[..], &["none", "-m", "both"]].concat());
    let shown = String::from_utf8_lossy(&done.stdout);
    assert_eq!(done.code, 3, "{shown}{}", done.stderr);
    assert!(shown.contains("landed as step 2"), "{shown}");
    assert!(shown.contains("Held for review: 1"), "{shown}");
    assert!(
        done.stderr.contains("cannot merge `none`"),
        "{}",
        done.stderr
    );
    // A dry run reports conflicts in the result.
    let again = server.run([&merge[..], &["--atomic", "--dry-run", "--json"]].concat());
    assert_eq!(again.code, 8, "{}", again.stderr);
    let again: Value = serde_json::from_slice(&again.stdout).unwrap();
    assert_eq!(again["succeeded"].as_array().unwrap().len(), 2, "{again}");
}
