//! Exports of snapshots as tar archives, and imports of archives.

use std::fs;
use std::io::Write;
use std::process::{Command, Stdio};

use serde_json::json;

use crate::common::{Place, ended, fields};

fn tar(arguments: &[&str], place: &Place) -> Vec<u8> {
    let mut command = Command::new("tar");
    command.args(arguments).current_dir(place.root());
    let ended = ended(&mut command);
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    ended.stdout
}

/// A place with a store and the snapshot `one`.
fn place() -> Place {
    let place = Place::new();
    place.write("a/file", "12345");
    place.write("b", "x");
    place.ok(["import", ".", "--tag", "one"]);
    place
}

#[test]
fn a_snapshot_goes_out_and_comes_back() {
    let place = place();
    let args = ["export", "one", "-o", "../one.tar"];
    let done = place.json_one(args);
    assert_eq!(fields(&done), ["bytes", "entries", "snapshot", "tar"]);
    assert_eq!((&done["entries"], &done["bytes"]), (&json!(3), &json!(6)));
    let listed = tar(&["-tf", "one.tar"], &place);
    assert_eq!(String::from_utf8_lossy(&listed), "a/\na/file\nb\n");
    let before = place.shown("one");
    let after = place.json_one(["import", "../one.tar"]);
    assert_eq!(after["tree"], before["tree"], "{before}");
    assert_eq!(after["times"], before["times"], "{before}");
    let printed = place.ok(["export", "one:a", "-o", "../a.tar"]);
    assert!(printed.starts_with("Wrote "), "{printed}");
    assert_eq!(tar(&["-tf", "a.tar"], &place), b"file\n");
    let left: Vec<_> = fs::read_dir(place.root()).unwrap().collect();
    let is_scratch = |name: &str| name.starts_with(".elevo-export");
    assert!(!left.iter().any(|entry| {
        let name = entry.as_ref().unwrap().file_name();
        is_scratch(name.to_str().unwrap())
    }));
}

#[test]
fn a_tar_comes_by_standard_input_and_goes_by_standard_output() {
    let place = place();
    let out = ended(&mut place.command(["export", "one"]));
    place.ok(["export", "one", "-o", "../one.tar"]);
    assert!(out.stdout == fs::read(place.root().join("one.tar")).unwrap());
    let mut command = place.command(["import", "-", "--tag", "two"]);
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(&out.stdout).unwrap();
    assert!(child.wait().unwrap().success());
    assert_eq!(place.ok(["diff", "one", "two"]), "");
}

#[test]
fn a_layer_takes_one_snapshot_to_another() {
    let place = place();
    fs::remove_file(place.path("b")).unwrap();
    place.write("c", "new");
    place.ok(["import", ".", "--tag", "two"]);
    place.ok(["export", "two", "--layer-on", "one", "-o", "../layer"]);
    assert_eq!(tar(&["-tf", "layer"], &place), b".wh.b\nc\n");
    let args = ["import", "../layer", "--layer-on", "one"];
    let made = place.json_one(args.into_iter().chain(["--tag", "three"]));
    assert_eq!(made["parents"].as_array().unwrap().len(), 1, "{made}");
    assert_eq!(place.ok(["diff", "two", "three"]), "");
}

#[test]
fn rejected_archives_have_an_error_name_and_advice() {
    let place = place();
    place.ok(["export", "one", "-o", "../one.tar"]);
    let whole = fs::read(place.root().join("one.tar")).unwrap();
    fs::write(place.root().join("cut.tar"), &whole[..whole.len() / 2]).unwrap();
    fs::write(place.root().join("text.tar"), "no tar\n".repeat(1000)).unwrap();
    let mut header = tar::Header::new_gnu();
    header.as_old_mut().name[..4].copy_from_slice(b"../b");
    header.set_size(0);
    header.set_cksum();
    let mut evil = tar::Builder::new(Vec::new());
    evil.append(&header, &[][..]).unwrap();
    let evil = evil.into_inner().unwrap();
    fs::write(place.root().join("evil.tar"), evil).unwrap();
    let cases: [(&[&str], &str); 5] = [
        (&["../cut.tar"], "archive_cut_off"),
        (&["../text.tar"], "archive_unreadable"),
        (&["../one.tar", "--max-size", "5"], "archive_too_large"),
        (&["../one.tar", "--max-entries", "2"], "archive_too_large"),
        (&["../evil.tar"], "archive_refused"),
    ];
    for (args, name) in cases {
        let args = ["import", "--json"].into_iter().chain(args.iter().copied());
        let ended = ended(&mut place.command(args));
        assert_eq!(ended.code, 1, "{name}: {}", ended.stderr);
        let error: serde_json::Value = serde_json::from_str(&ended.stderr).unwrap();
        assert_eq!(error["error"]["name"], name, "{error}");
        assert!(error["error"]["remediation"].is_string(), "{error}");
    }
    assert!(!place.root().join("b").exists());
    assert_ne!(ended(&mut place.command(["import"])).code, 0);
    assert_eq!(place.fails(3, ["import", "../absent"]), "file_not_found");
    let directory = ["import", ".", "--max-entries", "2"];
    assert_eq!(place.fails(2, directory), "not_a_tar");
}
