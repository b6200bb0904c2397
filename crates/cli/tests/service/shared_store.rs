//! A store in a PostgreSQL database and an S3 bucket: copies, and the check of both.

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
