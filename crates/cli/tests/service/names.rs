//! Names and unique prefixes in place of ids; also revisions, the log of a
//! directory, exports and the audit log.

use std::fs;

use serde_json::Value;

use crate::server::{Ended, Server};

fn lines(text: &str) -> Vec<Value> {
    let values = text.lines().map(serde_json::from_str::<Value>);
    values.collect::<Result<_, _>>().unwrap()
}

/// A server with the project `site`, whose directory `src` changed in two of
/// three steps.
fn with_steps() -> Server {
    let mut server = Server::new();
    server.up();
    server.write("site/page", b"one\n");
    server.write("site/src/app", b"1\n");
    server.ok(["project", "create", "site", "--from", "site"]);
    server.write("site/page", b"two\n");
    server.ok(["project", "import", "site", "site", "-m", "a page"]);
    server.write("site/src/app", b"2\n");
    server.write("site/src/lib", b"lib\n");
    server.ok(["project", "import", "site", "site", "-m", "sources"]);
    server
}

#[test]
fn a_name_or_a_unique_prefix_stands_for_an_id() {
    let server = with_steps();
    let agent = server.ok(["agent", "create", "ada"]);
    let create = ["ws", "create", "--project", "site", "--json", "try"];
    let made = server.ok(create.into_iter().chain(["--agent", "ada"]));
    let made: Value = serde_json::from_str(&made).unwrap();
    assert_eq!(made["agent"], agent.trim());
    assert_eq!(made["base"], made["synced"]);
    let id = made["id"].as_str().unwrap();
    for text in ["try", &id[..id.len() - 2], &id[3..9]] {
        server.ok(["ws", "merge", text, "--dry-run"]);
    }
    let taken = server.run(create);
    assert_eq!((taken.code, &*taken.name()), (4, "name_taken"));
    server.ok(["project", "create", "other"]);
    server.ok(["ws", "create", "--project", "other", "try"]);
    let ambiguous = server.run(["ws", "merge", "try", "--json"]);
    let (code, name) = (ambiguous.code, ambiguous.name());
    assert_eq!((code, name.as_str()), (3, "name_ambiguous"));
    assert!(ambiguous.stderr.contains(id), "{}", ambiguous.stderr);
    let listed = lines(&server.ok(["ws", "ls", "--project", "site", "--json"]));
    assert!(listed.iter().all(|it| it["createdAt"].is_string()));
    server.ok(["ws", "rm", "--project", "site", &id[..9]]);
}

#[test]
fn a_revision_is_a_step_a_tag_digits_or_some_steps_before_them() {
    let server = with_steps();
    server.ok(["project", "tag", "site", "v1", "2"]);
    let log = lines(&server.ok(["project", "log", "site", "--json"]));
    let second = log[1]["snapshot"].as_str().unwrap();
    let cat = |rev: &str| server.ok(["project", "cat", &format!("site@{rev}:src/app")]);
    for rev in [
        "1",
        "2",
        "v1",
        "v1~1",
        "head~1",
        "HEAD~2",
        "3~",
        &second[..8],
    ] {
        assert_eq!(cat(rev), "1\n", "{rev}");
    }
    for rev in ["3", "head", "head~0"] {
        assert_eq!(cat(rev), "2\n", "{rev}");
    }
    let diff = |args: &[&str]| {
        let words = ["project", "diff", "site"].into_iter();
        server.ok(words.chain(args.iter().copied()))
    };
    assert_eq!(diff(&["1..2"]), "M\tpage\n");
    assert_eq!(diff(&["1", "2"]), "M\tpage\n");
    assert_eq!(diff(&["v1"]), diff(&["v1..head"]));
    assert_eq!(diff(&["v1.."]), "M\tsrc/app\nA\tsrc/lib\n");

    let here = server.ok(["ws", "create", "--project", "site", "--from", "2"]);
    let mut command = server.command(["project", "files", "site@@:src"]);
    let files = command.current_dir(here.trim_end()).output().unwrap();
    assert_eq!(Ended::new(files).text(), "src/app\n");
}

#[test]
fn the_log_of_a_directory_has_the_changes_of_everything_in_it() {
    let server = with_steps();
    let log = |path: &str| {
        let log = server.ok(["project", "log", "site", "--json", "--", path]);
        let step = |it: &Value| (it["step"].clone(), it["path"].clone());
        lines(&log).iter().map(step).collect::<Vec<_>>()
    };
    let expected = [(3, "src/app"), (3, "src/lib"), (1, "src")];
    assert_eq!(log("src"), expected.map(|(n, at)| (n.into(), at.into())));
    assert_eq!(log("src/"), log("src"));
    assert_eq!(log("src/app").len(), 2);
    assert_eq!(log("page").len(), 2);
    let one = server.ok(["project", "log", "site", "-n", "1", "--", "src"]);
    assert!(one.contains("src/lib") && !one.contains(" 1  "), "{one}");
}

#[test]
fn an_archive_is_exported_to_a_file_when_it_is_complete() {
    let server = with_steps();
    server.ok([
        "project", "export", "site", "src", "--at", "1", "-o", "src.tar",
    ]);
    let tar = server.read("src.tar");
    assert!(tar.len() > 1024);
    let failed = server.run(["project", "export", "nope", "-o", "none.tar"]);
    assert_eq!(failed.code, 3, "{}", failed.stderr);
    assert!(!server.directory.path().join("none.tar").exists());
    server.ok(["project", "create", "copy", "--from", "src.tar"]);
    let files = server.ok(["project", "files", "copy", "-r"]);
    assert!(files.contains("app\n"), "{files}");
    let again = server.run(["project", "create", "other", "--from", "nope"]);
    assert_ne!(again.code, 0);
    assert!(!server.ok(["project", "ls"]).contains("other"));
}

#[test]
fn the_audit_log_names_refusals_and_dry_runs() {
    let server = with_steps();
    assert_eq!(server.run(["project", "create", "site"]).code, 4);
    server.ok(["project", "import", "site", "site", "--dry-run"]);
    let path = server.ok(["ws", "create", "--project", "site", "try"]);
    fs::write(format!("{}/page", path.trim_end()), "three\n").unwrap();
    server.ok(["ws", "merge", "try", "--dry-run"]);
    let log = server.ok(["audit", "log"]);
    for text in [
        "project.created key-",
        "project.create refused(409)",
        "project.import dry-run",
        "workspace.merge dry-run",
        "project=site",
    ] {
        assert!(log.contains(text), "{text}: {log}");
    }
    assert!(!log.contains("project_id=site"), "{log}");
    server.ok(["audit", "verify"]);
}
