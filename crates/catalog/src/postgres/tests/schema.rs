//! Both databases have the same tables with the same columns.

use std::collections::BTreeSet;

use sqlx::sqlite::SqlitePoolOptions;
use sqlx::{PgPool, SqlitePool};

use super::Temporary;
use crate::conformance::Backend;

/// Tables that only PostgreSQL has: it numbers events after their changes.
const ONLY_POSTGRES: [&str; 2] = ["last_event", "outbox"];

/// A column: its table, its name, its type and whether it can be NULL.
type Column = (String, String, String, bool);

#[tokio::test]
async fn both_databases_have_the_same_tables_and_columns() {
    let temporary = Temporary::new();
    temporary.open().await.close().await;
    let postgres = PgPool::connect(&temporary.0.url()).await.unwrap();
    let sqlite = SqlitePoolOptions::new()
        .max_connections(1)
        .connect("sqlite::memory:")
        .await
        .unwrap();
    sqlx::migrate!("migrations/sqlite")
        .run(&sqlite)
        .await
        .unwrap();

    let mut of_postgres = columns_of_postgres(&postgres).await;
    of_postgres.retain(|column| !ONLY_POSTGRES.contains(&column.0.as_str()));
    let of_sqlite = columns_of_sqlite(&sqlite).await;
    let only = |some: &BTreeSet<Column>, others: &BTreeSet<Column>| -> Vec<Column> {
        some.difference(others).cloned().collect()
    };
    assert_eq!(only(&of_postgres, &of_sqlite), [], "only in PostgreSQL");
    assert_eq!(only(&of_sqlite, &of_postgres), [], "only in SQLite");
    assert!(of_sqlite.len() > 100);
}

async fn columns_of_postgres(pool: &PgPool) -> BTreeSet<Column> {
    let select = "SELECT table_name::text, column_name::text, data_type::text, is_nullable = 'YES' \
                  FROM information_schema.columns \
                  WHERE table_schema = 'public' AND table_name <> '_sqlx_migrations'";
    let rows: Vec<Column> = sqlx::query_as(select).fetch_all(pool).await.unwrap();
    rows.into_iter().collect()
}

async fn columns_of_sqlite(pool: &SqlitePool) -> BTreeSet<Column> {
    // The primary key of a table with row ids cannot be NULL, and is not declared so.
    let select = "SELECT tables.name, columns.name, columns.type, \
                  columns.\"notnull\" = 0 AND columns.pk = 0 \
                  FROM sqlite_schema tables JOIN pragma_table_info(tables.name) columns \
                  WHERE tables.type = 'table' AND tables.name NOT LIKE '\\_sqlx%' ESCAPE '\\' \
                  AND tables.name NOT LIKE 'sqlite\\_%' ESCAPE '\\'";
    let rows: Vec<Column> = sqlx::query_as(select).fetch_all(pool).await.unwrap();
    let checks: Vec<(String, String)> =
        sqlx::query_as("SELECT name, sql FROM sqlite_schema WHERE type = 'table'")
            .fetch_all(pool)
            .await
            .unwrap();
    let is_boolean = |table: &str, column: &str| {
        let (_, sql) = checks.iter().find(|(name, _)| name == table).unwrap();
        sql.contains(&format!("({column} IN (0, 1))"))
    };
    let column = |(table, name, kind, nullable): Column| -> Column {
        let kind = match kind.as_str() {
            "BLOB" => "bytea",
            "TEXT" => "text",
            _ if is_boolean(&table, &name) => "boolean",
            _ => "bigint",
        };
        (table, name, kind.to_owned(), nullable)
    };
    rows.into_iter().map(column).collect()
}
