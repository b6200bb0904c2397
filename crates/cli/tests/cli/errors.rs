//! Exit codes, names and advice of errors.

use std::fs;

use serde_json::{Value, json};

use crate::common::{Place, elevo, ended, fields};

#[test]
fn wrong_usage_ends_with_2() {
    let place = Place::with_history();
    for args in [
        &["no-such-command"][..],
        &["log", "--no-such-option"],
        &["checkout"],
        &["cat", "v1:kept", "--range", "x"],
        &["import", ".", "--label", "nothing"],
        &["diff", "--stat", "--patch"],
    ] {
        assert_eq!(place.fails(2, args), "usage", "{args:?}");
        let ended = place.run(args);
        assert_eq!(ended.code, 2, "{args:?}");
        assert!(ended.stderr.starts_with("error: "), "{}", ended.stderr);
    }
    assert_eq!(place.fails(2, ["show", "head~x"]), "revision_invalid");
    assert_eq!(place.fails(2, ["cat", "v1:/etc/passwd"]), "path_invalid");
    assert_eq!(place.fails(2, ["ls", "v1:../up"]), "path_invalid");
    assert_eq!(place.fails(2, ["tag", "a b"]), "tag_invalid");
    let long = "x".repeat(70_000);
    let args = ["commit", "--allow-empty", "-m", &long];
    assert_eq!(place.fails(2, args), "snapshot_invalid");
    fs::create_dir(place.path("sub")).unwrap();
    assert_eq!(
        place.fails(2, ["commit", "sub"]),
        "inside_working_directory"
    );
    assert_eq!(place.fails(2, ["import", ".."]), "store_inside");
}

#[test]
fn missing_resources_end_with_3() {
    let bare = Place::bare();
    assert_eq!(bare.fails(3, ["log"]), "store_not_found");
    assert_eq!(
        bare.fails(3, ["log", "--store", "nowhere"]),
        "store_not_found"
    );
    let place = Place::with_history();
    assert_eq!(place.fails(3, ["show", "nothing"]), "snapshot_not_found");
    assert_eq!(
        place.fails(3, ["show", "0123456789ab"]),
        "snapshot_not_found"
    );
    let id = "0".repeat(64);
    assert_eq!(place.fails(3, ["show", &id]), "snapshot_not_found");
    assert_eq!(place.fails(3, ["show", "head~2"]), "snapshot_not_found");
    assert_eq!(place.fails(3, ["cat", "v1:nothing"]), "path_not_found");
    assert_eq!(place.fails(3, ["ls", "v1:no/such"]), "path_not_found");
    assert_eq!(place.fails(3, ["cat", "v1:old"]), "wrong_kind");
    assert_eq!(place.fails(3, ["import", "nowhere"]), "file_not_found");
    place.ok(["checkout", "v1", "../copy"]);
    fs::rename(place.path(".elevo/store"), place.path("moved")).unwrap();
    let mut command = place.command(["log", "--json"]);
    let ended = ended(command.current_dir(place.root().join("copy")));
    assert_eq!(ended.code, 3);
    assert!(ended.stderr.contains("should be"), "{}", ended.stderr);
}

#[test]
fn a_store_that_is_there_is_a_conflict() {
    let place = Place::new();
    assert_eq!(place.fails(4, ["init"]), "store_exists");
    place.write("full/file", "x");
    assert_eq!(place.fails(4, ["init", "--store", "full"]), "not_empty");
}

#[test]
fn a_busy_store_ends_with_5_and_says_who_holds_it() {
    let place = Place::with_history();
    let path = place.path(".elevo/store/writer");
    let writer = fs::File::options().write(true).open(&path).unwrap();
    writer.lock().unwrap();
    fs::write(&path, "somebody else").unwrap();
    let ended = place.run(["tag", "t", "--wait", "0", "--json"]);
    assert_eq!(ended.code, 5);
    let error: Value = serde_json::from_str(&ended.stderr).unwrap();
    assert_eq!(error["error"]["name"], "store_busy");
    assert_eq!(error["error"]["details"]["holder"], "somebody else");
    drop(writer);

    let lock = fs::File::create(place.path(".elevo/lock")).unwrap();
    lock.lock().unwrap();
    assert_eq!(place.fails(5, ["commit"]), "directory_busy");
    assert_eq!(place.fails(5, ["checkout", "v1"]), "directory_busy");
}

#[test]
fn a_store_of_a_newer_format_ends_with_6() {
    let place = Place::with_history();
    fs::write(place.path(".elevo/store/FORMAT"), "elevo store 999\n").unwrap();
    assert_eq!(place.fails(6, ["log"]), "newer_format");
    assert_eq!(place.fails(6, ["commit"]), "newer_format");
}

#[test]
fn a_damaged_store_ends_with_6() {
    let place = Place::with_history();
    let db = place.path(".elevo/store/db");
    for entry in fs::read_dir(&db).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if name.starts_with("MANIFEST") {
            fs::write(path, "nonsense").unwrap();
        }
    }
    let ended = place.run(["log", "--json"]);
    assert_eq!(ended.code, 6, "{}", ended.stderr);
}

#[test]
fn an_error_has_a_message_causes_and_advice() {
    let place = Place::with_history();
    place.write("edited", "precious\n");
    let ended = place.run(["checkout", "v1"]);
    let id = &place.id("v1")[..12];
    let directory = place.path("").canonicalize().unwrap();
    let directory = directory.display();
    let mut lines = ended.stderr.lines();
    assert_eq!(
        lines.next().unwrap(),
        format!("error: cannot check {id} out into {directory}")
    );
    let cause = lines.next().unwrap();
    assert!(
        cause.starts_with("  because: one changed path would be"),
        "{cause}"
    );
    let help = lines.next().unwrap();
    assert!(help.starts_with("  help: "), "{help}");
    assert_eq!(lines.next(), None);

    let ended = place.run(["checkout", "v1", "--json"]);
    assert!(ended.stdout.is_empty());
    let error: Value = serde_json::from_str(&ended.stderr).unwrap();
    let error = &error["error"];
    assert_eq!(fields(error), ["details", "message", "name", "remediation"]);
    assert_eq!(error["details"], json!({ "path": "edited", "count": 1 }));
    assert!(error["remediation"].as_str().unwrap().contains("--force"));
}

#[test]
fn fewer_than_six_digits_do_not_name_a_snapshot() {
    let place = Place::with_history();
    let id = place.id("head");
    assert_eq!(place.fails(3, ["show", &id[..5]]), "snapshot_not_found");
    assert_eq!(place.id(&id[..6]), id);
}

#[test]
fn without_arguments_the_help_is_shown() {
    let ended = ended(&mut elevo());
    assert_eq!(ended.code, 2);
    assert!(ended.stderr.contains("Usage: elevo"), "{}", ended.stderr);
}

#[test]
fn the_usage_of_an_error_does_not_demand_options_that_variables_fill() {
    for words in [&["review", "show"][..], &["checkout"]] {
        let mut command = elevo();
        for name in ["ELEVO_DATA", "ELEVO_SERVER", "ELEVO_CA", "ELEVO_STORE"] {
            command.env(name, "/nowhere");
        }
        let ended = ended(command.args(words));
        assert_eq!(ended.code, 2);
        let usage = ended.stderr.lines().find(|line| line.contains("Usage:"));
        let usage = usage.unwrap_or_else(|| panic!("{}", ended.stderr));
        assert!(!usage.contains("--"), "{usage}");
    }
}

#[test]
fn an_unknown_command_has_no_help() {
    let ended = ended(elevo().args(["help", "store", "nonsense"]));
    assert_eq!(ended.code, 2);
    assert!(
        ended.stderr.contains("`elevo store nonsense`"),
        "{}",
        ended.stderr
    );
}
