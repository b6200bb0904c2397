//! A server whose catalog is in a PostgreSQL database.

use std::time::Duration;

use elevo_catalog::{PostgresCatalog, PostgresOptions};
use elevo_core::Timestamp;
use elevo_testkit::postgres::Database;
use elevo_testkit::wait::until_async;
use reqwest::Method;
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::harness::{Service, eventually};
use crate::installation::refused;

fn on(database: &Database) -> Service {
    Service::start_without_engine(&[("CATALOG_URL", &database.url())])
}

/// Creates a project; returns its path in the API.
async fn project(service: &Service, name: &str) -> String {
    let made = service
        .post("/api/v1/projects", json!({ "name": name }))
        .await;
    format!("/api/v1/projects/{}", made["id"].as_str().unwrap())
}

#[tokio::test]
async fn a_server_finds_its_records_in_the_database_after_a_kill() {
    let database = Database::create();
    let mut service = on(&database);
    let made = project(&service, "p").await;
    service.kill();
    service.run();
    assert_eq!(service.get(&made).await["name"], "p");
    service.stop();
    service.run();
    assert_eq!(service.get(&made).await["name"], "p");
    assert!(!service.data.join("catalog.db").exists());
}

#[tokio::test]
async fn a_database_of_an_earlier_moment_is_refused() {
    let (database, earlier) = (Database::create(), Database::create());
    let mut service = on(&database);
    project(&service, "p").await;
    service.stop();
    earlier.execute("DROP DATABASE {}");
    let copy = format!("CREATE DATABASE {{}} TEMPLATE {}", database.name());
    earlier.execute(&copy);
    service.run();
    service.stop();
    service.set("CATALOG_URL", &earlier.url());
    let words = refused(&mut service);
    assert!(words.contains("is an older copy"), "{words}");
    assert!(words.contains("point-in-time recovery"), "{words}");
    service.set("CATALOG_URL", &database.url());
    service.run();
}

#[tokio::test]
async fn a_database_of_another_installation_or_an_empty_one_is_refused() {
    let (database, other, empty) = (Database::create(), Database::create(), Database::create());
    let mut service = on(&database);
    project(&service, "p").await;
    service.stop();
    let mut another = on(&other);
    another.stop();
    service.set("CATALOG_URL", &other.url());
    let words = refused(&mut service);
    assert!(words.contains("of installation"), "{words}");
    service.set("CATALOG_URL", &empty.url());
    let words = refused(&mut service);
    assert!(words.contains("there is no catalog"), "{words}");
    // Without the setting, the server would look for a file.
    service.set("CATALOG_URL", "");
    let words = refused(&mut service);
    assert!(words.contains("there is no catalog"), "{words}");
}

#[tokio::test]
async fn the_password_of_the_database_is_shown_nowhere() {
    let database = Database::create();
    let url = database.url().replace("elevo@", "elevo:marker-password@");
    let mut service = Service::start_without_engine(&[("CATALOG_URL", &url)]);
    project(&service, "p").await;
    service.stop();
    assert!(!service.logged("marker-password"));
    service.set(
        "CATALOG_URL",
        "postgres://elevo:marker-password@127.0.0.1:1/none",
    );
    let words = refused(&mut service);
    assert!(words.contains("127.0.0.1:1/none"), "{words}");
    assert!(!words.contains("marker-password"), "{words}");
    service.set(
        "CATALOG_URL",
        "postgres://elevo:marker-password@127.0.0.1:x/none",
    );
    let words = refused(&mut service);
    assert!(words.contains("CATALOG_URL: "), "{words}");
    assert!(!words.contains("marker-password"), "{words}");
}

#[tokio::test]
async fn a_server_ends_when_another_uses_its_catalog() {
    let database = Database::create();
    let mut service = on(&database);
    let options = PostgresOptions::default();
    let catalog = PostgresCatalog::open(&database.url(), &options)
        .await
        .unwrap();
    let lasting = Duration::from_secs(60);
    let begun = catalog.begin_session("local", lasting, Timestamp::new(0, 0).unwrap());
    begun.await.unwrap();
    service.fails().await;
    assert!(service.logged("another server has begun to use the catalog"));
    catalog.close().await;
}

#[tokio::test]
async fn a_request_without_a_database_says_that_a_retry_helps() {
    let database = Database::create();
    let wire = database.wire();
    let url = database.url_through(&wire);
    let service = Service::start_without_engine(&[("CATALOG_URL", &url)]);
    service.expect_warnings();
    service.expect_complaint("STORAGE_FAILED");
    let made = project(&service, "p").await;
    wire.fence();
    let answer = service.request(Method::GET, &made).send().await.unwrap();
    assert!(answer.status().is_server_error(), "{}", answer.status());
    let error: Value = answer.json().await.unwrap();
    assert_ne!(error["error"]["retry"], "never", "{error}");
    wire.heal();
    until_async("the server finds the database again", async || {
        let answer = service.request(Method::GET, &made).send().await.unwrap();
        answer.status().is_success().then_some(())
    })
    .await;
}

/// The key, its tenant and the sandbox are one statement, and the pool checks the
/// connection after it.
#[tokio::test]
async fn a_command_asks_the_database_once() {
    let database = Database::create();
    let wire = database.wire();
    let url = database.url_through(&wire);
    let service = Service::start_with(&[("CATALOG_URL", &url)]).await;
    let id = service.sandbox().await;
    service.run_in(&id, "true").await;
    // Other work of the server can meet a command, but not each one.
    eventually("a command takes two trips", async || {
        let before = wire.trips().trips;
        service.run_in(&id, "true").await;
        sleep(Duration::from_millis(100)).await;
        wire.trips().trips - before <= 2
    })
    .await;
}
