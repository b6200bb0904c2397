//! Data directories and backups of servers of earlier versions.

use std::fs;
use std::path::Path;
use std::process::Command;

use elevo_testkit::fixtures::{self, Fixture};
use rustix::process::Signal;
use serde_json::Value;

use crate::server::{Ended, Server};

fn lines(text: &str) -> Vec<Value> {
    let values = text.lines().map(serde_json::from_str::<Value>);
    values.collect::<Result<_, _>>().unwrap()
}

/// Runs a command that prints one JSON value.
fn value<'a>(server: &Server, args: impl IntoIterator<Item = &'a str>) -> Value {
    let text = server.ok(args.into_iter().chain(["--json"]));
    serde_json::from_str(&text).expect(&text)
}

/// Checks that `found` has all members of `expected`, with their values.
fn assert_has(found: &Value, expected: &Value) {
    for (name, value) in expected.as_object().unwrap() {
        assert_eq!(&found[name], value, "`{name}` of {found}");
    }
}

fn assert_has_all(found: &[Value], expected: &Value) {
    let expected = expected.as_array().unwrap();
    assert_eq!(found.len(), expected.len(), "{found:?}");
    for (found, expected) in found.iter().zip(expected) {
        assert_has(found, expected);
    }
}

fn with_key<'a>(server: &Server, key: &Value, args: impl IntoIterator<Item = &'a str>) -> Ended {
    let mut command = server.command(args);
    command.env("ELEVO_API_KEY", key.as_str().unwrap());
    Ended::new(command.output().unwrap())
}

/// Checks that a running server has the content of a fixture.
fn assert_has_content(server: &Server, fixture: &Fixture) {
    let expected = fixture.expected();
    assert_has(
        &value(server, ["project", "show", "site"]),
        &expected["project"],
    );
    let log = lines(&server.ok(["project", "log", "site", "--json"]));
    assert_has_all(&log, &expected["log"]);
    let blame = value(server, ["project", "blame", "site", "page.md"]);
    assert_has_all(blame["lines"].as_array().unwrap(), &expected["blame"]);
    let tags = lines(&server.ok(["project", "tag", "site", "--json"]));
    assert_has(&tags[0], &expected["tag"]);
    let review = expected["review"]["id"].as_str().unwrap();
    assert_has(
        &value(server, ["review", "show", review]),
        &expected["review"],
    );
    assert_eq!(
        value(server, ["snapshot", "show", "kept"])["id"],
        expected["snapshot"]
    );
    assert_eq!(value(server, ["webhook", "ls"])["id"], expected["webhook"]);
    assert_has_files(server, fixture);

    for key in [&expected["key"], &expected["agent_key"]] {
        assert!(
            with_key(server, key, ["project", "ls"])
                .text()
                .contains("site")
        );
    }
    let revoked = with_key(
        server,
        &expected["revoked_key"],
        ["project", "ls", "--json"],
    );
    assert_eq!(revoked.name(), "unauthorized");
}

/// Compares the files of the project with their hashes.
fn assert_has_files(server: &Server, fixture: &Fixture) {
    let directory = tempfile::tempdir().unwrap();
    let tar = directory.path().join("site.tar");
    server.ok([
        "project",
        "export",
        "site",
        "--output",
        tar.to_str().unwrap(),
    ]);
    let check = "tar --extract --file site.tar && sha256sum --check --strict --quiet \"$1\"";
    let checked = Command::new("sh")
        .args(["-ec", check, "sh"])
        .arg(fixture.path("site.sha256"))
        .current_dir(directory.path())
        .status();
    assert!(checked.unwrap().success(), "the files differ");
}

/// Decides the open review, and merges the live workspace.
fn go_on(server: &Server, fixture: &Fixture) {
    let expected = fixture.expected();
    let step = expected["project"]["step"].as_u64().unwrap();
    let review = expected["review"]["id"].as_str().unwrap();
    server.ok(["review", "accept", review, "--take", "workspace"]);
    let page = server.ok(["project", "cat", "site:page.md"]);
    assert!(page.contains("four by ben"), "{page}");
    let live = expected["live"].as_str().unwrap();
    server.ok(["ws", "merge", live]);
    assert_eq!(
        server.ok(["project", "cat", "site:unmerged.txt"]),
        "unmerged\n"
    );
    let after = value(server, ["project", "show", "site"]);
    assert_eq!(after["step"], step + 2);
}

/// Returns a server with the data directory of a fixture, not started yet.
fn unpacked(fixture: &Fixture) -> Server {
    let server = Server::new();
    fixture.unpack_into("server.tar.gz", server.directory.path());
    server
}

/// Starts a server without an engine. All servers with the data of one fixture
/// are the same installation, and would delete each other's containers.
fn up_without_engine(server: &mut Server) {
    let mut command = server.up_command();
    command.args(["--docker-host", "unix:///nowhere/docker.sock"]);
    server.up_by(command);
}

#[test]
fn a_server_starts_with_the_data_of_an_earlier_version_and_goes_on() {
    for fixture in fixtures::all() {
        let mut server = unpacked(&fixture);
        let key = fs::read(server.data().join("owner.key")).unwrap();
        up_without_engine(&mut server);
        assert_has_content(&server, &fixture);
        go_on(&server, &fixture);
        let head = fixture.expected()["audit"]["head"].clone();
        server.ok(["audit", "verify", "--expect", head.as_str().unwrap()]);
        assert_eq!(fs::read(server.data().join("owner.key")).unwrap(), key);
        assert!(server.end(Signal::TERM).success());
    }
}

#[test]
fn a_sandbox_continues_in_a_parked_workspace_of_an_earlier_version() {
    for fixture in fixtures::all() {
        let mut server = unpacked(&fixture);
        server.up();
        let parked = &fixture.expected()["parked"];
        for (name, work) in [
            ("expired", "work of an expired sandbox\n"),
            ("deleted", "work of a deleted sandbox\nmore\n"),
        ] {
            let workspace = parked[name].as_str().unwrap();
            let sandbox = server.ok(["sandbox", "create", "tiny", "--workspace", workspace]);
            let sandbox = sandbox.trim_end();
            assert_eq!(server.ok(["exec", sandbox, "--", "cat work.txt"]), work);
            server.ok(["exec", sandbox, "--", "echo later >>work.txt"]);
            server.ok(["sandbox", "rm", sandbox]);
        }
        assert!(server.end(Signal::TERM).success());
    }
}

#[test]
fn data_of_an_earlier_version_is_backed_up_and_restored() {
    for fixture in fixtures::all() {
        let mut server = unpacked(&fixture);
        up_without_engine(&mut server);
        let backups = server.directory.path().join("backups");
        server.ok(["server", "backup", backups.to_str().unwrap()]);
        assert!(server.end(Signal::TERM).success());
        assert_restores(&backups, &fixture);
    }
}

#[test]
fn a_backup_of_an_earlier_version_is_restored() {
    for fixture in fixtures::all() {
        let backups = fixture.unpack("backup.tar.gz");
        assert_restores(&backups.path().join("backups"), &fixture);
    }
}

/// Restores the newest backup in a directory. The restored server has the
/// content of the fixture, and goes on.
fn assert_restores(backups: &Path, fixture: &Fixture) {
    let mut restored = Server::new();
    let (from, into) = (backups.to_str().unwrap(), restored.data());
    restored.ok(["server", "restore", from, "--data", into.to_str().unwrap()]);
    // A backup does not contain the key of secrets.
    let original = fixture.unpack("server.tar.gz");
    let key = "data.secrets-key";
    fs::copy(
        original.path().join(key),
        restored.directory.path().join(key),
    )
    .unwrap();
    up_without_engine(&mut restored);
    assert_has_content(&restored, fixture);
    go_on(&restored, fixture);
    assert!(restored.end(Signal::TERM).success());
}
