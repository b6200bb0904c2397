//! The conformance suite on SQLite, and tests of SQLite alone.

mod copies;
mod damage;
mod file;
mod format;
mod plans;
mod version_12;
mod version_2;
mod version_4;
mod write_queue;

use std::path::{Path, PathBuf};

use elevo_core::Id;
use sqlx::sqlite::SqliteConnectOptions;
use tempfile::TempDir;

use super::{SqliteCatalog, SqliteOptions};
use crate::conformance::Backend;
use crate::error::Result;
use crate::races::Shared;

/// Reads an id.
fn id_of<T: Id>(text: &str) -> T {
    text.parse().unwrap()
}

struct Temporary(TempDir);

impl Temporary {
    fn new() -> Self {
        Self(TempDir::new().unwrap())
    }

    fn file(&self) -> PathBuf {
        self.0.path().join("catalog.db")
    }

    async fn try_open(&self) -> Result<SqliteCatalog> {
        SqliteCatalog::open(&self.file(), &SqliteOptions::default()).await
    }

    /// Creates the file from a dump.
    async fn restore(&self, dump: &'static str) {
        let options = SqliteConnectOptions::new()
            .filename(self.file())
            .create_if_missing(true);
        let pool = sqlx::SqlitePool::connect_with(options).await.unwrap();
        sqlx::raw_sql(dump).execute(&pool).await.unwrap();
        pool.close().await;
    }

    /// Changes the file with arbitrary SQL, which the catalog itself never runs.
    async fn meddle(&self, sql: &'static str) {
        let catalog = self.open().await;
        let mut write = catalog.database.write().await.unwrap();
        sqlx::raw_sql(sql).execute(&mut *write).await.unwrap();
        write.commit().await.unwrap();
        catalog.close().await;
    }
}

impl Backend for Temporary {
    type Catalog = SqliteCatalog;

    async fn open(&self) -> SqliteCatalog {
        self.try_open().await.unwrap()
    }
}

impl Shared for Temporary {
    fn place(&self) -> String {
        self.file().display().to_string()
    }

    async fn open_at(place: &str) -> SqliteCatalog {
        let options = SqliteOptions::default();
        SqliteCatalog::open(Path::new(place), &options)
            .await
            .unwrap()
    }
}

crate::conformance_tests!(Temporary::new());
crate::races::race_tests!(Temporary::new());
