//! A command inside a workspace never acts on the directory around it.

#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

use std::fs;
use std::path::{Path, PathBuf};

use elevo_testkit::disk::in_own_namespace;
use serde_json::Value;

use crate::common::{Ended, Place, elevo, ended};

/// Runs `elevo` in a directory.
fn run_in(directory: &Path, args: &[&str]) -> Ended {
    ended(elevo().current_dir(directory).args(args))
}

/// Runs `elevo` in a workspace through `elevo ws exec`.
fn run_through(place: &Place, id: &str, args: &[&str]) -> Ended {
    let elevo = crate::common::ELEVO.as_str();
    place.ws([&["exec", id, "--", elevo], args].concat())
}

fn workspace(place: &Place, id: &str, provider: &str) -> PathBuf {
    let made = place.ws(["create", id, "--provider", provider]);
    made.text().trim_end().into()
}

/// The files of the working directory, and the history and tags of its store.
/// None of them may change.
fn state_of(place: &Place) -> (Vec<String>, String, String) {
    let files = ["kept", "edited", "new"].map(|name| place.read(name));
    (files.into(), place.ok(["log"]), place.ok(["tag"]))
}

fn error(ended: &Ended) -> Value {
    let error: Value = serde_json::from_str(&ended.stderr).expect(&ended.stderr);
    error["error"].clone()
}

const REFUSED: [&[&str]; 13] = [
    &["commit", "-m", "work of an agent"],
    &["commit", "."],
    &["checkout", "v1"],
    &["checkout", "v1", "--force"],
    &["init"],
    &["tag", "mine"],
    &["import", "."],
    &["store", "gc", "--keep", "0"],
    &["log"],
    &["show", "@"],
    &["diff"],
    &["status"],
    &["restore", "edited"],
];

#[test]
fn a_command_in_a_workspace_is_refused_and_changes_nothing_around_it() {
    if !in_own_namespace(
        "inside::a_command_in_a_workspace_is_refused_and_changes_nothing_around_it",
    ) {
        return;
    }
    let place = Place::with_history();
    // Uncommitted work, which a commit or checkout of this directory would
    // include or overwrite.
    place.write("edited", "edited around it\n");
    let before = state_of(&place);
    for provider in ["copy", "overlay", "rootless"] {
        let files = workspace(&place, provider, provider);
        let run = |args: &[&str]| match provider {
            "rootless" => run_through(&place, provider, args),
            _ => run_in(&files, args),
        };
        for command in REFUSED {
            let refused = run(&[command, &["--json"]].concat());
            assert_eq!(
                refused.code, 2,
                "{provider} {command:?}: {}",
                refused.stderr
            );
            let error = error(&refused);
            assert_eq!(error["name"], "inside_workspace", "{error}");
            assert_eq!(error["details"]["workspace"], provider, "{error}");
            let help = error["remediation"].as_str().unwrap();
            let next = format!("elevo ws snapshot {provider} -m");
            assert!(help.contains(&next), "{help}");
        }
        assert_eq!(state_of(&place), before, "{provider}");
    }
}

#[test]
fn the_advice_of_a_rejected_command_works_in_the_workspace() {
    let place = Place::with_history();
    let files = workspace(&place, "one", "copy");
    fs::create_dir(files.join("sub")).unwrap();
    fs::write(files.join("sub/mine"), "mine\n").unwrap();
    let here = files.join("sub");
    let status = run_in(&here, &["ws", "status", "one"]).text();
    assert_eq!(status, "A\tsub/\nA\tsub/mine\n");
    let kept = run_in(&here, &["ws", "--json", "snapshot", "one", "-m", "kept"]);
    let kept = kept.values().remove(0);
    let snapshot = kept["snapshot"].as_str().unwrap();
    assert_eq!(place.ok(["cat", &format!("{snapshot}:sub/mine")]), "mine\n");

    let store = place.path(".elevo/store");
    let named = ["--store", store.to_str().unwrap()];
    let log = run_in(&here, &[&["log", "--oneline"], &named[..]].concat()).text();
    assert_eq!(log, place.ok(["log", "--oneline"]));
    // The store is named, but these commands would still change the directory
    // around the workspace.
    for command in [&["commit"][..], &["checkout", "v1"], &["commit", "."]] {
        let refused = run_in(&here, &[command, &named[..], &["--json"]].concat());
        assert_eq!(error(&refused)["name"], "inside_workspace", "{command:?}");
    }
}

#[test]
fn workspaces_elsewhere_are_recognized_too() {
    let place = Place::with_history();
    let root = place.path("kept-here");
    let made = place.ws([
        "create",
        "--provider",
        "copy",
        "one",
        "--workspaces",
        "kept-here",
    ]);
    let files = PathBuf::from(made.text().trim_end());
    assert!(files.starts_with(&root), "{}", files.display());
    let refused = run_in(&files, &["commit", "--json"]);
    let error = error(&refused);
    assert_eq!(error["name"], "inside_workspace", "{error}");
    let help = error["remediation"].as_str().unwrap();
    assert!(help.contains("--workspaces"), "{help}");
}

#[test]
fn a_store_of_its_own_in_a_workspace_is_used() {
    let place = Place::with_history();
    let files = workspace(&place, "one", "copy");
    let head = place.id("head");
    run_in(&files, &["init", "."]).text();
    fs::write(files.join("mine"), "mine\n").unwrap();
    run_in(&files, &["commit", "-m", "inside"]).text();
    let log = run_in(&files, &["log", "--oneline"]).text();
    assert!(log.contains("inside") && log.lines().count() == 1, "{log}");
    assert_eq!(place.id("head"), head);
}
