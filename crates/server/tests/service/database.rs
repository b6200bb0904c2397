//! A server whose catalog is in a PostgreSQL database.

use std::fs;
use std::path::Path;
use std::time::Duration;

use elevo_catalog::{PostgresCatalog, PostgresOptions};
use elevo_core::Timestamp;
use elevo_testkit::postgres::Database;
use elevo_testkit::wait::until_async;
use elevo_testkit::wire::Wire;
use reqwest::Method;
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::harness::Service;
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

/// As when a standby is promoted that lacks the last changes: a collection would
/// delete the data of those changes.
#[tokio::test]
async fn a_server_ends_when_its_database_goes_back_to_an_earlier_state() {
    let database = Database::create();
    let mut service = on(&database);
    service.expect_warnings();
    service.expect_complaint("INTERNAL_ERROR");
    project(&service, "p").await;
    database.execute_inside("UPDATE settings SET value = '0' WHERE name = 'generation'");
    let wish = json!({});
    let collect = service.request(Method::POST, "/api/v1/gc").json(&wish);
    // The server may end before it responds.
    if let Ok(answer) = collect.send().await {
        assert!(answer.status().is_server_error(), "{}", answer.status());
    }
    service.fails().await;
    assert!(service.logged("is an older copy"));
    let words = refused(&mut service);
    assert!(words.contains("point-in-time recovery"), "{words}");
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

/// Returns the fewest statements of several requests, each prepared by `prepare`:
/// other work of the server can meet some of the requests, but not all. The pool
/// checks a connection after each use, so there are at most two round trips for
/// each statement.
async fn fewest<T>(
    wire: &Wire,
    mut prepare: impl AsyncFnMut(u32) -> T,
    mut request: impl AsyncFnMut(T),
) -> u64 {
    let mut fewest = u64::MAX;
    for number in 0..10 {
        let prepared = prepare(number).await;
        sleep(Duration::from_millis(100)).await;
        let before = wire.trips().trips;
        request(prepared).await;
        sleep(Duration::from_millis(100)).await;
        fewest = fewest.min((wire.trips().trips - before).div_ceil(2));
    }
    fewest
}

#[tokio::test]
async fn requests_keep_their_budgets_of_round_trips() {
    let database = Database::create();
    let wire = database.wire();
    let (url, direct) = (database.url_through(&wire), database.url());
    let settings = [
        ("CATALOG_URL", url.as_str()),
        // Events are numbered on this connection, after the requests.
        ("CATALOG_DIRECT_URL", &direct),
    ];
    let service = Service::start_with(&settings).await;
    let id = service.sandbox().await;
    let command = fewest(
        &wire,
        async |_| (),
        async |()| {
            service.run_in(&id, "true").await;
        },
    );
    assert_eq!(command.await, 1);
    let create = fewest(
        &wire,
        async |_| (),
        async |()| {
            service.sandbox().await;
        },
    );
    let create = create.await;
    assert!(create <= 20, "{create}");
    let project = service
        .post("/api/v1/projects", json!({ "name": "p" }))
        .await;
    let changed = async |number| changed_workspace(&service, &project["id"], number).await;
    let merge = fewest(&wire, changed, async |path: String| {
        service.post(&path, json!({})).await;
    });
    let merge = merge.await;
    assert!(merge <= 16, "{merge}");
}

/// Creates a workspace with a new file; returns the path of its merge.
async fn changed_workspace(service: &Service, project: &Value, number: u32) -> String {
    let wish = json!({ "project": project });
    let made = service.post("/api/v1/workspaces", wish).await;
    let directory = Path::new(made["path"].as_str().unwrap());
    fs::write(directory.join(format!("file-{number}")), "text").unwrap();
    format!("/api/v1/workspaces/{}/merge", made["id"].as_str().unwrap())
}
