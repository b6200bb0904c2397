//! Several servers with one catalog and one store, in PostgreSQL and S3.

use std::time::Duration;

use elevo_testkit::postgres::{Database, query_at};
use elevo_testkit::s3::S3;
use elevo_testkit::wait::until_async;
use elevo_testkit::wire::{Fault, Wire};
use reqwest::Method;
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::harness::Service;
use crate::installation::refused;

/// The databases and the bucket of an installation.
struct Place {
    catalog: Database,
    store: Database,
    s3: S3,
}

impl Place {
    fn new() -> Self {
        Self {
            catalog: Database::create(),
            store: Database::create(),
            s3: S3::new(),
        }
    }

    /// The settings of a server, with the S3 credentials in them.
    fn settings(&self) -> Vec<(&'static str, String)> {
        vec![
            ("CATALOG_URL", self.catalog.url()),
            ("STORE_URL", self.store.url()),
            ("S3_ENDPOINT", self.s3.endpoint.clone()),
            ("S3_BUCKET", self.s3.bucket.clone()),
            ("S3_PREFIX", self.s3.prefix.clone()),
            ("S3_ACCESS_KEY", self.s3.key.clone()),
            ("S3_SECRET_KEY", self.s3.secret.clone()),
        ]
    }

    fn server(&self) -> Service {
        self.server_with(&[])
    }

    fn server_with(&self, more: &[(&str, &str)]) -> Service {
        let settings = self.settings();
        let settings = settings.iter().map(|(name, value)| (*name, value.as_str()));
        let settings: Vec<_> = settings.chain(more.iter().copied()).collect();
        Service::start_without_engine(&settings)
    }
}

/// Creates a project; returns its path in the API.
async fn project(service: &Service, name: &str) -> String {
    let made = service
        .post("/api/v1/projects", json!({ "name": name }))
        .await;
    format!("/api/v1/projects/{}", made["id"].as_str().unwrap())
}

async fn apply(service: &Service, project: &str, path: &str, content: &str) -> Value {
    let files = json!({"files": [{"path": path, "content": content}]});
    service.post(&format!("{project}/apply"), files).await
}

async fn read(service: &Service, project: &str, path: &str) -> String {
    let url = format!("{project}/files");
    let request = service.request(Method::GET, &url).query(&[("path", path)]);
    let answer = request.send().await.unwrap();
    assert_eq!(answer.status(), 200, "{path}");
    answer.text().await.unwrap()
}

#[tokio::test]
async fn two_servers_change_and_read_one_project() {
    let place = Place::new();
    let (mut one, two) = (place.server(), place.server());
    let made = project(&one, "p").await;
    let large = "a line of a file\n".repeat(40_000);
    apply(&one, &made, "large.txt", &large).await;
    apply(&two, &made, "small.txt", "from the second server").await;
    for server in [&one, &two] {
        assert_eq!(read(server, &made, "large.txt").await, large);
        assert_eq!(
            read(server, &made, "small.txt").await,
            "from the second server"
        );
    }
    one.kill();
    apply(&two, &made, "small.txt", "after the kill").await;
    one.run();
    assert_eq!(read(&one, &made, "small.txt").await, "after the kill");
    let history = one.get(&format!("{made}/steps")).await;
    assert_eq!(history["items"].as_array().unwrap().len(), 3, "{history}");
    assert!(!one.data.join("store").exists());
}

#[tokio::test]
async fn two_servers_land_separate_changes_at_once() {
    let place = Place::new();
    let servers = [place.server(), place.server()];
    let made = project(&servers[0], "p").await;
    let changes = (0..20).map(|number| {
        let (server, made) = (&servers[number % 2], &made);
        async move {
            let path = format!("dir-{}/file-{number}.txt", number % 3);
            apply(server, made, &path, &number.to_string()).await;
            path
        }
    });
    let paths = futures::future::join_all(changes).await;
    for (number, path) in paths.iter().enumerate() {
        let other = &servers[(number + 1) % 2];
        assert_eq!(read(other, &made, path).await, number.to_string());
    }
}

#[tokio::test]
async fn a_workspace_of_the_other_server_is_refused_with_the_reason() {
    let place = Place::new();
    let (one, two) = (place.server(), place.server());
    let made = project(&one, "p").await;
    let name = made.rsplit('/').next().unwrap();
    let workspace = one
        .post("/api/v1/workspaces", json!({ "project": name }))
        .await;
    let id = workspace["id"].as_str().unwrap();
    let path = format!("/api/v1/workspaces/{id}");
    assert_eq!(two.get(&path).await["id"], workspace["id"]);
    let refused = two
        .expect(Method::GET, &format!("{path}/diff"), None, 409)
        .await;
    assert_eq!(refused["error"]["name"], "ON_ANOTHER_SERVER", "{refused}");
    let refused = two.expect(Method::DELETE, &path, None, 409).await;
    assert_eq!(refused["error"]["name"], "ON_ANOTHER_SERVER", "{refused}");
    one.expect(Method::DELETE, &path, None, 204).await;
}

#[tokio::test]
async fn a_bucket_or_database_of_another_installation_is_refused() {
    let (place, other) = (Place::new(), Place::new());
    let mut server = place.server();
    project(&server, "p").await;
    server.stop();
    other.server().stop();
    server.set("S3_PREFIX", &other.s3.prefix);
    let words = refused(&mut server);
    assert!(words.contains("files of another store"), "{words}");
    let unused = S3::new();
    server.set("S3_PREFIX", &unused.prefix);
    apply_to_have_tenants(&place);
    let words = refused(&mut server);
    assert!(words.contains("does not have the files"), "{words}");
    server.set("S3_PREFIX", &other.s3.prefix);
    server.set("STORE_URL", &other.store.url());
    let words = refused(&mut server);
    assert!(words.contains("of installation"), "{words}");
    server.set("S3_PREFIX", &unused.prefix);
    let empty = Database::create();
    server.set("STORE_URL", &empty.url());
    let words = refused(&mut server);
    assert!(words.contains("there is no store"), "{words}");
    assert!(words.contains("elevo store copy"), "{words}");
}

/// The store counts as used when a tenant has stored something.
fn apply_to_have_tenants(place: &Place) {
    place
        .store
        .execute_inside("SELECT store.tenant_1(decode(repeat('07', 16), 'hex'))");
}

#[tokio::test]
async fn an_older_copy_of_the_stores_database_is_refused_until_it_is_adopted() {
    let place = Place::new();
    let mut server = place.server();
    let made = project(&server, "p").await;
    apply(&server, &made, "a.txt", "a").await;
    server.stop();
    let (catalog, store) = (Database::create(), Database::create());
    for (copy, original) in [(&catalog, &place.catalog), (&store, &place.store)] {
        copy.execute("DROP DATABASE {}");
        copy.execute(&format!(
            "CREATE DATABASE {{}} TEMPLATE {}",
            original.name()
        ));
    }
    server.run();
    apply(&server, &made, "b.txt", "b").await;
    server.stop();
    // Both databases went back to the same moment.
    server.set("CATALOG_URL", &catalog.url());
    server.set("STORE_URL", &store.url());
    let words = refused(&mut server);
    assert!(words.contains("is an older copy"), "{words}");
    assert!(words.contains("--adopt"), "{words}");
    server.expect_warnings();
    server.try_run(&["--adopt"]).unwrap();
    assert_eq!(read(&server, &made, "a.txt").await, "a");
}

#[tokio::test]
async fn a_server_ends_when_the_others_have_declared_it_lost() {
    let place = Place::new();
    let mut server = place.server();
    server.expect_warnings();
    server.expect_complaint("declared this store lost");
    project(&server, "p").await;
    place
        .store
        .execute_inside("UPDATE store.nodes SET state = 'x'");
    server.fails().await;
    assert!(server.logged("the other servers continue without it"));
    server.run();
    project(&server, "q").await;
}

#[tokio::test]
async fn the_credentials_can_be_in_a_file_that_changes() {
    let place = Place::new();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("credentials");
    let text = |secret: &str| {
        let key = &place.s3.key;
        format!("[elevo]\naws_access_key_id = {key}\naws_secret_access_key = {secret}\n")
    };
    std::fs::write(&file, text(&place.s3.secret)).unwrap();
    let file = file.to_str().unwrap();
    let settings = [
        ("S3_ACCESS_KEY", ""),
        ("S3_SECRET_KEY", ""),
        ("S3_CREDENTIALS_FILE", file),
        ("S3_PROFILE", "elevo"),
        // So that files are read from the bucket again.
        ("STORE_CACHE_SIZE", "0"),
    ];
    let mut server = place.server_with(&settings);
    let made = project(&server, "p").await;
    let large = "a line of a file\n".repeat(40_000);
    apply(&server, &made, "large.txt", &large).await;
    assert!(!server.logged(&place.s3.secret));
    server.stop();
    std::fs::write(file, "[elevo]\n").unwrap();
    let words = refused(&mut server);
    assert!(words.contains("aws_secret_access_key"), "{words}");
    std::fs::write(file, text(&place.s3.secret)).unwrap();
    server.run();
    assert_eq!(read(&server, &made, "large.txt").await, large);
}

#[tokio::test]
async fn garbage_of_one_server_is_collected_by_the_other() {
    let place = Place::new();
    let (one, two) = (place.server(), place.server());
    let made = project(&one, "p").await;
    apply(&one, &made, "a.txt", "a").await;
    one.expect(Method::DELETE, &made, None, 204).await;
    let kept = project(&two, "q").await;
    apply(&two, &kept, "b.txt", "b").await;
    until_async("the collection", async || {
        let asked = two.request(Method::POST, "/api/v1/gc").json(&json!({}));
        let answer = asked.send().await.unwrap();
        answer.status().is_success().then_some(())
    })
    .await;
    assert_eq!(read(&one, &kept, "b.txt").await, "b");
}

/// Holds up landings whose number is greater than the one in the table.
const GATE: &str = "CREATE TABLE gate (open_to int8); INSERT INTO gate VALUES (1); \
    CREATE FUNCTION wait_at_gate() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
        WHILE NEW.sequence > (SELECT open_to FROM gate) LOOP PERFORM pg_sleep(0.01); END LOOP; \
        RETURN NULL; END $$; \
    CREATE TRIGGER gate AFTER INSERT ON landings FOR EACH ROW EXECUTE FUNCTION wait_at_gate()";
const AT_GATE: &str = "SELECT count(*)::text FROM pg_stat_activity WHERE datname = current_database() \
    AND wait_event = 'PgSleep'";

/// Sends a change until it succeeds.
async fn apply_once(server: &Service, project: &str, number: usize) -> Value {
    let files = json!({"files": [{"path": format!("{number}.txt"), "content": "a"}]});
    until_async("the change lands", async || {
        let request = server.request(Method::POST, &format!("{project}/apply"));
        let request = request.header("Idempotency-Key", format!("change-{number}"));
        let answer = request.json(&files).send().await.unwrap();
        let is_done = answer.status().is_success();
        let value: Value = answer.json().await.unwrap();
        let retry = value["error"]["retry"].as_str();
        assert!(
            is_done || matches!(retry, Some("later" | "unknown")),
            "{value}"
        );
        is_done.then_some(value)
    })
    .await
}

/// Waits until the server sends nothing more, which nothing announces.
async fn is_quiet(wire: &Wire) {
    until_async("the server sends nothing more", async || {
        let before = wire.trips();
        tokio::time::sleep(Duration::from_millis(200)).await;
        (wire.trips() == before).then_some(())
    })
    .await;
}

#[tokio::test]
async fn landings_whose_answer_was_lost_are_reported_with_their_changes() {
    let place = Place::new();
    let wire = place.catalog.wire();
    let url = place.catalog.url_through(&wire);
    let server = place.server_with(&[("CATALOG_URL", &url)]);
    server.expect_warnings();
    server.expect_complaint("STORAGE_FAILED");
    let made = project(&server, "p").await;
    apply(&server, &made, "first.txt", "1").await;
    place.catalog.execute_inside(GATE);
    let is_held_up = Notify::new();
    let others = async {
        is_held_up.notified().await;
        let changes = (1..10).map(|number| apply_once(&server, &made, number));
        futures::future::join_all(changes).await
    };
    let gate = async {
        let waits = async || (query_at(&place.catalog.url(), AT_GATE) == "1").then_some(());
        until_async("the first change waits", waits).await;
        is_held_up.notify_one();
        // They wait until the first one has landed, and then land together.
        is_quiet(&wire).await;
        place.catalog.execute_inside("UPDATE gate SET open_to = 2");
        let head = "SELECT max(sequence)::text FROM landings";
        until_async("the first change has landed", async || {
            (query_at(&place.catalog.url(), head) == "2").then_some(())
        })
        .await;
        until_async("the others wait", waits).await;
        is_quiet(&wire).await;
        // Only their connection is cut, so that the server lands each change again.
        wire.set(Fault::CutAtTrip { nth: 1 });
        place
            .catalog
            .execute_inside("UPDATE gate SET open_to = 1000");
    };
    let (first, others, ()) = tokio::join!(apply_once(&server, &made, 0), others, gate);
    let results = others.into_iter().chain([first]);
    for result in results {
        assert_eq!(result["landedCount"], 1, "{result}");
        assert_eq!(result["landed"].as_array().unwrap().len(), 1, "{result}");
    }
    let history = server.get(&format!("{made}/steps")).await;
    assert_eq!(history["items"].as_array().unwrap().len(), 11, "{history}");
}

mod on_docker {
    use super::*;

    /// Each server deletes containers that it does not know, but only its own.
    #[tokio::test]
    async fn servers_on_one_engine_keep_the_sandboxes_of_each_other() {
        let place = Place::new();
        let settings = place.settings();
        let settings = settings.iter().map(|(name, value)| (*name, value.as_str()));
        let settings: Vec<_> = settings.collect();
        let one = Service::with_docker_and(&settings).await;
        let id = one.sandbox().await;
        let mut two = Service::new_with_docker(&settings);
        // Recovery and cleanup are a part of the start.
        two.run();
        assert_eq!(one.output_of(&id, "echo alive").await.trim(), "alive");
        let ids = json!({ "ids": [id] });
        let url = "/api/v1/sandboxes/batch-delete";
        let answer = two.post(url, ids).await;
        let failed = &answer["failed"][0]["error"];
        assert_eq!(failed["name"], "ON_ANOTHER_SERVER", "{answer}");
        let fork = json!({"template": "base", "workspace": {"fork": id}});
        let refused = two
            .expect(Method::POST, "/api/v1/sandboxes", Some(fork), 409)
            .await;
        assert_eq!(refused["error"]["name"], "ON_ANOTHER_SERVER", "{refused}");
        assert_eq!(one.output_of(&id, "echo alive").await.trim(), "alive");
        one.delete(&id).await;
    }
}
