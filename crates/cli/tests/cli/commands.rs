//! The output of each command, for people and for programs.

use std::fs;
use std::io::{Read, Write};
use std::process::Stdio;

use elevo_testkit::file_clock::wait_for_tick;
use serde_json::json;

use crate::common::{Place, elevo, ended, fields};

#[test]
fn init_makes_a_store_that_is_found_from_below() {
    let place = Place::bare();
    let printed = place.ok(["init"]);
    assert!(
        printed.starts_with("Created an empty store in "),
        "{printed}"
    );
    fs::create_dir_all(place.path("a/b")).unwrap();
    place.write("a/file", "x");
    place.ok(["commit"]);
    let mut command = place.command(["ls", "-r"]);
    let listed = ended(command.current_dir(place.path("a/b"))).text();
    assert_eq!(listed, "a/\na/b/\na/file\n");
}

#[test]
fn init_takes_a_directory_or_the_path_of_a_store() {
    let place = Place::bare();
    let made = place.json_one(["init", "new/project"]);
    assert!(place.path("new/project/.elevo/store/FORMAT").is_file());
    assert_eq!(fields(&made), ["store"]);
    place.ok(["init", "--store", "../elsewhere"]);
    place.write("file", "x");
    place.ok(["import", ".", "--store", "../elsewhere", "--tag", "t"]);
    let mut command = place.command(["cat", "t:file"]);
    let store = place.root().join("elsewhere");
    let printed = ended(command.env("ELEVO_STORE", store)).text();
    assert_eq!(printed, "x");
}

#[test]
fn import_keeps_any_directory_and_leaves_head_alone() {
    let place = Place::new();
    let other = place.root().join("other");
    fs::create_dir(&other).unwrap();
    fs::write(other.join("file"), "12345").unwrap();
    let args = ["import", "../other", "-m", "why", "--tag", "t"];
    let made = place.json_one(args.into_iter().chain(["--label", "job=42"]));
    let expected = [
        "bytes",
        "changed",
        "entries",
        "losses",
        "parents",
        "reference",
        "snapshot",
        "times",
        "tree",
    ];
    assert_eq!(fields(&made), expected);
    assert_eq!(made["entries"], 1);
    assert_eq!(made["bytes"], 5);
    assert_eq!(made["reference"], "tag/t");
    assert_eq!(made["parents"], json!([]));
    let shown = place.shown("t");
    assert_eq!(shown["snapshot"], made["snapshot"]);
    assert_eq!(shown["message"], "why");
    assert_eq!(shown["labels"], json!({ "job": "42" }));
    assert!(!other.join(".elevo").exists());
    assert_eq!(place.fails(3, ["show"]), "snapshot_not_found");

    let child = place.json_one(["import", "../other", "--parent", "t"]);
    assert_eq!(child["parents"], json!([made["snapshot"]]));
    assert_eq!(child["tree"], made["tree"]);
}

#[test]
fn import_reports_what_a_snapshot_cannot_hold() {
    let place = Place::new();
    place.write("file", "x");
    fs::hard_link(place.path("file"), place.path("again")).unwrap();
    let made = place.json_one(["import", "."]);
    let loss = &made["losses"][0];
    assert_eq!(loss["kind"], "hard_link");
    assert_eq!(fields(loss), ["count", "kind", "path"]);
    let ended = place.run(["import", "."]);
    assert!(ended.stderr.starts_with("note: "), "{}", ended.stderr);
    let ended = place.run(["import", ".", "--quiet"]);
    assert_eq!(ended.stderr, "");
}

#[test]
fn import_reads_changed_files_again() {
    let place = Place::new();
    let other = place.root().join("other");
    fs::create_dir(&other).unwrap();
    (0..50).for_each(|n| fs::write(other.join(n.to_string()), "some text").unwrap());
    fs::hard_link(other.join("1"), other.join("one")).unwrap();
    let file = fs::File::options().write(true).open(other.join("7"));
    let other = other.to_str().unwrap();
    let first = place.json_one(["import", other]);
    wait_for_tick(place.root());
    for _ in 0..2 {
        let again = place.json_one(["import", other]);
        assert_eq!(again["tree"], first["tree"]);
        assert_eq!(again["losses"], first["losses"], "reported each time");
    }
    // The same size and modification time as before.
    let mut file = file.unwrap();
    let time = file.metadata().unwrap().modified().unwrap();
    file.write_all(b"same text").unwrap();
    file.set_modified(time).unwrap();
    let changed = place.json_one(["import", other, "--tag", "changed"]);
    assert_ne!(changed["tree"], first["tree"]);
    assert_eq!(place.ok(["cat", "changed:7"]), "same text");
    let caches = place.path(".elevo/store/stat");
    for cache in fs::read_dir(caches).unwrap() {
        fs::write(cache.unwrap().path(), "damaged").unwrap();
    }
    assert_eq!(place.json_one(["import", other])["tree"], changed["tree"]);
}

#[test]
fn commit_keeps_history_and_says_when_nothing_changed() {
    let place = Place::new();
    place.write("file", "1");
    let first = place.json_one(["commit", "-m", "one", "--author", "me"]);
    assert_eq!(first["changed"], true);
    assert_eq!(first["reference"], "head");
    let again = place.json_one(["commit"]);
    assert_eq!(again["changed"], false);
    assert_eq!(again["snapshot"], first["snapshot"]);
    let printed = place.ok(["commit"]);
    assert!(printed.starts_with("Nothing changed since "), "{printed}");
    let empty = place.json_one(["commit", "--allow-empty"]);
    assert_eq!(empty["parents"], json!([first["snapshot"]]));
    let shown = place.shown("head~1");
    assert_eq!(shown["author"], "me");
    let author = place.shown("head")["author"].clone();
    assert!(
        author.as_str().unwrap().starts_with("somebody@"),
        "{author}"
    );
}

#[test]
fn a_snapshot_does_not_contain_the_reserved_directory() {
    let place = Place::new();
    place.write("file", "1");
    place.ok(["commit"]);
    assert_eq!(place.ok(["ls", "-r"]), "file\n");
}

#[test]
fn commit_of_another_directory_uses_its_own_store() {
    let place = Place::with_history();
    place.ok(["checkout", "v2", "../copy"]);
    fs::write(place.root().join("copy/new"), "edited there\n").unwrap();
    let made = place.json_one(["commit", "../copy"]);
    assert_eq!(made["parents"], json!([place.id("v2")]));
    assert_eq!(place.ok(["cat", "head:new"]), "edited there\n");
    // Commands in the copy find the store of the original.
    let mut command = place.command(["log", "--oneline"]);
    let printed = ended(command.current_dir(place.root().join("copy"))).text();
    assert_eq!(printed.lines().count(), 3);
}

#[test]
fn log_goes_back_newest_first() {
    let place = Place::with_history();
    let entries = place.json(["log"]);
    assert_eq!(entries.len(), 2);
    let expected = [
        "author",
        "bytes",
        "created",
        "entries",
        "labels",
        "message",
        "parents",
        "references",
        "snapshot",
        "times",
        "tree",
    ];
    assert_eq!(fields(&entries[0]), expected);
    assert_eq!(entries[0]["message"], "second\n\nwith more to say");
    assert_eq!(entries[0]["references"], json!(["head", "tag/v2"]));
    assert_eq!(entries[0]["parents"], json!([entries[1]["snapshot"]]));
    assert_eq!(entries[1]["references"], json!(["tag/v1"]));
    assert_eq!(place.json(["log", "-n", "1"]).len(), 1);
    assert_eq!(place.json(["log", "v1"]).len(), 1);

    let short = |id: &serde_json::Value| id.as_str().unwrap()[..12].to_owned();
    let lines = place.ok(["log", "--oneline"]);
    let expected = format!(
        "{} (head, v2) second\n{} (v1) first\n",
        short(&entries[0]["snapshot"]),
        short(&entries[1]["snapshot"]),
    );
    assert_eq!(lines, expected);

    let printed = place.ok(["log", "-n", "1"]);
    assert!(printed.contains("Author:  somebody@"), "{printed}");
    assert!(printed.contains("\n    with more to say\n"), "{printed}");
}

#[test]
fn log_finds_snapshots_that_nothing_leads_to() {
    let place = Place::with_history();
    place.ok(["import", "."]);
    assert_eq!(place.json(["log"]).len(), 2);
    let all = place.json(["log", "--all"]);
    let ids: Vec<_> = all
        .iter()
        .map(|it| it["snapshot"].as_str().unwrap())
        .collect();
    assert_eq!(ids.len(), 3);
    assert!(ids.is_sorted());
}

#[test]
fn log_ends_quietly_when_its_reader_leaves() {
    let place = Place::with_history();
    let mut command = place.command(["log", "--all"]);
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let mut stderr = String::new();
    child
        .stderr
        .take()
        .unwrap()
        .read_to_string(&mut stderr)
        .unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0), "{stderr}");
    assert_eq!(stderr, "");
}

#[test]
fn show_describes_a_snapshot_by_any_of_its_names() {
    let place = Place::with_history();
    let id = place.id("v1");
    for name in [
        "head~1",
        "head~",
        "@~1",
        &id,
        &id[..6],
        &id[..63],
        "tag/v1",
        "v2~0~1",
    ] {
        assert_eq!(place.id(name), id, "{name}");
    }
    let printed = place.ok(["show", "v1"]);
    assert!(
        printed.starts_with(&format!("snapshot {id} (v1)\n")),
        "{printed}"
    );
    assert!(
        printed.contains("Holds:   4 entries, 27 bytes\n"),
        "{printed}"
    );
}

#[test]
fn cat_prints_files_whole_and_in_part() {
    let place = Place::with_history();
    assert_eq!(place.ok(["cat", "v1:old/gone"]), "bye\n");
    assert_eq!(place.ok(["cat", "v1:./edited", "--range", "4:3"]), "two");
    assert_eq!(place.ok(["cat", "v1:edited", "--range", "8:"]), "three\n");
    assert_eq!(place.ok(["cat", "v1:edited", "--range", "99:1"]), "");
    let piece = place.json_one(["cat", "v1:edited", "--range", "4:3"]);
    assert_eq!(piece, json!({ "offset": 4, "length": 3, "text": "two" }));
}

#[test]
fn cat_streams_a_large_file() {
    let place = Place::new();
    let mut large = vec![0_u8; 5 * 1024 * 1024 + 7];
    for (index, byte) in large.iter_mut().enumerate() {
        *byte = (index.wrapping_mul(2_654_435_761) >> 13) as u8;
    }
    place.write("large", &large);
    place.ok(["commit"]);
    let ended = place.run(["cat", "head:large"]);
    assert!(ended.stdout == large);
    let pieces = place.json(["cat", "head:large"]);
    assert_eq!(fields(&pieces[0]), ["base64", "length", "offset"]);
    let lengths: u64 = pieces
        .iter()
        .map(|piece| piece["length"].as_u64().unwrap())
        .sum();
    assert_eq!(lengths, large.len() as u64);
}

#[test]
fn ls_lists_directories_files_and_links() {
    let place = Place::new();
    place.write("dir/file", "12345");
    place.write("dir-too", "");
    std::os::unix::fs::symlink("dir/file", place.path("link")).unwrap();
    place.ok(["commit"]);
    assert_eq!(place.ok(["ls"]), "dir/\ndir-too\nlink\n");
    assert_eq!(place.ok(["ls", "head:dir/"]), "dir/file\n");
    assert_eq!(place.ok(["ls", "head:dir/file"]), "dir/file\n");
    assert_eq!(place.ok(["ls", "-r"]), "dir/\ndir/file\ndir-too\nlink\n");
    let long = place.ok(["ls", "-l"]);
    let link = long.lines().last().unwrap();
    assert!(link.starts_with("lrwxrwxrwx"), "{link}");
    assert!(link.ends_with("link -> dir/file"), "{link}");
    let listed = place.json(["ls", "-r"]);
    assert_eq!(
        fields(&listed[1]),
        ["kind", "mode", "modified", "path", "size"]
    );
    assert_eq!(listed[1]["path"], "dir/file");
    assert_eq!(listed[1]["mode"], "0644");
    assert_eq!(listed[1]["size"], 5);
    assert_eq!(listed[3]["target"], "dir/file");
}

#[test]
fn ls_lists_a_directory_of_many_pages() {
    let place = Place::new();
    for number in 0..2500 {
        place.write(format!("many/{number:04}"), "");
    }
    place.ok(["commit"]);
    let listed = place.ok(["ls", "head:many"]);
    let expected: String = (0..2500)
        .map(|number| format!("many/{number:04}\n"))
        .collect();
    assert_eq!(listed, expected);
}

#[test]
fn tags_are_set_moved_listed_and_deleted() {
    let place = Place::with_history();
    let (v1, v2) = (place.id("v1"), place.id("v2"));
    let set = place.json_one(["tag", "good", "v1"]);
    assert_eq!(
        set,
        json!({ "tag": "good", "snapshot": v1, "previous": null })
    );
    assert_eq!(place.fails(4, ["tag", "good", "v2"]), "tag_exists");
    place.ok(["tag", "good", "v1"]);
    let moved = place.json_one(["tag", "good", "v2", "--move"]);
    assert_eq!(
        moved,
        json!({ "tag": "good", "snapshot": v2, "previous": v1 })
    );
    let listed = place.json(["tag"]);
    let names: Vec<_> = listed
        .iter()
        .map(|it| it["tag"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["good", "v1", "v2"]);
    assert_eq!(place.ok(["tag"]).lines().count(), 3);
    let gone = place.json_one(["tag", "good", "--delete"]);
    assert_eq!(
        gone,
        json!({ "tag": "good", "snapshot": null, "previous": v2 })
    );
    assert_eq!(place.fails(3, ["tag", "good", "--delete"]), "tag_not_found");
    assert_eq!(place.fails(2, ["tag", "head"]), "tag_invalid");
}

#[test]
fn completions_are_printed_for_every_shell() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = ended(elevo().args(["completions", shell])).text();
        assert!(script.contains("ELEVO_COMPLETE"), "{shell}");
    }
    let bash = ended(elevo().args(["completions", "bash"])).text();
    let mut check = std::process::Command::new("bash");
    let directory = tempfile::tempdir().unwrap();
    let script = directory.path().join("script");
    fs::write(&script, format!("{bash}\ncomplete -p elevo")).unwrap();
    let checked = ended(check.arg("-eu").arg(script));
    assert_eq!(checked.code, 0, "{}", checked.stderr);
}

#[test]
fn commands_options_and_values_are_completed() {
    let place = Place::with_history();
    // As the script for bash runs the program.
    let complete = |words: &[&str]| {
        let mut command = elevo();
        command.current_dir(place.path("")).arg("--").arg("elevo");
        command.args(words).env("ELEVO_COMPLETE", "bash");
        command.env("_CLAP_IFS", "\n");
        command.env("_CLAP_COMPLETE_INDEX", words.len().to_string());
        ended(&mut command).text()
    };
    assert_eq!(complete(&["completi"]), "completions");
    assert!(complete(&["ws", "create", "--prov"]).contains("--provider"));
    assert!(complete(&["ws", "create", "--provider", ""]).contains("overlay"));
    assert!(complete(&["show", "v"]).contains("v1\nv2"));
}

#[test]
fn every_command_has_help_with_examples() {
    let commands = [
        "init", "import", "commit", "log", "show", "diff", "checkout", "cat", "ls", "tag",
    ];
    for command in commands {
        let help = ended(elevo().args([command, "--help"])).text();
        assert!(help.contains("Examples:"), "{command}");
        assert!(help.contains(&format!("Usage: elevo {command}")), "{help}");
    }
    for args in [
        &["--help"][..],
        &["store", "--help"],
        &["completions", "--help"],
    ] {
        assert!(ended(elevo().args(args)).text().contains("Examples:"));
    }
}

#[test]
fn doctor_shows_the_provider_of_new_workspaces() {
    let place = Place::bare();
    let doctor = |args: &[&str]| {
        let mut command = elevo();
        command.env("DOCKER_HOST", "unix:///nowhere/docker.sock");
        command.env("ELEVO_DATA", place.root().join("data"));
        ended(command.arg("doctor").args(args).current_dir(place.path("")))
    };
    let text = doctor(&[]).text();
    assert!(text.contains("  copy          works"), "{text}");
    assert!(text.contains("\nNew workspaces use "), "{text}");
    assert!(text.contains("  address       no    not running"), "{text}");
    let shape: serde_json::Value = serde_json::from_str(&doctor(&["--json"]).text()).unwrap();
    let expected = [
        "catalog",
        "directory",
        "engine",
        "provider",
        "providers",
        "server",
        "store",
    ];
    assert_eq!(fields(&shape), expected);
    assert!(shape["catalog"].is_null(), "CATALOG_URL is not set");
    assert!(shape["store"].is_null(), "STORE_URL is not set");
    // This test has no engine and no server.
    assert_eq!(shape["engine"]["usable"], false);
    assert_eq!(shape["server"]["running"], false);
    for finding in shape["providers"].as_array().unwrap() {
        let expected = ["cost", "obstacle", "provider", "usable"];
        assert_eq!(fields(finding), expected);
        assert_eq!(finding["usable"], finding["obstacle"].is_null());
    }
    assert_eq!(fs::read_dir(place.path("")).unwrap().count(), 0);
    let refused = doctor(&["--json", "nowhere"]);
    assert_eq!(refused.code, 3);
    assert!(
        refused.stderr.contains("nowhere is not a directory"),
        "{}",
        refused.stderr
    );
}
