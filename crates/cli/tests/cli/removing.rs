//! Deletion of workspaces: several at once, and those with unsaved work.

#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

use std::fs;
use std::io::Write;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::common::{ELEVO, Place, clean};

/// A place with a store and workspaces that are copies.
fn with_workspaces(ids: &[&str]) -> Place {
    let place = Place::with_history();
    for id in ids {
        place.ws(["create", "--provider", "copy", id]).text();
    }
    place
}

fn change(place: &Place, id: &str) {
    let files = place.ws(["path", id]).text();
    fs::write(format!("{}/mine", files.trim_end()), "mine\n").unwrap();
}

fn left(place: &Place) -> Vec<String> {
    let listed = place.ws(["--json", "ls"]).values();
    let id = |record: &Value| record["id"].as_str().unwrap().to_owned();
    listed.iter().map(id).collect()
}

fn names(stderr: &str) -> Vec<String> {
    let errors = stderr
        .lines()
        .map(|line| serde_json::from_str(line).unwrap());
    errors
        .map(|error: Value| error["error"]["name"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn removing_several_goes_on_after_an_error() {
    let place = with_workspaces(&["one", "two"]);
    let removed = place.ws(["--json", "rm", "nobody", "one", "nowhere", "two"]);
    assert_eq!(removed.code, 3);
    let not_found = "workspace_not_found";
    assert_eq!(names(&removed.stderr), [not_found, not_found]);
    let said = String::from_utf8(removed.stdout).unwrap();
    assert_eq!(said, "{\"removed\":\"one\"}\n{\"removed\":\"two\"}\n");
    assert!(left(&place).is_empty());

    let removed = place.ws(["rm", "nobody"]);
    assert!(
        removed.stderr.contains("cannot delete `nobody`"),
        "{}",
        removed.stderr
    );
}

#[test]
fn a_workspace_with_unsaved_changes_needs_discard() {
    let place = with_workspaces(&["changed", "clean", "kept"]);
    change(&place, "changed");
    change(&place, "kept");
    place.ws(["snapshot", "kept"]).text();
    let removed = place.ws(["--json", "rm", "changed", "clean", "kept"]);
    assert_eq!(removed.code, 4, "{}", removed.stderr);
    assert_eq!(names(&removed.stderr), ["unsaved_changes"]);
    assert!(
        removed.stderr.contains("elevo ws rm --discard changed"),
        "{}",
        removed.stderr
    );
    assert_eq!(left(&place), ["changed"]);
    assert_eq!(place.ws(["status", "changed"]).text(), "A\tmine\n");
    place.ws(["rm", "--discard", "changed"]).text();
    assert!(left(&place).is_empty());
}

#[test]
fn a_parked_workspace_loses_nothing() {
    let place = with_workspaces(&["one"]);
    change(&place, "one");
    place.ws(["park", "one"]).text();
    place.ws(["rm", "one"]).text();
}

/// Runs `elevo ws` on a terminal and enters an answer.
fn answered(place: &Place, args: &str, answer: &str) -> (Option<i32>, String) {
    let mut command = Command::new("script");
    clean(&mut command);
    command
        .args(["--quiet", "--return", "--command"])
        .arg(format!("'{}' ws {args}", *ELEVO))
        .arg("/dev/null")
        .current_dir(place.path(""))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    let mut script = command.spawn().unwrap();
    let mut input = script.stdin.take().unwrap();
    input.write_all(answer.as_bytes()).unwrap();
    let ended = {
        let output = script.wait_with_output();
        drop(input);
        output.unwrap()
    };
    let said = String::from_utf8_lossy(&ended.stdout).into_owned();
    (ended.status.code(), said)
}

#[test]
fn on_a_terminal_the_user_is_asked() {
    let place = with_workspaces(&["one"]);
    change(&place, "one");
    let (code, said) = answered(&place, "rm one", "n\n");
    assert_eq!(code, Some(4), "{said}");
    assert!(said.contains("Delete it with them? [y/N]"), "{said}");
    assert_eq!(left(&place), ["one"]);
    let (code, said) = answered(&place, "rm one", "y\n");
    assert_eq!(code, Some(0), "{said}");
    assert!(left(&place).is_empty());
}
