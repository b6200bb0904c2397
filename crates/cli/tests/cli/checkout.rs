//! Checkouts: what they change in a directory, and what they keep.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::common::{Place, fields};

fn record(directory: &Path) -> Value {
    let text = fs::read(directory.join(".elevo/checkout")).expect("a record");
    serde_json::from_slice(&text).expect("a JSON record")
}

fn change_record(directory: &Path, change: impl FnOnce(&mut Value)) {
    let mut value = record(directory);
    change(&mut value);
    fs::write(directory.join(".elevo/checkout"), value.to_string()).expect("a new record");
}

#[test]
fn a_snapshot_goes_into_a_new_directory() {
    let place = Place::with_history();
    let done = place.json_one(["checkout", "v1", "../a/b"]);
    let expected = [
        "bytes",
        "changed",
        "cloned",
        "directory",
        "kept",
        "removed",
        "snapshot",
        "written",
    ];
    assert_eq!(fields(&done), expected);
    assert_eq!(done["written"], 4);
    assert_eq!(done["bytes"], 27);
    let directory = place.root().join("a/b");
    assert_eq!(
        fs::read_to_string(directory.join("old/gone")).unwrap(),
        "bye\n"
    );
    let record = record(&directory);
    assert_eq!(record["state"], "holds");
    assert_eq!(record["snapshot"], place.id("v1"));
    // The copy is complete, with its times.
    let imported = place.json_one(["import", "../a/b"]);
    let shown = place.shown("v1");
    assert_eq!(imported["tree"], shown["tree"]);
    assert_eq!(imported["times"], shown["times"]);
}

#[test]
fn the_working_directory_moves_between_snapshots_and_writes_what_differs() {
    let place = Place::with_history();
    let done = place.json_one(["checkout", "v1"]);
    assert_eq!(done["written"], 3);
    assert_eq!(done["removed"], 1);
    assert_eq!(place.read("edited"), "one\ntwo\nthree\n");
    assert!(!place.path("new").exists());
    place.ok(["checkout", "head"]);
    assert_eq!(place.read("new"), "hello\n");
    assert!(!place.path("old").exists());
    assert_eq!(place.id("@"), place.id("v2"));
}

#[test]
fn a_changed_file_in_the_way_stays_and_nothing_is_changed() {
    let place = Place::with_history();
    place.write("edited", "precious\n");
    assert_eq!(place.fails(4, ["checkout", "v1"]), "in_the_way");
    assert_eq!(place.read("edited"), "precious\n");
    assert_eq!(place.read("new"), "hello\n");
    assert!(!place.path("old").exists());
    assert_eq!(record(&place.path(""))["snapshot"], place.id("v2"));
    place.ok(["checkout", "v1", "--force"]);
    assert_eq!(place.read("edited"), "one\ntwo\nthree\n");
}

#[test]
fn changes_elsewhere_stay_unless_all_is_checked() {
    let place = Place::with_history();
    place.write("kept", "edited here\n");
    place.write("untracked", "mine\n");
    assert_eq!(place.fails(4, ["checkout", "v1", "--check"]), "in_the_way");
    place.ok(["checkout", "v1"]);
    assert_eq!(place.read("kept"), "edited here\n");
    assert_eq!(place.read("untracked"), "mine\n");
}

#[test]
fn a_record_from_before_a_reboot_is_checked() {
    let place = Place::with_history();
    let boot = |value: &mut Value| value["boot"] = json!("another");
    place.write("kept", "undone by the loss of power\n");
    change_record(&place.path(""), boot);
    assert_eq!(place.fails(4, ["checkout", "v1"]), "in_the_way");
    place.write("kept", "the same\n");
    place.ok(["checkout", "v1"]);
    assert_eq!(place.read("edited"), "one\ntwo\nthree\n");
}

#[test]
fn a_directory_that_is_not_ours_loses_nothing() {
    let place = Place::with_history();
    let other = place.root().join("other");
    fs::create_dir(&other).unwrap();
    fs::write(other.join("kept"), "the same\n").unwrap();
    fs::write(other.join("mine"), "mine\n").unwrap();
    assert_eq!(place.fails(4, ["checkout", "v1", "../other"]), "in_the_way");
    assert_eq!(fs::read_to_string(other.join("mine")).unwrap(), "mine\n");
    assert!(!other.join(".elevo/checkout").exists());
    fs::remove_file(other.join("mine")).unwrap();
    place.ok(["checkout", "v1", "../other"]);
    assert_eq!(
        fs::read_to_string(other.join("edited")).unwrap(),
        "one\ntwo\nthree\n"
    );
}

#[test]
fn an_interrupted_checkout_is_completed_or_taken_back() {
    for (target, expected) in [("v1", "one\ntwo\nthree\n"), ("v2", "one\n2\nthree\nfour\n")] {
        let place = Place::with_history();
        let (v1, v2) = (place.id("v1"), place.id("v2"));
        // As if killed on the way from v2 to v1, with one file written.
        place.write("old/gone", "bye\n");
        change_record(&place.path(""), |value| {
            value["state"] = json!("changing");
            value["from"] = json!(v2);
            value["to"] = json!(v1);
        });
        assert_eq!(place.fails(4, ["commit"]), "checkout_interrupted");
        place.ok(["checkout", target]);
        assert_eq!(place.read("edited"), expected);
        assert_eq!(record(&place.path(""))["state"], "holds");
        place.ok(["import", ".", "--tag", "result"]);
        assert_eq!(place.ok(["diff", target, "result"]), "");
    }
}

#[test]
fn an_interrupted_checkout_needs_force_where_a_file_was_cut_off() {
    let place = Place::with_history();
    let (v1, v2) = (place.id("v1"), place.id("v2"));
    place.write("edited", "one\ntw");
    change_record(&place.path(""), |value| {
        value["state"] = json!("changing");
        value["from"] = json!(v2);
        value["to"] = json!(v1);
    });
    assert_eq!(place.fails(4, ["checkout", "v1"]), "checkout_interrupted");
    assert_eq!(record(&place.path(""))["state"], "changing");
    place.ok(["checkout", "v1", "--force"]);
    assert_eq!(place.read("edited"), "one\ntwo\nthree\n");
}

#[test]
fn a_checkout_that_stops_half_way_is_recorded() {
    let place = Place::with_history();
    // An untracked file in a directory that is to become a file.
    place.write("thing/file", "x");
    place.ok(["commit"]);
    fs::remove_dir_all(place.path("thing")).unwrap();
    place.write("thing", "a file now");
    place.ok(["commit"]);
    place.ok(["checkout", "head~1"]);
    place.write("thing/untracked", "mine");
    let ended = place.run(["checkout", "head", "--json"]);
    assert_eq!(place.read("thing/untracked"), "mine");
    let error: Value = serde_json::from_str(&ended.stderr).unwrap();
    let state = record(&place.path(""))["state"].clone();
    match error["error"]["name"].as_str().unwrap() {
        "in_the_way" => assert_eq!((ended.code, state), (4, json!("holds"))),
        "checkout_stopped" => assert_eq!((ended.code, state), (1, json!("changing"))),
        other => panic!("{other}"),
    }
}

#[test]
fn a_commit_needs_head_to_be_where_the_directory_came_from() {
    let place = Place::with_history();
    place.ok(["checkout", "v1"]);
    place.write("edited", "another way\n");
    assert_eq!(place.fails(4, ["commit"]), "head_elsewhere");
    let beside = place.json_one(["commit", "--detach", "-m", "a try"]);
    assert_eq!(beside["parents"], json!([place.id("v1")]));
    assert_eq!(beside["reference"], json!(null));
    assert_eq!(place.id("head"), place.id("v2"));
    assert_eq!(json!(place.id("@")), beside["snapshot"]);
    let on_top = place.json_one(["commit", "--parent", "head"]);
    assert_eq!(on_top["parents"], json!([place.id("v2")]));
    assert_eq!(json!(place.id("head")), on_top["snapshot"]);
}

#[test]
fn two_copies_cannot_both_follow_the_same_head() {
    let place = Place::with_history();
    for copy in ["../a", "../b"] {
        place.ok(["checkout", "head", copy]);
        fs::write(place.root().join("work").join(copy).join("new"), copy).unwrap();
    }
    place.ok(["commit", "../a"]);
    assert_eq!(place.fails(4, ["commit", "../b"]), "head_elsewhere");
    place.ok(["commit", "../b", "--detach"]);
}

#[test]
fn a_seed_must_be_known() {
    let place = Place::with_history();
    place.ok(["checkout", "v2", "../copy", "--seed", "."]);
    let copied = fs::read_to_string(place.root().join("copy/edited")).unwrap();
    assert_eq!(copied, "one\n2\nthree\nfour\n");
    fs::create_dir(place.root().join("other")).unwrap();
    let args = ["checkout", "v2", "../more", "--seed", "../other"];
    assert_eq!(place.fails(3, args), "seed_unknown");
}

#[test]
fn a_checkout_can_run_while_another_process_writes() {
    let place = Place::with_history();
    let store = place.path(".elevo/store/writer");
    let writer = fs::File::options().write(true).open(store).unwrap();
    writer.lock().unwrap();
    place.ok(["checkout", "v1", "../copy"]);
    place.ok(["log"]);
    place.ok(["tag"]);
    assert_eq!(place.fails(5, ["commit", "--wait", "0"]), "store_busy");
}

/// Starts a checkout and kills it when it has written `first`. Returns whether
/// it was still running.
fn kill_checkout(place: &Place, copy: &Path, first: &str) -> bool {
    let args = ["checkout", "head", "../copy", "--threads", "1"];
    let mut child = place.command(args).spawn().expect("it starts");
    while !copy.join(first).exists() {
        if child.try_wait().expect("it is our child").is_some() {
            return false;
        }
    }
    child.kill().expect("it is our child");
    !child.wait().expect("it is our child").success()
}

#[test]
fn a_killed_checkout_is_completed_by_the_next() {
    let place = Place::new();
    for number in 0..600 {
        let path = format!("d{}/{number:03}", number % 10);
        place.write(path, number.to_string().repeat(500));
    }
    place.ok(["commit"]);
    let copy = place.root().join("copy");
    let killed = (0..20).any(|_| {
        let _ = fs::remove_dir_all(&copy);
        kill_checkout(&place, &copy, "d0/000")
    });
    assert!(
        killed,
        "the checkout always ended before it could be killed"
    );
    assert_eq!(record(&copy)["state"], "changing");
    assert_eq!(
        place.fails(4, ["commit", "../copy"]),
        "checkout_interrupted"
    );
    place.ok(["checkout", "head", "../copy", "--force"]);
    place.ok(["import", "../copy", "--tag", "copy"]);
    assert_eq!(place.ok(["diff", "head", "copy"]), "");
}

#[test]
fn changed_files_that_stay_are_counted_and_named() {
    let place = Place::new();
    for name in ["a", "b", "c", "d/e", "d/f", "other"] {
        place.write(name, "one\n");
    }
    place.ok(["commit"]);
    place.ok(["tag", "v1"]);
    place.write("other", "two\n");
    place.write("new", "two\n");
    place.ok(["commit"]);

    let unchanged = place.run(["checkout", "v1"]);
    assert!(
        !unchanged.stderr.contains("different"),
        "{}",
        unchanged.stderr
    );
    let line = unchanged.text();
    assert!(
        line.ends_with("1 entry, 4 bytes written, 1 removed\n"),
        "{line}"
    );

    // A changed file of the same size, a removed one, one that is in no snapshot.
    place.write("a", "ONE\n");
    fs::remove_file(place.path("d/e")).expect("it is there");
    place.write("mine", "mine\n");
    let checked = place.run(["checkout", "head"]);
    let (line, note) = (String::from_utf8_lossy(&checked.stdout), &checked.stderr);
    assert!(
        line.ends_with("2 entries, 8 bytes written, 2 changed files kept\n"),
        "{line}"
    );
    assert!(note.contains(": a, d/e\n"), "{note}");
    assert_eq!(place.read("a"), "ONE\n");
    assert!(!place.path("d/e").exists());
    assert_eq!(place.json_one(["checkout", "v1"])["changed"], 2);

    // A checkout of the current snapshot, which writes nothing.
    place.write("a", "one\n");
    place.write("d/e", "one\n");
    let same = place.run(["checkout", "v1"]).text();
    assert!(same.ends_with("0 entries, 0 bytes written\n"), "{same}");
    place.write("a", "changed\n");
    let same = place.run(["checkout", "v1"]).text();
    assert!(
        same.ends_with("0 entries, 0 bytes written, 1 changed file kept\n"),
        "{same}"
    );
}
