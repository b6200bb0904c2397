//! Hostile names and texts.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use crate::common::Place;

const NOT_UTF8: &[u8] = b"caf\xe9";
const ESCAPES: &str = "a\x1b[31m\n\"b\\";

fn place_with_odd_names() -> Place {
    let place = Place::new();
    place.ok(["commit", "--allow-empty"]);
    place.ok(["tag", "empty"]);
    place.write(OsStr::from_bytes(NOT_UTF8), "1\n");
    place.write(ESCAPES, "2\n");
    place.write("ümlaut", "3\n");
    place.ok(["commit"]);
    place
}

#[test]
fn odd_names_are_quoted_for_people() {
    let place = place_with_odd_names();
    let printed = place.ok(["ls"]);
    let expected = "\"a\\033[31m\\n\\\"b\\\\\"\n\"caf\\351\"\nümlaut\n";
    assert_eq!(printed, expected);
    let printed = place.ok(["diff", "empty..head"]);
    assert!(!printed.contains('\x1b'), "{printed:?}");
    assert_eq!(printed.lines().count(), 3);
}

#[test]
fn odd_names_are_exact_for_programs() {
    let place = place_with_odd_names();
    for command in [&["ls"][..], &["diff", "empty..head"]] {
        let listed = place.json(command);
        assert_eq!(listed[0]["path"], ESCAPES);
        assert!(listed[0].get("path_base64").is_none());
        assert_eq!(listed[1]["path"], "caf\u{fffd}");
        assert_eq!(listed[1]["path_base64"], "Y2Fm6Q==");
        assert_eq!(listed[2]["path"], "ümlaut");
    }
}

#[test]
fn odd_names_are_taken_as_arguments() {
    let place = place_with_odd_names();
    let arguments = |name: &'static [u8]| {
        let file = [b"head:", name].concat();
        ["cat".into(), OsString::from_vec(file)]
    };
    assert_eq!(place.ok(arguments(NOT_UTF8)), "1\n");
    assert_eq!(place.ok(arguments(ESCAPES.as_bytes())), "2\n");
    place.ok(["checkout", "head", "../copy"]);
    let copy = place.root().join("copy").join(OsStr::from_bytes(NOT_UTF8));
    assert_eq!(fs::read_to_string(copy).unwrap(), "1\n");
}

#[test]
fn a_directory_whose_name_is_not_utf8_can_be_worked_in() {
    let place = Place::bare();
    let odd = place.path(OsStr::from_bytes(b"w\xff"));
    fs::create_dir(&odd).unwrap();
    fs::write(odd.join("file"), "x").unwrap();
    let run = |args: &[&str]| {
        let mut command = place.command(args);
        let ended = crate::common::ended(command.current_dir(&odd));
        assert_eq!(ended.code, 0, "{}", ended.stderr);
        ended.text()
    };
    run(&["init", "--json"]);
    run(&["commit"]);
    run(&["checkout", "head", "../copy", "--json"]);
    // The record in the copy names the store, although its path is not UTF-8.
    let mut command = place.command(["log"]);
    let ended = crate::common::ended(command.current_dir(place.path("copy")));
    assert_eq!(ended.code, 0, "{}", ended.stderr);
}

#[test]
fn untrusted_texts_cannot_control_the_terminal() {
    let place = Place::new();
    let evil = "\x1b]0;evil\x07\u{9b}2J";
    place.ok([
        "commit",
        "-m",
        evil,
        "--author",
        evil,
        "--label",
        &format!("k={evil}"),
    ]);
    for args in [&["log"][..], &["log", "--oneline"], &["show"]] {
        let printed = place.ok(args);
        let bad = |c: char| c.is_control() && c != '\n';
        assert!(!printed.contains(bad), "{printed:?}");
    }
    assert_eq!(place.shown("head")["message"], evil);
    let ended = place.run(["cat", "head:no\x1b[31msuch"]);
    assert_eq!(ended.code, 3);
    assert!(!ended.stderr.contains('\x1b'), "{:?}", ended.stderr);
}

#[test]
fn contents_of_files_cannot_control_the_terminal() {
    let place = Place::new();
    place.write("file", "one\n");
    place.ok(["commit"]);
    place.write("file", "\x1b]0;evil\x07\n");
    let mut command = place.command(["diff", "-p"]);
    // Prints as to a terminal.
    let printed = crate::common::ended(command.env("CLICOLOR_FORCE", "1")).text();
    assert!(printed.contains("evil"), "{printed:?}");
    assert!(!printed.contains("\x1b]"), "{printed:?}");
    assert!(!printed.contains('\x07'), "{printed:?}");
    // A program gets the bytes.
    assert!(place.ok(["diff", "-p"]).contains("\x1b]0;evil\x07"));
}

#[test]
fn a_link_in_place_of_the_reserved_directory_is_not_followed() {
    let place = Place::with_history();
    let (copy, elsewhere) = (place.root().join("copy"), place.root().join("elsewhere"));
    fs::create_dir(&copy).unwrap();
    fs::create_dir(&elsewhere).unwrap();
    std::os::unix::fs::symlink(&elsewhere, copy.join(".elevo")).unwrap();
    assert_eq!(
        place.fails(3, ["checkout", "v1", "../copy"]),
        "directory_not_found"
    );
    assert_eq!(fs::read_dir(&elsewhere).unwrap().count(), 0);
}
