//! Imports of directories, and commands inside a workspace of a project.

use std::fs;
use std::process::Command;

use serde_json::Value;

use crate::server::{Ended, Server};

/// A server with an empty project, and the directory `work` with files.
fn server() -> Server {
    let mut server = Server::new();
    server.up();
    server.ok(["project", "create", "site"]);
    for (path, text) in [
        ("main", "main\n"),
        (".gitignore", "node_modules/\n*.log\n"),
        (".git/HEAD", "ref: refs/heads/main\n"),
        ("node_modules/left-pad/index.js", "code of others\n"),
        ("debug.log", "a line\n"),
        ("inner/page", "page\n"),
        ("inner/.elevo/store/db/CURRENT", "another store\n"),
    ] {
        server.write(&format!("work/{path}"), text.as_bytes());
    }
    server
}

fn files(server: &Server) -> String {
    server.ok(["project", "files", "site", "-r"])
}

/// Runs `elevo` in a directory.
fn run_in(server: &Server, directory: &std::path::Path, args: &[&str]) -> Ended {
    let mut command = server.command(args.iter().copied());
    Ended::new(command.current_dir(directory).output().unwrap())
}

#[test]
fn an_import_leaves_out_what_a_commit_leaves_out() {
    let server = server();
    let work = server.directory.path().join("work");
    run_in(&server, &work, &["init"]).text();
    run_in(&server, &work, &["commit"]).text();
    let committed = run_in(&server, &work, &["ls", "-r"]).text();
    assert_eq!(committed, ".gitignore\ninner/\ninner/page\nmain\n");
    let import = ["project", "import", "site", "work"];
    let imported = server.run(import);
    assert!(imported.stderr.contains("not kept"), "{}", imported.stderr);
    imported.text();
    assert_eq!(files(&server), committed);
}

#[test]
fn an_import_does_not_remove_what_the_project_has_and_the_source_ignores() {
    let server = server();
    let mut tar = Command::new("tar");
    tar.args(["-C", "work", "-cf", "all.tar", "."]);
    assert!(
        tar.current_dir(server.directory.path())
            .status()
            .unwrap()
            .success()
    );
    // An archive includes ignored files, but not `.git` and `.elevo`.
    server.ok(["project", "import", "site", "all.tar"]);
    let all = files(&server);
    assert!(
        all.contains("debug.log\n") && all.contains("index.js\n"),
        "{all}"
    );
    assert!(!all.contains(".elevo") && !all.contains(".git/"), "{all}");

    server.write("work/debug.log", b"another line\n");
    server.write("work/new.log", b"ignored\n");
    server.ok(["project", "import", "site", "work"]);
    assert_eq!(files(&server), all);
    let log = server.ok(["project", "cat", "site:debug.log"]);
    assert_eq!(log, "another line\n");
}

#[test]
fn a_policy_decides_whether_an_import_follows_gitignore() {
    let server = server();
    server.write("policy.json", br#"{"gitignore": false}"#);
    server.ok(["project", "policy", "set", "site", "policy.json"]);
    server.ok(["project", "import", "site", "work"]);
    let all = files(&server);
    assert!(
        all.contains("debug.log\n") && all.contains("index.js\n"),
        "{all}"
    );
    assert!(!all.contains(".elevo") && !all.contains(".git/"), "{all}");
}

#[test]
fn a_dry_run_of_an_import_says_what_would_change_and_changes_nothing() {
    let server = server();
    let import = ["project", "import", "site", "work"];
    server.ok(import);
    let log = ["project", "log", "site", "--json"];
    let before = (files(&server), server.ok(log));
    server.write("work/main", b"another\n");
    server.write("work/new", b"new\n");
    fs::remove_file(server.directory.path().join("work/inner/page")).unwrap();
    let mut tar = Command::new("tar");
    tar.args(["-C", "work", "--exclude=*.log", "--exclude=node_modules"]);
    tar.args(["-cf", "some.tar", "."]);
    let tarred = tar.current_dir(server.directory.path()).status();
    assert!(tarred.unwrap().success());
    for source in ["work", "some.tar"] {
        let rehearse = ["project", "import", "site", "--dry-run"];
        let said = server.ok(rehearse.into_iter().chain([source]));
        for line in ["M  main", "A  new", "D  inner/page", "3 changes would land"] {
            assert!(said.contains(line), "{said}");
        }
        assert_eq!((files(&server), server.ok(log)), before);
    }
    let shown = server.ok(import.into_iter().chain(["--dry-run", "--json"]));
    let shown: Value = serde_json::from_str(&shown).unwrap();
    assert_eq!(
        (&shown["dryRun"], &shown["steps"]),
        (&true.into(), &0.into())
    );
}

#[test]
fn state_in_a_workspace_of_a_project_is_refused() {
    let server = server();
    // A working directory that contains the server's data.
    server.ok(["init"]);
    let made = server.ok(["ws", "create", "--project", "site", "--json"]);
    let made: Value = serde_json::from_str(&made).unwrap();
    let path = std::path::PathBuf::from(made["path"].as_str().unwrap());
    fs::write(path.join("mine"), "mine\n").unwrap();
    for command in [&["commit"][..], &["log"], &["checkout", "head"]] {
        let args = [command, &["--json"]].concat();
        let refused = run_in(&server, &path, &args);
        assert_eq!(refused.name(), "inside_workspace", "{}", refused.stderr);
        assert!(
            refused.stderr.contains("`elevo ws merge`"),
            "{}",
            refused.stderr
        );
    }
    assert_eq!(server.ok(["log", "--all"]), "");
    let merged = run_in(&server, &path, &["ws", "merge"]).text();
    assert!(merged.contains("A  mine"), "{merged}");
}
