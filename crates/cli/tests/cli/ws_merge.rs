//! The work of workspaces: its start, and merges into head.

use std::fs;
use std::path::PathBuf;

use elevo_testkit::disk::in_own_namespace;

use crate::common::{Ended, Place, elevo, ended};

/// Creates a workspace with copies of the files.
fn workspace(place: &Place, id: &str) -> PathBuf {
    let made = place.ws(["create", id, "--provider", "copy"]);
    made.text().trim_end().into()
}

fn error(ended: &Ended) -> serde_json::Value {
    let error: serde_json::Value = serde_json::from_str(&ended.stderr).expect(&ended.stderr);
    error["error"].clone()
}

#[test]
fn a_fork_does_not_hide_changes() {
    // The mount of the resumed workspace ends with the namespace.
    if !in_own_namespace("ws_merge::a_fork_does_not_hide_changes") {
        return;
    }
    let place = Place::with_history();
    let files = workspace(&place, "one");
    fs::write(files.join("mine"), "mine\n").unwrap();
    place.ws(["fork", "one", "two"]).text();
    for id in ["one", "two"] {
        assert_eq!(place.ws(["status", id]).text(), "A\tmine\n");
        assert_eq!(place.ws(["diff", id]).text(), "A\tmine\n");
        assert_eq!(place.ws(["status", id, "--since-snapshot"]).text(), "");
        assert_eq!(place.ws(["diff", id, "--since-snapshot"]).text(), "");
    }
    let kept = place.ws(["snapshot", "one", "-m", "a message"]);
    assert!(kept.stderr.contains("were not saved"), "{}", kept.stderr);
    // The workspace keeps its start when its directory is created again.
    place.ws(["park", "two"]).text();
    place.ws(["resume", "two"]).text();
    assert_eq!(place.ws(["status", "two"]).text(), "A\tmine\n");
}

#[test]
fn the_workspace_around_the_current_directory_is_the_default() {
    let place = Place::with_history();
    let files = workspace(&place, "try-one");
    workspace(&place, "try-two");
    fs::create_dir(files.join("sub")).unwrap();
    let run = |args: &[&str]| ended(elevo().arg("ws").args(args).current_dir(files.join("sub")));
    assert_eq!(run(&["status"]).text(), "A\tsub/\n");
    assert_eq!(run(&["path"]).text().trim_end(), files.to_str().unwrap());
    assert!(run(&["show"]).text().contains("try-one"));
    assert_eq!(
        run(&["exec", "--", "ls"]).text(),
        "edited\nkept\nnew\nsub\n"
    );
    // The first characters of an id are enough.
    assert_eq!(place.ws(["status", "try-o"]).text(), "A\tsub/\n");
    let several = place.ws(["status", "try", "--json"]);
    assert_eq!(error(&several)["name"], "workspace_ambiguous");
    let outside = place.ws(["status", "--json"]);
    assert_eq!(error(&outside)["name"], "workspace_not_found");
    assert_eq!(
        place
            .ws(["exec", "try-one", "--", "sh", "-c", "exit 7"])
            .code,
        7
    );
}

#[test]
fn work_is_merged_into_head_beside_other_work() {
    let place = Place::with_history();
    let files = workspace(&place, "one");
    fs::write(files.join("edited"), "ONE\n2\nthree\nfour\n").unwrap();
    fs::write(files.join("mine"), "mine\n").unwrap();
    fs::remove_file(files.join("kept")).unwrap();
    fs::write(files.join(".gitignore"), "*.log\n").unwrap();
    fs::write(files.join("debug.log"), "ignored\n").unwrap();
    // Meanwhile another commit changes the same file elsewhere.
    place.write("edited", "one\n2\nthree\nfour\nfive\n");
    place.ok(["commit", "-m", "third"]);
    let before = place.id("head");

    let would = place.ws(["merge", "one", "--dry-run"]).text();
    assert!(
        would.starts_with("4 changes of one would be merged"),
        "{would}"
    );
    assert_eq!(place.id("head"), before);
    let merged = place.ws(["merge", "one", "-m", "from one"]).text();
    assert!(
        merged.ends_with("A\t.gitignore\nM\tedited\nD\tkept\nA\tmine\n"),
        "{merged}"
    );
    assert_eq!(place.ok(["cat", "edited"]), "ONE\n2\nthree\nfour\nfive\n");
    assert_eq!(place.ok(["ls"]), ".gitignore\nedited\nmine\nnew\n");
    let head = place.shown("head");
    assert_eq!(head["message"], "from one");
    assert_eq!(head["parents"], serde_json::json!([before]));

    // The next merge has only newer changes of the workspace, although head has
    // changed these files.
    assert_eq!(place.ws(["status", "one"]).text(), "");
    place.ok(["checkout", "head"]);
    place.write("edited", "one again\n");
    place.ok(["commit", "-m", "fourth"]);
    fs::write(files.join("late"), "late\n").unwrap();
    let merged = place.ws(["merge", "one", "--rm"]).text();
    assert!(merged.ends_with("A\tlate\nRemoved one\n"), "{merged}");
    assert_eq!(place.ok(["cat", "edited"]), "one again\n");
    assert!(!files.exists());
}

#[test]
fn nothing_is_merged_if_there_is_a_conflict() {
    let place = Place::with_history();
    let files = workspace(&place, "one");
    fs::write(files.join("edited"), "of the workspace\n").unwrap();
    fs::write(files.join("mine"), "mine\n").unwrap();
    place.write("edited", "of head\n");
    place.ok(["commit", "-m", "third"]);
    let head = place.id("head");
    let refused = place.ws(["merge", "one", "--rm", "--json"]);
    assert_eq!(refused.code, 4, "{}", refused.stderr);
    let refused = error(&refused);
    assert_eq!(refused["name"], "merge_conflict");
    assert_eq!(refused["details"]["conflicts"][0]["path"], "edited");
    let help = refused["remediation"].as_str().unwrap();
    assert!(help.contains("--take workspace"), "{help}");
    assert_eq!(place.id("head"), head);
    assert!(files.exists());

    fs::write(files.join("edited"), "of head\nof the workspace\n").unwrap();
    let merged = place.ws(["merge", "one", "--take", "workspace"]).text();
    assert!(merged.contains("resolved edited"), "{merged}");
    assert_eq!(place.ok(["cat", "edited"]), "of head\nof the workspace\n");
    assert_eq!(place.ok(["cat", "mine"]), "mine\n");

    let files = workspace(&place, "two");
    fs::remove_file(files.join("edited")).unwrap();
    place.ok(["checkout", "head"]);
    place.write("edited", "of head again\n");
    place.ok(["commit", "-m", "fifth"]);
    assert_eq!(place.ws(["merge", "two"]).code, 4);
    place.ws(["merge", "two", "--take", "head"]).text();
    assert_eq!(place.ok(["cat", "edited"]), "of head again\n");
}
