//! A store in a PostgreSQL database and an S3 bucket: copies, verification, repair, and
//! the check of both.

use std::fs;
use std::path::Path;
use std::process::Command;

use elevo_testkit::postgres::Database;
use elevo_testkit::s3::S3;
use rustix::process::Signal;
use serde_json::Value;

use crate::server::{Ended, Server};

/// The databases and the bucket of an installation.
struct Place {
    catalog: Database,
    store: Database,
    s3: S3,
}

impl Place {
    fn new() -> Self {
        Self {
            catalog: Database::create(),
            store: Database::create(),
            s3: S3::new(),
        }
    }

    fn bucket(&self, command: &mut Command) {
        command
            .env("S3_ENDPOINT", &self.s3.endpoint)
            .env("S3_BUCKET", &self.s3.bucket)
            .env("S3_PREFIX", &self.s3.prefix)
            .env("S3_ACCESS_KEY", &self.s3.key)
            .env("S3_SECRET_KEY", &self.s3.secret);
    }

    fn up_command(&self, server: &Server) -> Command {
        let mut command = server.up_command();
        command
            .env("CATALOG_URL", self.catalog.url())
            .env("STORE_URL", self.store.url());
        self.bucket(&mut command);
        command
    }

    fn run<'a>(&self, server: &Server, args: impl IntoIterator<Item = &'a str>) -> Ended {
        let mut command = server.command(args);
        self.bucket(&mut command);
        Ended::new(command.output().unwrap())
    }
}

/// Writes a file into a new workspace of a project, and lands it.
fn land(server: &Server, project: &str, name: &str, content: &str) {
    let made = server.ok(["ws", "create", "--project", project, "--json"]);
    let made: Value = serde_json::from_str(&made).unwrap();
    let path = Path::new(made["path"].as_str().unwrap()).join(name);
    fs::write(path, content).unwrap();
    server.ok(["ws", "merge", made["id"].as_str().unwrap()]);
}

#[test]
fn a_store_moves_to_a_bucket_and_back() {
    let (mut server, place) = (Server::new(), Place::new());
    let store = server.data().join("store");
    let (store, url) = (store.to_str().unwrap(), place.store.url());
    let large = "a line of a large file\n".repeat(50_000);
    server.up();
    server.ok(["project", "create", "site"]);
    land(&server, "site", "large.txt", &large);
    let busy = place.run(&server, ["store", "copy", store, &url, "--json"]);
    assert_eq!(busy.name(), "store_in_use", "{}", busy.stderr);
    assert!(server.end(Signal::TERM).success());
    let catalog = server.data().join("catalog.db");
    let moved = place.catalog.url();
    server.ok(["catalog", "copy", catalog.to_str().unwrap(), &moved]);

    let copied = place.run(&server, ["store", "copy", store, &url, "--json"]);
    assert_eq!(copied.code, 0, "{}", copied.stderr);
    let shape: Value = serde_json::from_str(copied.text().lines().next().unwrap()).unwrap();
    assert_eq!(shape["whole"], true, "{shape}");
    assert_eq!(shape["verified"]["whole"], true, "{shape}");
    let again = place.run(&server, ["store", "copy", store, &url]);
    let text = again.text();
    assert!(text.contains("everything was there already"), "{text}");

    server.up_by(place.up_command(&server));
    land(&server, "site", "after.txt", "after");
    assert!(server.end(Signal::TERM).success());
    // The directory is an older copy now.
    let mut older = server.up_command();
    older.env("CATALOG_URL", &moved);
    let ended = Ended::new(older.output().unwrap());
    assert_eq!(ended.name(), "store_older");

    let back = server.directory.path().join("back");
    let back = back.to_str().unwrap();
    let copied = place.run(&server, ["store", "copy", &url, back]);
    assert_eq!(copied.code, 0, "{}", copied.stderr);
    fs::remove_dir_all(store).unwrap();
    fs::rename(back, store).unwrap();
    let mut command = server.up_command();
    command.env("CATALOG_URL", &moved);
    server.up_by(command);
    land(&server, "site", "last.txt", "last");
    for (name, content) in [("large.txt", &*large), ("after.txt", "after")] {
        assert_eq!(
            server.ok(["project", "cat", &format!("site:{name}")]),
            content
        );
    }
    assert!(server.end(Signal::TERM).success());
}

#[test]
fn a_store_is_not_copied_over_that_of_another_server() {
    let (mut one, mut two, place) = (Server::new(), Server::new(), Place::new());
    let store = two.data().join("store");
    one.up_by(place.up_command(&one));
    one.ok(["project", "create", "site"]);
    assert!(one.end(Signal::TERM).success());
    two.up();
    assert!(two.end(Signal::TERM).success());
    let url = place.store.url();
    let args = ["store", "copy", store.to_str().unwrap(), &url, "--json"];
    let refused = place.run(&two, args);
    assert_eq!(refused.name(), "installation_foreign", "{}", refused.stderr);
}

/// Returns text that does not fit into a row of the database, also compressed.
fn noise() -> String {
    let mut state = 1_u64;
    let mut step = || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1);
        char::from(b' ' + (state >> 58) as u8)
    };
    (0..1 << 20).map(|_| step()).collect()
}

fn shapes(ended: &Ended) -> Vec<Value> {
    let lines = ended.stdout.split(|byte| *byte == b'\n');
    let lines = lines.filter(|line| !line.is_empty());
    lines
        .map(|line| serde_json::from_slice(line).unwrap())
        .collect()
}

#[test]
fn a_damaged_store_in_a_bucket_is_verified_and_repaired() {
    let (mut server, place) = (Server::new(), Place::new());
    let (url, noise) = (place.store.url(), noise());
    let verify = |server: &Server| place.run(server, ["store", "verify", &url, "--json"]);
    assert_eq!(verify(&server).name(), "store_not_found");

    server.up_by(place.up_command(&server));
    server.ok(["project", "create", "site"]);
    land(&server, "site", "lost.txt", &noise);
    let whole = verify(&server);
    assert_eq!(whole.code, 0, "beside a server: {}", whole.stderr);
    let found = shapes(&whole);
    assert!(found.iter().all(|one| one["whole"] == true), "{found:?}");
    let compared = found.last().unwrap();
    assert!(compared["files"].as_u64() > Some(0), "{compared}");
    let copy = server.directory.path().join("copy");
    let copy = copy.to_str().unwrap();
    let repair = ["store", "repair", &url, "--from", copy, "--json"];
    let busy = place.run(&server, repair);
    assert_eq!(busy.name(), "store_in_use", "{}", busy.stderr);
    assert!(server.end(Signal::TERM).success());
    let copied = place.run(&server, ["store", "copy", &url, copy]);
    assert_eq!(copied.code, 0, "{}", copied.stderr);

    // The file with the content has another name in the bucket now.
    place.store.execute_inside(
        "UPDATE store.files SET key = substring(sha256(key) FOR 16) \
             WHERE size = (SELECT max(size) FROM store.files)",
    );
    let damaged = verify(&server);
    assert_eq!(damaged.code, 6, "{}", damaged.stderr);
    let text = String::from_utf8_lossy(&damaged.stdout).into_owned();
    assert!(text.contains(r#""path":"lost.txt""#), "{text}");
    let found = shapes(&damaged);
    let compared = found.last().unwrap();
    assert_eq!(compared["whole"], false, "{compared}");
    assert_eq!(compared["missing"], 1, "{compared}");
    assert_eq!(compared["unknown"], 1, "{compared}");
    let damaged = place.run(&server, ["store", "verify", &url]);
    assert!(damaged.stderr.contains("elevo store repair"));
    let text = String::from_utf8_lossy(&damaged.stdout).into_owned();
    assert!(text.contains(" in the bucket: 1 is missing\n"), "{text}");

    let repaired = place.run(&server, repair);
    assert_eq!(repaired.code, 0, "{}", repaired.stderr);
    let found = shapes(&repaired);
    assert!(found.iter().any(|one| one["mended"] != 0), "{found:?}");
    let again = verify(&server);
    assert_eq!(again.code, 0, "{}", again.stderr);
    let found = shapes(&again);
    let compared = found.last().unwrap();
    assert_eq!(compared["missing"], 0, "{compared}");
    server.up_by(place.up_command(&server));
    assert_eq!(server.ok(["project", "cat", "site:lost.txt"]), noise);
    assert!(server.end(Signal::TERM).success());
}

#[test]
fn doctor_examines_the_store_and_its_bucket() {
    let (server, place) = (Server::new(), Place::new());
    let doctor = ["doctor", "--require", "store", "--json"];
    let examine = |secret: &str| {
        let mut command = server.command(doctor);
        command.env("STORE_URL", place.store.url());
        place.bucket(&mut command);
        command.env("S3_SECRET_KEY", secret);
        Ended::new(command.output().unwrap())
    };
    let ended = examine(&place.s3.secret);
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    let shape: Value = serde_json::from_str(&ended.text()).unwrap();
    assert_eq!(shape["store"]["works"], true, "{shape}");
    let ended = examine("wrong-secret");
    assert_eq!(ended.code, 1);
    let shape: Value = serde_json::from_slice(&ended.stdout).unwrap();
    assert_eq!(shape["store"]["works"], false, "{shape}");
    assert!(!shape.to_string().contains("wrong-secret"), "{shape}");
}
