//! Examining a database for an operator.

use elevo_testkit::postgres::Database;

use crate::postgres::{PostgresCatalog, PostgresCheck, PostgresOptions};

async fn examined(database: &Database, connections: u32) -> Vec<PostgresCheck> {
    let options = PostgresOptions {
        connections,
        ..PostgresOptions::default()
    };
    let checks = PostgresCatalog::examine(&database.url(), &options).await;
    checks.unwrap()
}

fn message<'a>(checks: &'a [PostgresCheck], name: &str) -> &'a str {
    let check = checks.iter().find(|check| check.name == name);
    &check.unwrap().message
}

#[tokio::test]
async fn a_database_with_a_synchronous_standby_passes() {
    let database = Database::create();
    let checks = examined(&database, 16).await;
    assert!(checks.iter().all(|check| check.is_ok), "{checks:?}");
    assert_eq!(message(&checks, "standby"), "1 synchronous");
    assert!(message(&checks, "catalog").starts_with("none yet"));

    let options = PostgresOptions::default();
    let catalog = PostgresCatalog::open(&database.url(), &options).await;
    catalog.unwrap().close().await;
    let checks = examined(&database, 16).await;
    assert!(message(&checks, "catalog").starts_with("format "));
}

#[tokio::test]
async fn a_database_with_unsafe_settings_does_not_pass() {
    let database = Database::create();
    database.execute("ALTER DATABASE {} SET synchronous_commit = off");
    let checks = examined(&database, 100_000).await;
    let failed: Vec<_> = checks.iter().filter(|check| !check.is_ok).collect();
    let names: Vec<_> = failed.iter().map(|check| check.name).collect();
    assert_eq!(names, ["durability", "connections"], "{checks:?}");
    let message = &failed[0].message;
    assert!(message.contains("synchronous_commit is off"), "{message}");
}
