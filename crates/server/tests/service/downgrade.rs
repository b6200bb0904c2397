//! Starts with data that a newer version wrote. The server refuses, changes
//! nothing, and says which version to install.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::json;

use crate::harness::Service;
use crate::installation::refused;

/// Returns a stopped server whose data has a file in a workspace.
async fn stopped() -> Service {
    let mut service = Service::start_without_engine(&[]);
    let project = service.post("/api/v1/projects", json!({"name": "p"})).await;
    let made = json!({"project": project["id"]});
    let workspace = service.post("/api/v1/workspaces", made).await;
    let file = Path::new(workspace["path"].as_str().unwrap()).join("unmerged");
    fs::write(file, "work").unwrap();
    service.stop();
    service
}

/// Checks that the server refuses to start, and that its error has the formats
/// and the remedy. The same start with `--adopt` is refused as well.
fn assert_refused(service: &mut Service, found: &str) {
    let words = refused(service);
    for part in [
        found,
        "this version of Elevo reads up to",
        "nstall the version",
        "a backup",
    ] {
        assert!(words.contains(part), "{words}");
    }
    let adopting = service.try_run(&["--adopt"]);
    let words = adopting.expect_err("the server started with --adopt");
    assert!(words.contains(found), "{words}");
}

/// Checks that a server starts again with the previous content of a file.
fn assert_starts_with(service: &mut Service, file: &Path, before: Option<Vec<u8>>) {
    match before {
        Some(before) => fs::write(file, before).unwrap(),
        None => fs::remove_file(file).unwrap(),
    }
    service.run();
}

/// Writes the format of a newer version to a file of the data directory.
async fn refuses(file: &str, content: &str, found: &str) {
    let mut service = stopped().await;
    let path = service.data.join(file);
    let before = fs::read(&path).ok();
    fs::write(&path, content).unwrap();
    assert_refused(&mut service, found);
    assert_starts_with(&mut service, &path, before);
}

#[tokio::test]
async fn a_data_directory_of_a_newer_format_is_refused() {
    refuses("FORMAT", "elevo server 2\n", "has format 2").await;
}

#[tokio::test]
async fn a_store_of_a_newer_format_is_refused() {
    refuses("store/FORMAT", "elevo store 2\n", "has format 2").await;
}

#[tokio::test]
async fn an_audit_log_of_a_newer_format_is_refused() {
    refuses("audit/FORMAT", "elevo audit log 2\n", "has format 2").await;
}

#[tokio::test]
async fn a_catalog_of_a_newer_format_is_refused() {
    let mut service = stopped().await;
    let add = "insert into _sqlx_migrations (version, description, success, checksum, \
               execution_time) values (9999, 'new', true, x'00', 0)";
    service.sql(add).await;
    assert_refused(&mut service, "has format 9999");
    let words = refused(&mut service);
    assert!(words.contains("catalog.db.version-"), "{words}");
    service
        .sql("delete from _sqlx_migrations where version = 9999")
        .await;
    service.run();
}

#[tokio::test]
async fn a_workspace_registry_of_a_newer_format_is_refused() {
    let mut service = stopped().await;
    let log = registry_log(&service.data.join("workspaces"));
    let before = fs::read(&log).unwrap();
    let newer = [b"{\"format\":2}\n".as_slice(), &before].concat();
    fs::write(&log, newer).unwrap();
    assert_refused(&mut service, "has format 2");
    assert_starts_with(&mut service, &log, Some(before));
}

/// Returns the log of the only registry below a workspace root.
fn registry_log(root: &Path) -> PathBuf {
    let entries = fs::read_dir(root).unwrap();
    let logs = entries.map(|entry| entry.unwrap().path().join("registry/log"));
    let mut logs = logs.filter(|log| log.is_file());
    logs.next().unwrap()
}
