//! Tests of the file, and of waiting for its locks.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use elevo_core::{TenantId, Timestamp};
use sqlx::Connection;

use super::super::{SqliteCatalog, SqliteOptions};
use super::{Temporary, id_of};
use crate::conformance::Backend;
use crate::error::{Error, Limit};
use crate::limits::MAX_LISTED;
use crate::records::{Agent, ApiKey, KeyLimits, Template, Tenant};

/// Options with a short wait.
pub(super) const HASTY: SqliteOptions = SqliteOptions {
    readers: 1,
    wait: Duration::from_millis(50),
};

#[tokio::test]
async fn only_its_owner_reads_the_file_and_its_log() {
    let temporary = Temporary::new();
    fs::write(temporary.file(), "").unwrap();
    fs::set_permissions(temporary.file(), Permissions::from_mode(0o666)).unwrap();
    let catalog = temporary.open().await;
    catalog.set_setting("a", "b").await.unwrap();
    let mut modes = Vec::new();
    for entry in temporary.0.path().read_dir().unwrap() {
        let entry = entry.unwrap();
        let mode = entry.metadata().unwrap().permissions().mode() & 0o777;
        modes.push((entry.file_name().into_string().unwrap(), mode));
    }
    modes.sort();
    let names = ["catalog.db", "catalog.db-shm", "catalog.db-wal"];
    assert_eq!(modes, names.map(|name| (name.to_owned(), 0o600)));
}

#[tokio::test]
async fn every_change_is_synced_and_foreign_keys_are_enforced() {
    let temporary = Temporary::new();
    let catalog = temporary.open().await;
    let mut writer = catalog.database.write().await.unwrap();
    for (name, value) in [
        ("SELECT journal_mode FROM pragma_journal_mode", "wal"),
        // 2 is FULL.
        (
            "SELECT CAST(synchronous AS TEXT) FROM pragma_synchronous",
            "2",
        ),
        (
            "SELECT CAST(foreign_keys AS TEXT) FROM pragma_foreign_keys",
            "1",
        ),
    ] {
        let found = sqlx::query_scalar::<_, String>(name).fetch_one(&mut *writer);
        assert_eq!(found.await.unwrap(), value, "{name}");
    }
    drop(writer);
    let readers = catalog.database.readers();
    let written = sqlx::query("DELETE FROM settings").execute(readers).await;
    assert!(written.is_err(), "readers only read");
}

#[tokio::test]
async fn a_call_that_waits_too_long_fails_as_busy() {
    let temporary = Temporary::new();
    let slow = temporary.open().await;
    let hasty = SqliteCatalog::open(&temporary.file(), &HASTY)
        .await
        .unwrap();
    // Another process writes.
    let transaction = slow.database.write().await.unwrap();
    let set = hasty.set_setting("a", "b").await;
    assert!(matches!(set, Err(Error::Busy)), "{set:?}");
    let put = hasty.check().await;
    assert!(matches!(put, Err(Error::Busy)), "{put:?}");
    let opened = SqliteCatalog::open(&temporary.file(), &HASTY).await;
    assert!(matches!(opened, Err(Error::Busy)), "{opened:?}");
    hasty.setting("a").await.unwrap();
    drop(transaction);
    hasty.set_setting("a", "b").await.unwrap();
    // A call also waits for calls of the same process: for the only writer, and
    // for the only reader.
    let transaction = hasty.database.write().await.unwrap();
    let set = hasty.set_setting("a", "c").await;
    assert!(matches!(set, Err(Error::Busy)), "{set:?}");
    drop(transaction);
    let reader = hasty.database.readers().acquire().await.unwrap();
    let read = hasty.setting("a").await;
    assert!(matches!(read, Err(Error::Busy)), "{read:?}");
    drop(reader);
    assert_eq!(hasty.setting("a").await.unwrap().as_deref(), Some("b"));
}

#[tokio::test]
async fn a_closed_catalog_fails_calls_and_leaves_one_file() {
    let temporary = Temporary::new();
    let catalog = temporary.open().await;
    catalog.set_setting("a", "b").await.unwrap();
    catalog.close().await;
    let closed = catalog.setting("a").await;
    assert!(matches!(closed, Err(Error::Failed(_))), "{closed:?}");
    let closed = catalog.check().await;
    assert!(matches!(closed, Err(Error::Failed(_))), "{closed:?}");
    assert_eq!(temporary.0.path().read_dir().unwrap().count(), 1);
    let again = temporary.open().await;
    assert_eq!(again.setting("a").await.unwrap().as_deref(), Some("b"));
}

#[tokio::test]
async fn opening_fails_where_no_file_can_be_written() {
    let temporary = Temporary::new();
    let nowhere = temporary.0.path().join("no/such/directory/catalog.db");
    for file in [nowhere.as_path(), temporary.0.path()] {
        let opened = SqliteCatalog::open(file, &HASTY).await;
        assert!(matches!(opened, Err(Error::Failed(_))), "{opened:?}");
    }
}

/// Changes more bytes than the log is truncated to.
const MUCH: &str = "
    WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 6000)
    INSERT OR REPLACE INTO settings SELECT 'n' || n, hex(zeroblob(2000)) FROM n;
";

#[tokio::test]
async fn the_log_is_truncated_after_a_long_reader_has_ended() {
    let temporary = Temporary::new();
    let catalog = temporary.open().await;
    catalog.set_setting("a", "b").await.unwrap();
    let log = temporary.file().with_extension("db-wal");
    let bytes = || fs::metadata(&log).unwrap().len();
    let mut reader = catalog.database.readers().acquire().await.unwrap();
    let mut reading = reader.begin().await.unwrap();
    let count = "SELECT count(*) FROM settings";
    let count = sqlx::query_scalar::<_, i64>(count).fetch_one(&mut *reading);
    assert_eq!(count.await.unwrap(), 1);
    // The reader needs the old state, so the log only grows.
    for round in 1..=3 {
        let mut write = catalog.database.write().await.unwrap();
        sqlx::raw_sql(MUCH).execute(&mut *write).await.unwrap();
        write.commit().await.unwrap();
        assert!(bytes() > round * (16 << 20), "{} bytes", bytes());
    }
    reading.rollback().await.unwrap();
    // The first change checkpoints the log, the second restarts it.
    for _ in 0..2 {
        catalog.set_setting("a", "c").await.unwrap();
    }
    assert!(bytes() <= 16 << 20, "{} bytes", bytes());
}

const FILL: &str = "
    WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 100000)
    INSERT INTO tenants (id, name, created) SELECT CAST(printf('%016d', n) AS BLOB), n, 1 FROM n;
    WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 100000)
    INSERT INTO agents SELECT CAST(printf('%016d', 1) AS BLOB), 'agt-' || n, n, 1 FROM n;
    WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 100000)
    INSERT INTO api_keys SELECT CAST(printf('%016d', 1) AS BLOB), 'key-' || n, NULL, n,
        CAST(printf('%032d', n) AS BLOB), '[]', '{}', 1, NULL, NULL FROM n;
    WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 100000)
    INSERT INTO templates SELECT n, n, NULL, '[]', 1, 0, 1 FROM n;
";

#[tokio::test]
async fn lists_without_pages_are_limited() {
    assert_eq!(MAX_LISTED, 100_000, "as FILL says");
    let temporary = Temporary::new();
    temporary.meddle(FILL).await;
    let catalog = temporary.open().await;
    let created = Timestamp::new(1, 0).unwrap();
    let new = || "new".to_owned();
    let tenant = TenantId::new(*b"0000000000000001");
    let added = [
        catalog
            .add_tenant(&Tenant::new(TenantId::LOCAL, new(), created))
            .await,
        catalog
            .add_agent(&Agent {
                id: id_of("agt-new"),
                tenant,
                name: new(),
                created,
            })
            .await,
        catalog
            .add_key(&ApiKey {
                id: id_of("key-new"),
                tenant,
                agent: None,
                name: new(),
                hash: [1; 32],
                scopes: vec![],
                limits: KeyLimits::default(),
                created,
                expires: None,
                revoked: None,
            })
            .await,
        catalog.put_template(&template(new())).await,
    ];
    let limits = [Limit::Tenants, Limit::Agents, Limit::Keys, Limit::Templates];
    for (result, limited) in added.into_iter().zip(limits) {
        match result {
            Err(Error::LimitReached { which, .. }) => assert_eq!(which, limited),
            other => panic!("{limited}: {other:?}"),
        }
    }
    let replaced = catalog.put_template(&template("7".into())).await;
    replaced.unwrap();
    assert_eq!(catalog.keys(tenant).await.unwrap().len(), 100_000);
}

fn template(name: String) -> Template {
    Template {
        name,
        image: "image".into(),
        description: None,
        tags: vec![],
        size: 1,
        writable_root: false,
        created: Timestamp::new(1, 0).unwrap(),
    }
}
