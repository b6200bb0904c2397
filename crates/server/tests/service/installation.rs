//! Starts with a catalog, a store or workspaces that do not belong together.

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use reqwest::Method;
use serde_json::json;

use crate::harness::Service;

/// Size from which files are compared by size and time only.
const LARGE: u64 = 4 << 20;

/// Returns every path below a directory, with the content of files, except
/// SQLite's shared memory and the database's message log, which hold no data.
fn tree(root: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut open = vec![root.to_owned()];
    while let Some(directory) = open.pop() {
        for entry in fs::read_dir(&directory).unwrap() {
            let path = entry.unwrap().path();
            let about = fs::symlink_metadata(&path).unwrap();
            if about.is_dir() {
                open.push(path.clone());
            }
            let content = match about.is_file() {
                true if about.len() > LARGE => format!("{} {}", about.len(), about.mtime()).into(),
                true => fs::read(&path).unwrap(),
                false => Vec::new(),
            };
            let name = path.to_string_lossy();
            if !name.ends_with("-shm") {
                found.insert(path, content);
            }
        }
    }
    found
}

/// Creates a project with a workspace that has a file that was not merged.
/// Returns the file.
async fn unmerged(service: &Service) -> PathBuf {
    let made = service.post("/api/v1/projects", json!({"name": "p"})).await;
    workspace_of(service, &made["id"]).await
}

async fn workspace_of(service: &Service, project: &serde_json::Value) -> PathBuf {
    let made = service
        .post("/api/v1/workspaces", json!({"project": project}))
        .await;
    let file = Path::new(made["path"].as_str().unwrap()).join("unmerged");
    fs::write(&file, "work").unwrap();
    file
}

/// Starts the server, which must fail and change nothing. Returns its output.
pub(crate) fn refused(service: &mut Service) -> String {
    let before = tree(&service.data);
    let words = service.try_run(&[]).expect_err("the server started");
    let after = tree(&service.data);
    let names = |tree: &BTreeMap<PathBuf, Vec<u8>>| tree.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&after), names(&before), "created or deleted");
    let changed: Vec<_> = before
        .iter()
        .filter(|(path, content)| after[*path] != **content)
        .collect();
    assert!(
        changed.is_empty(),
        "changed: {:?}",
        changed.iter().map(|it| it.0).collect::<Vec<_>>()
    );
    words
}

/// Moves the catalog with its log, as files.
fn move_catalog(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for end in ["", "-wal", "-shm"] {
        let name = format!("catalog.db{end}");
        match fs::rename(from.join(&name), to.join(&name)) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            moved => moved.unwrap(),
        }
    }
}

#[tokio::test]
async fn a_missing_catalog_stops_the_start_and_nothing_is_deleted() {
    let mut service = Service::start_without_engine(&[]);
    let file = unmerged(&service).await;
    service.stop();
    let aside = service.data.with_file_name("aside");
    move_catalog(&service.data, &aside);
    let words = refused(&mut service);
    assert!(
        words.contains("there is no catalog") && words.contains("--adopt"),
        "{words}"
    );
    fs::write(service.data.join("catalog.db"), "").unwrap();
    let words = refused(&mut service);
    assert!(words.contains("there is no catalog"), "{words}");
    fs::remove_file(service.data.join("catalog.db")).unwrap();
    move_catalog(&aside, &service.data);
    service.run();
    assert_eq!(fs::read_to_string(file).unwrap(), "work");
}

#[tokio::test]
async fn an_older_catalog_stops_the_start_and_nothing_is_deleted() {
    let mut service = Service::start_without_engine(&[]);
    let made = service.post("/api/v1/projects", json!({"name": "p"})).await;
    // Copies the catalog of the running server with SQLite.
    let copy = service.data.with_file_name("yesterday.db");
    let backup = format!(".backup {}", copy.display());
    let status = Command::new("sqlite3")
        .arg(service.data.join("catalog.db"))
        .arg(backup)
        .status();
    assert!(status.unwrap().success());
    let file = workspace_of(&service, &made["id"]).await;
    service.stop();
    let aside = service.data.with_file_name("aside");
    move_catalog(&service.data, &aside);
    fs::copy(&copy, service.data.join("catalog.db")).unwrap();
    let words = refused(&mut service);
    assert!(
        words.contains("an older copy") && words.contains("--adopt"),
        "{words}"
    );
    fs::remove_file(service.data.join("catalog.db")).unwrap();
    move_catalog(&aside, &service.data);
    service.run();
    assert_eq!(fs::read_to_string(file).unwrap(), "work");
}

#[tokio::test]
async fn a_foreign_catalog_stops_the_start_and_nothing_is_deleted() {
    let mut service = Service::start_without_engine(&[]);
    let file = unmerged(&service).await;
    service.stop();
    let mut other = Service::start_without_engine(&[]);
    unmerged(&other).await;
    other.stop();
    let aside = service.data.with_file_name("aside");
    move_catalog(&service.data, &aside);
    move_catalog(&other.data, &service.data);
    let words = refused(&mut service);
    assert!(
        words.contains("is of installation") && words.contains("--adopt"),
        "{words}"
    );
    move_catalog(&service.data, &other.data);
    move_catalog(&aside, &service.data);
    service.run();
    assert_eq!(fs::read_to_string(file).unwrap(), "work");
}

#[tokio::test]
async fn a_missing_store_stops_the_start_and_nothing_is_created() {
    let mut service = Service::start_without_engine(&[]);
    let file = unmerged(&service).await;
    service.stop();
    let (store, aside) = (
        service.data.join("store"),
        service.data.with_file_name("aside"),
    );
    fs::rename(&store, &aside).unwrap();
    let words = refused(&mut service);
    assert!(
        words.contains("there is no store") && words.contains("--adopt"),
        "{words}"
    );
    assert!(!store.exists());
    fs::rename(&aside, &store).unwrap();
    service.run();
    assert_eq!(fs::read_to_string(file).unwrap(), "work");
}

#[tokio::test]
async fn a_workspace_root_of_another_server_stops_the_start() {
    let private = Permissions::from_mode(0o700);
    let root = tempfile::Builder::new().permissions(private).tempdir();
    let root = root.unwrap();
    let elsewhere = [("WORKSPACE_ROOT", root.path().to_str().unwrap())];
    let mut first = Service::start_without_engine(&elsewhere);
    unmerged(&first).await;
    first.stop();
    let mut second = Service::new_without_engine(&elsewhere);
    let words = second.try_run(&[]).expect_err("the server started");
    assert!(words.contains("there is no catalog"), "{words}");
    assert!(!second.data.exists(), "nothing is created");
    first.run();
    first.stop();
    for mount in crate::harness::mounts_below(root.path()).iter().rev() {
        Command::new("umount")
            .arg("-l")
            .arg(mount)
            .status()
            .unwrap();
    }
}

/// Tests the data directory of a server from before installations had ids.
#[tokio::test]
async fn a_directory_without_ids_is_adopted_once() {
    let mut service = Service::start_without_engine(&[]);
    service.expect_complaint("were adopted as one installation");
    let file = unmerged(&service).await;
    service.stop();
    let stamps = [
        service.data.join("store/SERVER"),
        service.data.join("workspaces/INSTALLATION"),
    ];
    for stamp in &stamps {
        fs::remove_file(stamp).unwrap();
    }
    service
        .sql("delete from settings where name = 'generation'")
        .await;
    service.run();
    assert_eq!(fs::read_to_string(file).unwrap(), "work");
    assert!(stamps.iter().all(|stamp| stamp.is_file()));
    // Garbage is kept for a day.
    let held = service
        .expect(Method::POST, "/api/v1/gc", Some(json!({})), 409)
        .await;
    assert!(held["error"]["details"]["heldUntil"].is_string(), "{held}");
    let dry = json!({"dryRun": true});
    service
        .expect(Method::POST, "/api/v1/gc", Some(dry), 200)
        .await;
    service.stop();
    service
        .sql("update settings set value = '2026-01-01T00:00:00Z' where name = 'adopted'")
        .await;
    service.run();
    service
        .expect(Method::POST, "/api/v1/gc", Some(json!({})), 200)
        .await;
    service.stop();

    // Gives the project a head that the store does not have.
    fs::remove_file(&stamps[0]).unwrap();
    service
        .sql(&format!(
            "update projects set head = x'{}'",
            "07".repeat(32)
        ))
        .await;
    let words = refused(&mut service);
    assert!(words.contains("lacks the snapshot 0707"), "{words}");
}
