//! Temporary databases, and their content.

use std::collections::BTreeMap;
use std::path::PathBuf;

use elevo_testkit::postgres::Database;
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, PgConnection, SqliteConnection};
use tempfile::TempDir;

use crate::conformance::Backend;
use crate::error::Result;
use crate::postgres::{PostgresCatalog, PostgresOptions};
use crate::sqlite::{SqliteCatalog, SqliteOptions};
use crate::transfer::{AnyCatalog, Transferred, transfer};

/// The rows of each table. The order of the rows is not that of a key.
pub(super) type Dump = BTreeMap<String, Vec<String>>;

/// For each table, the SQL expression of a text with all values of a row.
const ROWS: &str = "SELECT tables.name, \
         group_concat('quote(\"' || columns.name || '\")', ' || '','' || ') \
     FROM sqlite_schema tables JOIN pragma_table_info(tables.name) columns \
     WHERE tables.type = 'table' AND tables.name <> '_sqlx_migrations' GROUP BY tables.name";

/// A file, which is deleted with this value.
pub(super) struct File(TempDir);

impl File {
    pub(super) fn new() -> Self {
        Self(TempDir::new().unwrap())
    }

    fn path(&self) -> PathBuf {
        self.0.path().join("catalog.db")
    }

    async fn connect(&self) -> SqliteConnection {
        let options = SqliteConnectOptions::new().filename(self.path());
        options.connect().await.unwrap()
    }

    /// Executes SQL that the catalog itself never runs.
    pub(super) async fn execute(&self, sql: impl Into<String>) {
        let mut connection = self.connect().await;
        let done = sqlx::raw_sql(AssertSqlSafe(sql.into())).execute(&mut connection);
        done.await.unwrap();
        connection.close().await.unwrap();
    }

    /// Returns all rows, without those of the migrations.
    pub(super) async fn dump(&self) -> Dump {
        let mut connection = self.connect().await;
        let tables: Vec<(String, String)> = sqlx::query_as(ROWS)
            .fetch_all(&mut connection)
            .await
            .unwrap();
        let mut dump = Dump::new();
        for (table, row) in tables {
            let select = format!("SELECT {row} FROM {table} ORDER BY 1");
            let rows = sqlx::query_scalar(AssertSqlSafe(select)).fetch_all(&mut connection);
            dump.insert(table, rows.await.unwrap());
        }
        connection.close().await.unwrap();
        dump
    }
}

impl Backend for File {
    type Catalog = SqliteCatalog;

    async fn open(&self) -> SqliteCatalog {
        let options = SqliteOptions::default();
        SqliteCatalog::open(&self.path(), &options).await.unwrap()
    }
}

/// A database in PostgreSQL, which is deleted with this value.
pub(super) struct Server(pub(super) Database);

impl Server {
    pub(super) fn new() -> Self {
        Self(Database::create())
    }

    /// Executes SQL that the catalog itself never runs.
    pub(super) async fn execute(&self, sql: impl Into<String>) {
        let mut connection = PgConnection::connect(&self.0.url()).await.unwrap();
        let done = sqlx::raw_sql(AssertSqlSafe(sql.into())).execute(&mut connection);
        done.await.unwrap();
        connection.close().await.unwrap();
    }

    pub(super) async fn open_at(url: &str) -> PostgresCatalog {
        let options = PostgresOptions::default();
        PostgresCatalog::open(url, &options).await.unwrap()
    }
}

impl Backend for Server {
    type Catalog = PostgresCatalog;

    async fn open(&self) -> PostgresCatalog {
        Self::open_at(&self.0.url()).await
    }
}

pub(super) async fn copy<'a, 'b>(
    from: impl Into<AnyCatalog<'a>>,
    to: impl Into<AnyCatalog<'b>>,
) -> Result<Vec<Transferred>> {
    transfer(from.into(), to.into(), &mut |_| {}).await
}

/// Checks that a catalog is as it was after its migrations, by copying it and
/// comparing the copy with a new file.
pub(super) async fn assert_empty<'a>(catalog: impl Into<AnyCatalog<'a>>) {
    assert_same(&dump_of(catalog).await, &empty_dump().await);
}

/// Compares the rows of one table after the other, so that a failure is short.
pub(super) fn assert_same(found: &Dump, expected: &Dump) {
    assert!(found.keys().eq(expected.keys()), "the same tables");
    for (table, rows) in expected {
        assert_eq!(&found[table], rows, "{table}");
    }
}

/// Returns the rows of a catalog of any kind, from a copy of it.
pub(super) async fn dump_of<'a>(catalog: impl Into<AnyCatalog<'a>>) -> Dump {
    let copied = File::new();
    copy(catalog, &copied.open().await).await.unwrap();
    copied.dump().await
}

async fn empty_dump() -> Dump {
    let file = File::new();
    file.open().await.close().await;
    file.dump().await
}
