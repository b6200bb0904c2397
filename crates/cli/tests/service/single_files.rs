//! `elevo files`: single files of sandboxes, workspaces, projects and snapshots.

use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::process::Stdio;

use serde_json::Value;

use crate::server::Server;

fn json(text: &str) -> Value {
    serde_json::from_str(text).expect("JSON")
}

/// A server with the project `site`.
fn with_site() -> Server {
    let mut server = Server::new();
    server.up();
    server.write("site/page", b"one\n");
    server.write("site/dir/bytes", &[0, 255, 10, 13]);
    let site = server.directory.path().join("site");
    symlink("dir/bytes", site.join("link")).unwrap();
    fs::set_permissions(site.join("page"), Permissions::from_mode(0o755)).unwrap();
    server.ok(["project", "create", "site", "--from", "site"]);
    server
}

#[test]
fn files_of_a_project_are_listed_and_read() {
    let server = with_site();
    let listed = server.ok(["files", "ls", "project/site"]);
    assert_eq!(listed, "dir/\nlink\npage\n");
    let all = server.ok(["files", "ls", "project/site", "-r"]);
    assert_eq!(all, "dir/\ndir/bytes\nlink\npage\n");
    let long = server.ok(["files", "ls", "project/site", "-l"]);
    assert!(
        long.contains("file       0755       4 bytes  page\n"),
        "{long}"
    );
    assert!(long.contains("link -> dir/bytes\n"), "{long}");
    let below = server.ok(["files", "ls", "project/site:dir", "--json"]);
    assert_eq!(json(&below)["path"], "dir/bytes");

    let bytes = server.run(["files", "cat", "project/site:link"]).stdout;
    assert_eq!(bytes, [0, 255, 10, 13]);
    let page = server.ok(["files", "cat", "project/site:page", "--json"]);
    assert_eq!(json(&page)["text"], "one\n");
    assert_eq!(json(&page)["mode"], "0755");

    server.ok(["files", "get", "project/site:page"]);
    assert_eq!(server.read("page"), b"one\n");
    let found = fs::metadata(server.directory.path().join("page")).unwrap();
    assert_eq!(found.permissions().mode() & 0o777, 0o755);
    server.ok(["files", "get", "project/site@head:dir/bytes", "site/dir"]);
    server.ok(["files", "get", "project/site:dir/bytes", "renamed"]);
    assert_eq!(server.read("renamed"), [0, 255, 10, 13]);
    let got = server.run(["files", "get", "project/site:dir/bytes", "-"]);
    assert_eq!(got.stdout, [0, 255, 10, 13]);
    server.ok(["files", "get", "project/site:page", "/dev/null"]);
    assert!(!fs::metadata("/dev/null").unwrap().is_file());
}

#[test]
fn errors_about_files_have_names_and_codes() {
    let server = with_site();
    for (words, code, name) in [
        ("cat project/site:none", 3, "path_not_found"),
        ("cat project/none:page", 3, "project_not_found"),
        ("cat snapshot/none:page", 3, "snapshot_not_found"),
        ("cat project/site", 2, "path_invalid"),
        ("cat project/site:dir", 4, "is_a_directory"),
        ("ls project/site:page", 4, "not_a_directory"),
        ("get project/site:none new", 3, "path_not_found"),
        ("put site project/site:x", 2, "is_a_directory"),
        ("put page project/site:x", 2, "place_read_only"),
        ("rm project/site:page", 2, "place_read_only"),
        ("mv project/site:page other", 2, "place_read_only"),
        ("mkdir snapshot/none:new", 2, "place_read_only"),
    ] {
        server.write("page", b"mine\n");
        let words = ["files"].into_iter().chain(words.split(' '));
        let refused = server.run(words.clone().chain(["--json"]));
        let found = (refused.code, refused.name());
        assert_eq!(found, (code, name.to_owned()), "{words:?}");
    }
    assert!(!server.directory.path().join("new").exists());
}

#[test]
fn files_of_a_sandbox_are_written_moved_and_deleted() {
    let server = Server::start();
    let id = server.sandbox();
    let at = |path: &str| format!("{id}:{path}");
    server.write("run.sh", b"echo hello\n");
    let script = server.directory.path().join("run.sh");
    fs::set_permissions(&script, Permissions::from_mode(0o755)).unwrap();
    server.ok(["files", "put", "run.sh", &at("bin/run.sh")]);
    let run = ["exec", &id, "--", "./bin/run.sh"];
    assert_eq!(server.ok(run), "hello\n");
    server.ok(["files", "put", "run.sh", &at("other/"), "--mode", "0600"]);
    let bytes = [0, 255, 10, 13];
    let fed = server.feed(["files", "put", "-", &at("/home/agent/raw")], &bytes);
    fed.text();
    let raw = server.run(["files", "cat", &at("/home/agent/raw")]);
    assert_eq!(raw.stdout, bytes);
    let all = server.ok(["files", "ls", &id, "-r"]);
    assert_eq!(all, "bin/\nbin/run.sh\nother/\nother/run.sh\n");

    let moved = server.ok(["files", "mv", &at("bin/run.sh"), "run"]);
    assert_eq!(moved, "run\n");
    let taken = server.run(["files", "mv", &at("run"), "other/run.sh", "--json"]);
    assert_eq!((taken.code, taken.name().as_str()), (4, "path_exists"));
    server.ok(["files", "mv", &at("run"), "other/run.sh", "--overwrite"]);
    assert_eq!(server.ok(["files", "mkdir", &at("a/b")]), "a/b/\n");
    let full = server.run(["files", "rm", &at("other"), "--json"]);
    assert_eq!(
        (full.code, full.name().as_str()),
        (4, "directory_not_empty")
    );
    let removed = server.ok(["files", "rm", "-r", &at("other"), &at("a"), &at("bin")]);
    assert_eq!(removed.lines().count(), 3, "{removed}");
    assert_eq!(server.ok(["files", "ls", &id]), "");
    server.ok(["sandbox", "rm", &id]);
}

#[test]
fn a_file_is_replaced_only_under_its_conditions() {
    let server = with_site();
    let made = server.ok(["ws", "create", "--project", "site", "--json"]);
    let workspace = json(&made)["id"].as_str().unwrap().to_owned();
    let page = format!("{workspace}:page");
    server.write("page", b"two\n");
    let shown = json(&server.ok(["files", "cat", &page, "--json"]));
    let etag = shown["etag"].as_str().unwrap();
    let put = |more: &[&str]| {
        let words = ["files", "put", "page", &page, "--json"];
        server.run(words.iter().chain(more).copied())
    };
    let refused = put(&["--new"]);
    let expected = (4, "precondition_failed".to_owned());
    assert_eq!((refused.code, refused.name()), expected);
    assert_eq!(server.ok(["files", "cat", &page]), "one\n");
    let info = json(&put(&["--if-match", etag]).text());
    assert_eq!(info["size"], 4);
    assert_eq!(server.ok(["files", "cat", &page]), "two\n");
    let refused = put(&["--if-match", etag]);
    assert_eq!((refused.code, refused.name()), expected);
}

#[test]
fn names_of_hostile_files_do_not_control_the_terminal() {
    let server = with_site();
    let made = json(&server.ok(["ws", "create", "--project", "site", "--json"]));
    let path = std::path::Path::new(made["path"].as_str().unwrap());
    fs::write(path.join("a\u{1b}[2J\nb"), "x").unwrap();
    symlink("to\u{7}", path.join("c")).unwrap();
    let place = made["id"].as_str().unwrap();
    let listed = server.ok(["files", "ls", place, "-l"]);
    assert!(listed.contains("a\u{fffd}[2J\u{fffd}b\n"), "{listed:?}");
    assert!(listed.contains("c -> to\u{fffd}\n"), "{listed:?}");
    let exact = server.ok(["files", "ls", place, "--json"]);
    assert!(exact.contains("a\\u001b[2J\\nb"), "{exact}");
}

#[test]
fn changes_of_files_are_printed_as_they_happen() {
    let server = with_site();
    let made = json(&server.ok(["ws", "create", "--project", "site", "--json"]));
    let path = std::path::Path::new(made["path"].as_str().unwrap());
    let place = format!("{}:dir", made["id"].as_str().unwrap());
    let mut command = server.command(["files", "watch", &place, "--json"]);
    let mut watch = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(watch.stdout.take().unwrap()).lines();
    let mut next = || json(&lines.next().unwrap().unwrap());
    assert_eq!(next()["kind"], "watching");
    fs::write(path.join("outside"), "x").unwrap();
    fs::write(path.join("dir/new"), "x").unwrap();
    let created = next();
    assert_eq!(
        (&created["kind"], &created["path"]),
        (&"created".into(), &"dir/new".into())
    );
    fs::remove_file(path.join("dir/new")).unwrap();
    while next()["kind"] != "deleted" {}
    watch.kill().unwrap();
    watch.wait().unwrap();
}
