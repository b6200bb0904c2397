//! Files that commits and imports leave out.

#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

use std::fs;
use std::process::Command;

use crate::common::Place;

/// A working directory as a developer has it: git, dependencies, and another
/// working directory in it.
fn place() -> Place {
    let place = Place::new();
    for (path, text) in [
        ("main", "main\n"),
        (".gitignore", "node_modules/\n*.log\n"),
        ("node_modules/left-pad/index.js", "code of others\n"),
        ("debug.log", "a line\n"),
        ("inner/page", "page\n"),
        ("inner/.elevo/store/db/CURRENT", "another store\n"),
    ] {
        place.write(path, text);
    }
    let mut git = Command::new("git");
    git.args(["init", "--quiet"]).current_dir(place.path(""));
    assert!(git.status().unwrap().success());
    place
}

const KEPT: &str = ".gitignore\ninner/\ninner/page\nmain\n";

#[test]
fn a_commit_and_an_import_leave_out_the_same() {
    let place = place();
    place.ok(["commit", "-m", "first"]);
    assert_eq!(place.ok(["ls", "-r", "head"]), KEPT);
    place.ok(["import", ".", "--tag", "imported"]);
    assert_eq!(place.ok(["ls", "-r", "imported"]), KEPT);
    let said = place.run(["import", "."]).stderr;
    assert!(said.contains("3 ignored paths left out"), "{said}");
}

#[test]
fn a_tar_is_imported_without_the_reserved_directory() {
    let place = place();
    let mut tar = Command::new("tar");
    tar.args(["-cf", "../all.tar", "."])
        .current_dir(place.path(""));
    assert!(tar.status().unwrap().success());
    place.ok(["import", "../all.tar", "--tag", "all"]);
    let listed = place.ok(["ls", "-r", "all"]);
    let has = |path: &str| listed.lines().any(|line| line == path);
    assert!(has("debug.log") && has("node_modules/left-pad/index.js") && has(".git/HEAD"));
    assert!(!listed.contains(".elevo"), "{listed}");
}

#[test]
fn a_new_pattern_removes_nothing_that_was_committed() {
    let place = Place::new();
    place.write("a.log", "one\n");
    place.ok(["commit"]);
    place.write(".gitignore", "*.log\n");
    place.write("a.log", "two\n");
    place.write("b.log", "new\n");
    place.ok(["commit"]);
    assert_eq!(place.ok(["ls", "-r"]), ".gitignore\na.log\n");
    assert_eq!(place.ok(["cat", "head:a.log"]), "two\n");
}

#[test]
fn a_checkout_leaves_what_is_ignored_where_it_is() {
    let place = place();
    place.ok(["commit", "-m", "first"]);
    place.write("main", "another\n");
    place.ok(["commit", "-m", "second"]);
    let ignored = ["node_modules/left-pad/index.js", "debug.log", ".git/HEAD"];
    let before = ignored.map(|path| place.read(path));
    for options in [&[][..], &["--check"], &["--check", "--force"]] {
        for revision in ["head~1", "head"] {
            place.ok([&["checkout", revision], options].concat());
        }
        assert_eq!(ignored.map(|path| place.read(path)), before, "{options:?}");
    }
}

#[test]
fn git_does_not_see_elevo() {
    let place = place();
    place.ok(["commit", "-m", "first"]);
    place.ok(["checkout", "head", "../copy"]);
    for directory in ["work", "copy"] {
        let directory = place.root().join(directory);
        let git = |args: &[&str]| {
            let mut git = Command::new("git");
            let ended = git.args(args).current_dir(&directory).output().unwrap();
            String::from_utf8(ended.stdout).unwrap()
        };
        git(&["init", "--quiet"]);
        assert!(directory.join(".elevo").is_dir());
        let status = git(&["status", "--porcelain", "-uall"]);
        assert!(status.contains("?? main"), "{status}");
        assert!(!status.contains("?? .elevo"), "{status}");
    }
    let ignore = fs::read_to_string(place.path(".elevo/.gitignore"));
    assert_eq!(ignore.unwrap(), "*\n");
}

#[test]
fn a_workspace_keeps_what_is_ignored_and_not_elevo() {
    let place = place();
    place.ok(["commit", "-m", "first"]);
    let made = place.ws(["create", "--provider", "copy", "one"]);
    let files = std::path::PathBuf::from(made.text().trim_end());
    for (path, text) in [("debug.log", "log\n"), (".elevo/checkout", "{}")] {
        let path = files.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let kept = place.ws(["--json", "snapshot", "one"]).values().remove(0);
    let listed = place.ok(["ls", "-r", kept["snapshot"].as_str().unwrap()]);
    assert_eq!(listed, ".gitignore\ndebug.log\ninner/\ninner/page\nmain\n");
    // `resume` restores the ignored file too.
    place.ws(["park", "one"]).text();
    place.ws(["resume", "one"]).text();
    assert_eq!(
        fs::read_to_string(files.join("debug.log")).unwrap(),
        "log\n"
    );
    // The resumed workspace may be mounted, so delete it here.
    place.ws(["rm", "--discard", "one"]).text();
}
