//! `diff` in all its forms.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use serde_json::json;

use crate::common::{Place, ended, fields};

fn set_mode(place: &Place, path: &str, mode: u32) {
    let mode = PermissionsExt::from_mode(mode);
    fs::set_permissions(place.path(path), mode).expect("the mode can be set");
}

#[test]
fn changes_are_listed_with_letters_and_names() {
    let place = Place::with_history();
    let expected = "M\tedited\nA\tnew\nD\told/\nD\told/gone\n";
    assert_eq!(place.ok(["diff", "v1", "v2"]), expected);
    assert_eq!(place.ok(["diff", "v1..v2"]), expected);
    assert_eq!(place.ok(["diff", "v1.."]), expected);
    let shown = place.ok(["show", "v2"]);
    assert!(shown.ends_with(&format!("\n\n{expected}")), "{shown}");
    assert_eq!(
        place.ok(["diff", "v1", "v2", "--", "old", "new"]),
        "A\tnew\nD\told/\nD\told/gone\n"
    );
    let first = place.ok(["show", "v1"]);
    let expected = "A\tedited\nA\tkept\nA\told/\nA\told/gone\n";
    assert!(first.ends_with(expected), "{first}");
    assert_eq!(place.ok(["diff", "v1", "v1"]), "");
}

#[test]
fn permissions_and_types_have_letters_of_their_own() {
    let place = Place::new();
    place.write("script", "#!/bin/sh\n");
    place.write("thing", "a file\n");
    set_mode(&place, "script", 0o644);
    place.ok(["commit"]);
    set_mode(&place, "script", 0o755);
    fs::remove_file(place.path("thing")).unwrap();
    place.write("thing/inside", "");
    place.ok(["commit"]);
    let expected = "P\tscript (0644 -> 0755)\nT\tthing/ (file -> directory)\nA\tthing/inside\n";
    assert_eq!(place.ok(["diff", "head~..head"]), expected);
    let changes = place.json(["diff", "head~..head"]);
    assert_eq!(changes[0]["status"], "mode_changed");
    assert_eq!(changes[0]["before"]["mode"], "0644");
    assert_eq!(changes[1]["status"], "type_changed");
    assert_eq!(changes[1]["after"]["kind"], "directory");
}

#[test]
fn json_has_an_object_for_each_change() {
    let place = Place::with_history();
    let changes = place.json(["diff", "v1", "v2"]);
    assert_eq!(changes.len(), 4);
    assert_eq!(
        fields(&changes[0]),
        ["after", "before", "path", "status", "type"]
    );
    let file = |size: u64| json!({ "kind": "file", "mode": "0644", "size": size });
    assert_eq!(
        changes[0],
        json!({
            "type": "change",
            "status": "modified",
            "path": "edited",
            "before": file(14),
            "after": file(17),
        })
    );
    assert_eq!(changes[1]["before"], json!(null));
}

#[test]
fn stat_counts_lines_and_bytes() {
    let place = Place::with_history();
    place.write("logo", b"\0\x01\x02");
    place.ok(["commit"]);
    let printed = place.ok(["diff", "--stat", "v1", "head"]);
    let expected = "\
M      +2      -1  edited
A          binary  logo (3 bytes)
A      +1          new
D                  old/
D              -1  old/gone
5 changes: 2 added, 2 removed, 1 modified; 3 lines added, 2 removed; 18 bytes -> 26 bytes
";
    assert_eq!(printed, expected);

    let values = place.json(["diff", "--stat", "v1", "v2"]);
    let (totals, changes) = values.split_last().unwrap();
    assert_eq!(changes[0]["text"], true);
    assert_eq!(changes[0]["lines_added"], 2);
    assert_eq!(changes[0]["lines_removed"], 1);
    assert_eq!(changes[0]["bytes_before"], 14);
    assert_eq!(changes[0]["bytes_after"], 17);
    assert_eq!(
        *totals,
        json!({
            "type": "totals",
            "changes": 4,
            "added": 1,
            "removed": 2,
            "modified": 1,
            "mode_changed": 0,
            "type_changed": 0,
            "renamed": 0,
            "binary": 0,
            "lines_added": 3,
            "lines_removed": 2,
            "bytes_before": 18,
            "bytes_after": 23,
        })
    );
    assert_eq!(place.ok(["diff", "--stat", "v1", "v1"]), "no changes\n");
}

#[test]
fn renames_are_shown_on_request() {
    let place = Place::with_history();
    fs::create_dir(place.path("sub")).unwrap();
    fs::rename(place.path("kept"), place.path("sub/moved")).unwrap();
    place.ok(["commit"]);
    assert_eq!(
        place.ok(["diff", "v2..head"]),
        "D\tkept\nA\tsub/\nA\tsub/moved\n"
    );
    assert_eq!(
        place.ok(["diff", "--renames", "v2..head"]),
        "A\tsub/\nR\tkept -> sub/moved\n"
    );
    let changes = place.json(["diff", "--renames", "v2..head"]);
    assert_eq!(changes[1]["status"], "renamed");
    assert_eq!(changes[1]["from"], "kept");
    assert_eq!(changes[1]["path"], "sub/moved");
    let patch = place.ok(["diff", "--renames", "-p", "v2..head"]);
    assert!(
        patch.contains("\nrename from kept\nrename to sub/moved\n"),
        "{patch}"
    );
    let totals = place
        .json(["diff", "--renames", "--stat", "v2..head"])
        .pop()
        .unwrap();
    assert_eq!(totals["renamed"], 1);
}

#[test]
fn the_exit_code_shows_differences_on_request() {
    let place = Place::with_history();
    assert_eq!(place.run(["diff", "v1", "v2"]).code, 0);
    assert_eq!(place.run(["diff", "--exit-code", "v1", "v2"]).code, 7);
    assert_eq!(place.run(["diff", "--exit-code", "v1", "v1"]).code, 0);
    let args = ["diff", "--exit-code", "v1", "v2", "--", "kept"];
    assert_eq!(place.run(args).code, 0);
    assert_eq!(place.run(["diff", "--exit-code", "v1", "v9"]).code, 3);
}

#[test]
fn a_patch_in_json_is_a_field() {
    let place = Place::with_history();
    let changes = place.json(["diff", "-p", "v1", "v2", "--", "new"]);
    let patch = "diff --git a/new b/new\nnew file mode 100644\n\
        --- /dev/null\n+++ b/new\n@@ -0,0 +1 @@\n+hello\n";
    assert_eq!(changes[0]["patch"], patch);
}

#[test]
fn git_applies_our_patches() {
    let place = Place::new();
    place.write(
        "plain",
        (0..40).map(|n| format!("{n}\n")).collect::<String>(),
    );
    place.write("no newline", "last line");
    place.write("latin", b"caf\xe9\nplain\n");
    place.write("odd \"name\"\n", "text\n");
    place.write("gone", "bye\n");
    place.write("script", "#!/bin/sh\n");
    place.write("becomes a link", "a file\n");
    place.write("empty", "");
    set_mode(&place, "script", 0o644);
    place.ok(["commit"]);
    place.ok(["tag", "before"]);
    let edited: String = (0..40)
        .map(|n| match n {
            5 => "five\n".into(),
            20 => String::new(),
            38 => "38\nand a half\n".into(),
            n => format!("{n}\n"),
        })
        .collect();
    place.write("plain", edited);
    place.write("no newline", "last line\nand one more");
    place.write("latin", b"th\xe9\nplain\n");
    place.write("odd \"name\"\n", "other text\n");
    place.write("new/deep/file", "hello\n");
    place.write("new/empty", "");
    fs::remove_file(place.path("gone")).unwrap();
    fs::remove_file(place.path("empty")).unwrap();
    set_mode(&place, "script", 0o755);
    fs::remove_file(place.path("becomes a link")).unwrap();
    std::os::unix::fs::symlink("plain", place.path("becomes a link")).unwrap();
    place.ok(["commit"]);
    place.ok(["tag", "after"]);

    place.ok(["checkout", "before", "../patched"]);
    let patched = place.root().join("patched");
    let patch = place.run(["diff", "-p", "before", "after"]).stdout;
    let file = place.root().join("patch");
    fs::write(&file, patch).unwrap();
    let mut git = Command::new("git");
    let applied = ended(git.arg("apply").arg(&file).current_dir(&patched));
    assert_eq!(applied.code, 0, "{}", applied.stderr);

    place.ok(["import", "../patched", "--tag", "patched"]);
    assert_eq!(place.ok(["diff", "after", "patched"]), "");
}
