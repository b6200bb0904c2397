//! A catalog in a PostgreSQL database: copies, backups with a recovered
//! database, and the check of the database.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use elevo_testkit::postgres::Database;
use elevo_testkit::wait::until;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustix::process::Signal;
use serde_json::Value;

use crate::postgres_server::PostgresServer;
use crate::server::{Ended, Server};

/// Starts a server with its catalog in a database.
fn up(server: &mut Server, url: &str) {
    let mut command = server.up_command();
    command.env("CATALOG_URL", url);
    server.up_by(command);
}

/// Starts a server, which must be refused. Returns the name of the error.
fn refused(mut command: Command) -> String {
    let ended = Ended::new(command.output().unwrap());
    assert_ne!(ended.code, 0);
    ended.name()
}

fn with_database<'a>(server: &Server, args: impl IntoIterator<Item = &'a str>, url: &str) -> Ended {
    let mut command = server.command(args);
    Ended::new(command.env("CATALOG_URL", url).output().unwrap())
}

#[test]
fn a_catalog_moves_to_a_database_and_back() {
    let (mut server, database) = (Server::new(), Database::create());
    let (url, file) = (database.url(), server.data().join("catalog.db"));
    let file = file.to_str().unwrap();
    server.up();
    server.ok(["project", "create", "before"]);
    let busy = server.run(["catalog", "copy", file, &url, "--json"]);
    assert_eq!(busy.code, 4, "the server runs: {}", busy.stderr);
    assert!(server.end(Signal::TERM).success());
    let copied = server.ok(["catalog", "copy", file, &url, "--json"]);
    let copied: Value = serde_json::from_str(&copied).unwrap();
    assert_eq!(copied["tables"]["projects"], 1, "{copied}");
    assert!(!copied.to_string().contains("elevo@"), "{copied}");
    let again = server.run(["catalog", "copy", file, &url, "--json"]);
    assert_eq!(again.name(), "catalog_copy_refused");

    up(&mut server, &url);
    server.ok(["project", "create", "after"]);
    let back = server.directory.path().join("back.db");
    let back = back.to_str().unwrap();
    let busy = server.run(["catalog", "copy", &url, back, "--json"]);
    assert_eq!(busy.name(), "catalog_in_use");
    assert!(server.end(Signal::TERM).success());
    // The file is an older copy now.
    assert_eq!(refused(server.up_command()), "catalog_older");

    server.ok(["catalog", "copy", &url, back]);
    for suffix in ["", "-wal", "-shm"] {
        let _ = fs::remove_file(format!("{file}{suffix}"));
    }
    fs::rename(back, file).unwrap();
    server.up();
    let listed = server.ok(["project", "ls"]);
    assert!(
        listed.contains("before") && listed.contains("after"),
        "{listed}"
    );
    assert!(server.end(Signal::TERM).success());
    let mut older = server.up_command();
    older.env("CATALOG_URL", &url);
    assert_eq!(refused(older), "catalog_older");
}

#[test]
fn doctor_examines_the_database_of_the_catalog() {
    let (server, database) = (Server::new(), Database::create());
    let doctor = ["doctor", "--require", "catalog", "--json"];
    let ended = with_database(&server, doctor, &database.url());
    let shape: Value = serde_json::from_str(&ended.text()).unwrap();
    assert_eq!(shape["catalog"]["works"], true, "{shape}");
    let names = shape["catalog"]["checks"].as_array().unwrap();
    assert!(
        names.iter().any(|check| check["name"] == "standby"),
        "{shape}"
    );

    database.execute("ALTER DATABASE {} SET synchronous_commit = off");
    let ended = with_database(&server, ["doctor", "--require", "catalog"], &database.url());
    assert_eq!(ended.code, 1);
    let shown = String::from_utf8(ended.stdout).unwrap();
    assert!(shown.contains("set it to `on`"), "{shown}");

    let nowhere = "postgres://elevo:pass-word@127.0.0.1:1/none";
    let ended = with_database(&server, doctor, nowhere);
    assert_eq!(ended.code, 1);
    let shown = String::from_utf8(ended.stdout).unwrap() + &ended.stderr;
    assert!(!shown.contains("pass-word"), "{shown}");
}

/// Writes a file into a new workspace of a project, and lands it.
fn land(server: &Server, name: &str) {
    let made = server.ok(["ws", "create", "--project", "site", "--json"]);
    let made: Value = serde_json::from_str(&made).unwrap();
    let path = Path::new(made["path"].as_str().unwrap()).join(name);
    fs::write(path, name).unwrap();
    server.ok(["ws", "merge", made["id"].as_str().unwrap()]);
}

#[test]
fn a_backup_is_restored_with_the_recovered_database() {
    let (mut server, mut restored) = (Server::new(), Server::new());
    let database = Database::create();
    let url = database.url();
    up(&mut server, &url);
    server.ok(["project", "create", "site"]);
    let mut recovered = PostgresServer::copy_of_the_primary();
    land(&server, "before");
    let unmerged = server.ok(["ws", "create", "--project", "site"]);
    fs::write(Path::new(unmerged.trim_end()).join("unmerged"), "work").unwrap();
    let backups = server.directory.path().join("backups");
    let backups = backups.to_str().unwrap();
    let made = server.ok(["server", "backup", backups, "--json"]);
    let made: Value = serde_json::from_str(&made).unwrap();
    let position = made["database"].as_str().unwrap();
    land(&server, "after");

    let data = restored.data();
    let restore = [
        "server",
        "restore",
        backups,
        "--json",
        "--data",
        data.to_str().unwrap(),
    ];
    let without = server.run(restore);
    assert_eq!(without.name(), "database_needed");
    assert_eq!(
        with_database(&server, restore, &url).name(),
        "database_in_use"
    );
    let empty = Database::create();
    let foreign = with_database(&server, restore, &empty.url());
    assert_eq!(foreign.name(), "database_foreign");

    // The log of the original server takes the place of an archive.
    let log = Path::new(&database.query("SHOW data_directory")).join("pg_wal");
    recovered.put("recovery.signal", "");
    recovered.start(&format!(
        "recovery_target_lsn = '{position}'\nrecovery_target_action = promote\n\
         restore_command = 'cp {}/%f %p'\n",
        log.display()
    ));
    let recovered_url = recovered.url(database.name());
    // The session of the original server is a row of the recovered database.
    let done = until("the session of the original server expires", || {
        let ended = with_database(&server, restore, &recovered_url);
        (ended.code == 0).then_some(ended)
    });
    done.text();
    up(&mut restored, &recovered_url);
    assert_eq!(restored.ok(["project", "cat", "site:before"]), "before");
    let gone = restored.run(["project", "cat", "site:after", "--json"]);
    assert_eq!(gone.code, 3, "{}", gone.stderr);
    let listed = restored.ok(["ws", "ls", "--project", "site", "--json"]);
    let paths: Vec<PathBuf> = listed
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .map(|it| Path::new(it["path"].as_str().unwrap()).join("unmerged"))
        .collect();
    assert!(
        paths
            .iter()
            .any(|path| fs::read_to_string(path).is_ok_and(|text| text == "work")),
        "{paths:?}"
    );
    // Both servers work at the same time.
    assert_eq!(server.ok(["project", "cat", "site:after"]), "after");
    assert!(restored.end(Signal::TERM).success());
    assert!(server.end(Signal::TERM).success());
}

#[test]
fn the_certificate_of_the_database_is_checked() {
    let mut server = Server::new();
    let mut postgres = PostgresServer::empty();
    let authority = || {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
    };
    let (known, other) = (authority(), authority());
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new([postgres.address().to_string()]).unwrap();
    let certificate = params.signed_by(&key, &known).unwrap();
    postgres.put("server.crt", &certificate.pem());
    postgres.put("server.key", &key.serialize_pem());
    // Rejects connections without encryption.
    postgres.put("pg_hba.conf", "hostssl all all 127.0.0.0/8 trust\n");
    postgres.start("ssl = on\n");
    server.write("known.pem", known.pem().as_bytes());
    server.write("other.pem", other.pem().as_bytes());
    let with = |authority: &str| {
        let path = server.directory.path().join(authority);
        let url = postgres.url("postgres");
        format!("{url}?sslmode=verify-full&sslrootcert={}", path.display())
    };
    let (right, wrong) = (with("known.pem"), with("other.pem"));
    let doctor = |url: &str| {
        let ended = with_database(&server, ["doctor", "--json"], url);
        let shape: Value = serde_json::from_str(&ended.text()).unwrap();
        shape["catalog"].clone()
    };
    assert!(doctor(&right)["checks"].is_array(), "{}", doctor(&right));
    let refused = doctor(&wrong);
    let obstacle = refused["obstacle"].as_str().unwrap();
    assert!(obstacle.contains("certificate"), "{obstacle}");
    let open = format!("{}?sslmode=disable", postgres.url("postgres"));
    assert!(doctor(&open)["obstacle"].is_string());
    up(&mut server, &right);
    server.ok(["project", "create", "p"]);
    assert!(server.end(Signal::TERM).success());
}
