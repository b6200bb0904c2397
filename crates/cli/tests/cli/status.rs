//! Uncommitted changes: `status`, `diff` of the working directory, and `restore`.

use std::fs;

use serde_json::json;

use crate::common::{Place, elevo, ended, fields};

/// A place with two commits and uncommitted changes.
fn edited() -> Place {
    let place = Place::with_history();
    place.write("edited", "one\n2\nthree\n4\n");
    place.write("mine/new", "mine\n");
    fs::remove_file(place.path("kept")).expect("the file is there");
    place
}

const CHANGES: &str = "M\tedited\nD\tkept\nA\tmine/\nA\tmine/new\n";

#[test]
fn uncommitted_changes_are_listed() {
    let place = edited();
    assert_eq!(place.ok(["status"]), CHANGES);
    assert_eq!(place.ok(["diff"]), CHANGES);
    assert_eq!(place.ok(["diff", "@"]), CHANGES);
    let patch = place.ok(["diff", "-p", "--", "edited"]);
    assert!(patch.ends_with("-four\n+4\n"), "{patch}");
    let stat = place.ok(["diff", "--stat"]);
    assert!(stat.contains("4 changes"), "{stat}");
    // The directory has not changed, and neither has the history.
    assert_eq!(place.ok(["status"]), CHANGES);
    assert_eq!(place.ok(["log", "--oneline"]).lines().count(), 2);
    assert_eq!(place.run(["diff", "--exit-code"]).code, 7);
    let since_v1 = "M\tedited\nD\tkept\nA\tmine/\nA\tmine/new\nA\tnew\nD\told/\nD\told/gone\n";
    assert_eq!(place.ok(["diff", "v1"]), since_v1);
    let values = place.json(["status"]);
    assert_eq!(
        fields(&values[0]),
        ["changed", "directory", "head", "snapshot"]
    );
    assert_eq!(values[0]["changed"], true);
    assert_eq!(values[1]["path"], "edited");
    assert_eq!(values.len(), 5);
}

#[test]
fn an_unchanged_directory_has_no_changes() {
    let place = Place::with_history();
    let ended = place.run(["status"]);
    assert!(
        ended.stderr.contains("nothing changed since"),
        "{}",
        ended.stderr
    );
    assert_eq!(ended.text(), "");
    assert_eq!(place.run(["diff", "--exit-code"]).code, 0);
    place.ok(["checkout", "v1"]);
    let ended = place.run(["status"]);
    assert!(ended.stderr.contains("and head is"), "{}", ended.stderr);
    assert_eq!(ended.text(), "");
}

#[test]
fn before_the_first_commit_everything_is_new() {
    let place = Place::new();
    place.write("file", "text\n");
    assert_eq!(place.ok(["status"]), "A\tfile\n");
    assert!(place.ok(["diff", "-p"]).ends_with("+text\n"));
    assert_eq!(place.fails(3, ["restore", "file"]), "snapshot_not_found");
}

#[test]
fn ignored_files_are_no_changes_unless_the_snapshot_has_them() {
    let place = Place::new();
    place.write("tracked.log", "1\n");
    place.ok(["commit"]);
    place.write(".gitignore", "*.log\n");
    place.write("other.log", "1\n");
    place.write("tracked.log", "2\n");
    assert_eq!(place.ok(["status"]), "A\t.gitignore\nM\ttracked.log\n");
}

#[test]
fn restore_overwrites_only_the_named_paths() {
    let place = edited();
    place.write("new", "changed too\n");
    let would = place.run(["restore", "edited", "mine", "--dry-run"]);
    assert!(would.stderr.contains("--dry-run"), "{}", would.stderr);
    let expected = "M\tedited\nD\tmine/\nD\tmine/new\n";
    assert_eq!(would.text(), expected);
    assert_eq!(place.read("mine/new"), "mine\n");
    assert_eq!(place.ok(["restore", "edited", "mine"]), expected);
    assert_eq!(place.read("edited"), "one\n2\nthree\nfour\n");
    assert!(!place.path("mine").exists());
    assert_eq!(place.ok(["status"]), "D\tkept\nM\tnew\n");

    assert_eq!(
        place.ok(["restore", "old", "--from", "v1"]),
        "A\told/\nA\told/gone\n"
    );
    assert_eq!(place.read("old/gone"), "bye\n");
    let again = place.run(["restore", "old", "--from", "v1"]);
    assert!(again.stderr.contains("nothing differs"), "{}", again.stderr);
    let values = place.json(["restore", "."]);
    assert_eq!(values[0]["path"], "kept");
    assert_eq!(place.ok(["status"]), "");
}

#[test]
fn restore_takes_paths_from_the_current_directory() {
    let place = Place::with_history();
    place.write("sub/file", "one\n");
    place.write("file", "at the root\n");
    place.ok(["commit"]);
    place.write("sub/file", "two\n");
    place.write("file", "changed\n");
    let run = |args: &[&str]| ended(elevo().args(args).current_dir(place.path("sub")));
    assert_eq!(run(&["restore", "file"]).text(), "M\tsub/file\n");
    assert_eq!(place.read("file"), "changed\n");
    assert_eq!(run(&["restore", "../file"]).text(), "M\tfile\n");
    assert_eq!(place.read("file"), "at the root\n");
    assert_eq!(place.fails(2, ["restore", "../elsewhere"]), "path_invalid");
    assert_eq!(place.fails(3, ["restore", "absent"]), "path_not_found");
}

#[test]
fn a_quiet_commit_prints_nothing() {
    let place = edited();
    let ended = place.run(["commit", "-q", "-m", "quietly"]);
    assert_eq!(ended.stderr, "");
    assert_eq!(ended.text(), "");
    assert_eq!(place.shown("head")["message"], json!("quietly"));
}

#[test]
fn a_store_inside_a_working_directory_is_reported() {
    let place = Place::new();
    fs::create_dir(place.path("inner")).unwrap();
    let made = place.run(["init", "inner"]);
    assert!(
        made.stderr.contains("is a working directory too"),
        "{}",
        made.stderr
    );
    made.text();
}

#[test]
fn ranges_and_paths_name_one_thing_each() {
    let place = Place::with_history();
    let titles = place.ok(["log", "--oneline", "v1..HEAD"]);
    assert!(
        titles.contains("second") && !titles.contains("first"),
        "{titles}"
    );
    assert_eq!(place.ok(["log", "--oneline", "head..v1"]), "");
    for wrong in [
        &["show", "v1..v2"][..],
        &["show", "v1:kept"],
        &["ls", ":kept"],
    ] {
        assert_eq!(place.fails(2, wrong), "revision_invalid", "{wrong:?}");
    }
    place.write("a:b", "colon\n");
    place.ok(["commit"]);
    assert_eq!(place.ok(["cat", "head:a:b"]), "colon\n");
    assert_eq!(place.ok(["cat", "kept"]), "the same\n");
    assert_eq!(place.ok(["cat", "HEAD~:new"]), "hello\n");
}
