//! Tests of reads of catalogs that are not open, and of copies.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;

use elevo_core::{TenantId, Timestamp};

use super::super::{SqliteCatalog, SqliteOptions};
use super::Temporary;
use crate::conformance::Backend;
use crate::found::{GENERATION, INSTALLATION};
use crate::records::Tenant;

/// Returns the files of a directory with their content, except SQLite's shared
/// memory.
fn files(temporary: &Temporary) -> BTreeMap<String, Vec<u8>> {
    let entries = temporary.0.path().read_dir().unwrap();
    entries
        .map(|entry| entry.unwrap())
        .filter(|entry| !entry.path().to_string_lossy().ends_with("-shm"))
        .map(|entry| {
            let name = entry.file_name().into_string().unwrap();
            (name, fs::read(entry.path()).unwrap())
        })
        .collect()
}

fn tenant() -> Tenant {
    Tenant::new(TenantId::LOCAL, "one", Timestamp::new(1, 0).unwrap())
}

#[tokio::test]
async fn a_file_is_found_without_being_changed() {
    let temporary = Temporary::new();
    assert_eq!(SqliteCatalog::find(&temporary.file()).await.unwrap(), None);
    assert!(files(&temporary).is_empty());
    fs::write(temporary.file(), "").unwrap();
    let found = SqliteCatalog::find(&temporary.file())
        .await
        .unwrap()
        .unwrap();
    assert!(found.is_unused());

    let catalog = temporary.open().await;
    catalog.set_setting(INSTALLATION, "abc").await.unwrap();
    catalog.set_setting(GENERATION, "7").await.unwrap();
    catalog.add_tenant(&tenant()).await.unwrap();
    catalog.close().await;
    let before = files(&temporary);
    let found = SqliteCatalog::find(&temporary.file())
        .await
        .unwrap()
        .unwrap();
    assert_eq!(found.installation.as_deref(), Some("abc"));
    assert_eq!((found.generation, found.has_tenants), (7, true));
    assert!(!found.has_workspaces && !found.is_unused());
    assert_eq!(files(&temporary), before);
}

#[tokio::test]
async fn a_file_is_found_with_the_changes_in_its_log() {
    let temporary = Temporary::new();
    let catalog = temporary.open().await;
    catalog.set_setting(GENERATION, "7").await.unwrap();
    // Copies of the file and its log, as a kill leaves them.
    let killed = Temporary::new();
    for (name, content) in files(&temporary) {
        fs::write(killed.0.path().join(name), content).unwrap();
    }
    let before = files(&killed);
    assert!(before.contains_key("catalog.db-wal"), "{:?}", before.keys());
    let found = SqliteCatalog::find(&killed.file()).await.unwrap().unwrap();
    assert_eq!(found.generation, 7);
    assert_eq!(files(&killed), before);
}

#[tokio::test]
async fn an_old_format_is_found_and_copied_without_migrating() {
    let temporary = Temporary::new();
    temporary.restore(include_str!("version-1.sql")).await;
    let found = SqliteCatalog::find(&temporary.file())
        .await
        .unwrap()
        .unwrap();
    assert!(found.has_tenants && found.has_workspaces);
    let copy = temporary.0.path().join("copy.db");
    SqliteCatalog::copy_file(&temporary.file(), &copy)
        .await
        .unwrap();
    assert_eq!(SqliteCatalog::find(&copy).await.unwrap().unwrap(), found);
    let again = SqliteCatalog::copy_file(&temporary.file(), &copy).await;
    assert!(again.is_err(), "a copy replaces no file");
}

#[tokio::test]
async fn a_copy_of_an_open_catalog_has_every_earlier_change_and_is_private() {
    let temporary = Temporary::new();
    let catalog = temporary.open().await;
    catalog.add_tenant(&tenant()).await.unwrap();
    let copy = temporary.0.path().join("copy.db");
    catalog.copy_to(&copy).await.unwrap();
    catalog.set_setting("later", "yes").await.unwrap();
    let mode = fs::metadata(&copy).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let copied = SqliteCatalog::open(&copy, &SqliteOptions::default()).await;
    let copied = copied.unwrap();
    assert_eq!(copied.tenants().await.unwrap(), [tenant()]);
    assert_eq!(copied.setting("later").await.unwrap(), None);
}

#[tokio::test]
async fn a_copy_is_kept_before_a_catalog_is_migrated() {
    let temporary = Temporary::new();
    temporary.restore(include_str!("version-4.sql")).await;
    let kept = temporary.0.path().join("catalog.db.version-4");
    fs::write(&kept, "of an earlier attempt").unwrap();
    let found = SqliteCatalog::find(&temporary.file()).await.unwrap();
    temporary.open().await.close().await;
    assert_eq!(SqliteCatalog::find(&kept).await.unwrap(), found);
    let version = "select max(version) from _sqlx_migrations";
    let options = sqlx::sqlite::SqliteConnectOptions::new().filename(&kept);
    let pool = sqlx::SqlitePool::connect_with(options).await.unwrap();
    let version: i64 = sqlx::query_scalar(version).fetch_one(&pool).await.unwrap();
    assert_eq!(version, 4);
    pool.close().await;
    let mode = fs::metadata(&kept).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);

    let before = files(&temporary).into_keys().collect::<Vec<_>>();
    temporary.open().await.close().await;
    assert_eq!(files(&temporary).into_keys().collect::<Vec<_>>(), before);
}
