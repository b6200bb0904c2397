//! Idempotent requests for sandboxes and their commands.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use reqwest::Method;
use serde_json::{Value, json};

use super::{NO_ANSWERS, begin, begun, post, sql};
use crate::harness::{Service, eventually};

/// A command does not run twice either, though only the agent has its output.
#[tokio::test]
async fn a_command_runs_once_though_the_server_is_killed() {
    let mut service = Service::start().await;
    let id = service.sandbox().await;
    let path = format!("/api/v1/sandboxes/{id}/process/run");
    let command = "echo run >> /workspace/log; \
                   while [ ! -e /workspace/go ]; do sleep 0.1; done; echo the-output";
    let wish = service.inside(&id, json!({"command": command}));
    let request = service.request(Method::POST, &path);
    let first = request.header("Idempotency-Key", "key").json(&wish).send();
    let first = tokio::spawn(first);
    eventually("the command runs", async || {
        service.run_in(&id, "cat /workspace/log").await["stdout"] == "run\n"
    })
    .await;
    service.kill();
    assert!(first.await.unwrap().is_err());
    service.run();
    let (again, _) = tokio::join!(
        post(&service, &path, "key", &wish),
        service.run_in(&id, "touch /workspace/go")
    );
    assert_eq!(again.status, 200, "{again:?}");
    assert_eq!(again.body["stdout"], "the-output\n", "{again:?}");
    assert_eq!(service.output_of(&id, "cat /workspace/log").await, "run\n");
    // A new agent does not know the commands of an old one.
    for what in ["stop", "start"] {
        let path = format!("/api/v1/sandboxes/{id}/{what}");
        service.expect(Method::POST, &path, None, 200).await;
    }
    let gone = post(&service, &path, "key", &wish).await;
    assert_eq!(gone.status, 410, "{gone:?}");
    assert_eq!(gone.body["error"]["name"], "OUTPUT_GONE", "{gone:?}");
    assert_eq!(service.output_of(&id, "cat /workspace/log").await, "run\n");
}

#[tokio::test]
async fn a_command_that_runs_is_attached_to_by_its_repetition() {
    let service = Service::start().await;
    let id = service.sandbox().await;
    let path = format!("/api/v1/sandboxes/{id}/process/run");
    let wish = json!({"command": "echo begun; while [ ! -e go ]; do sleep 0.1; done; echo ended"});
    let wish = service.inside(&id, wish);
    let other = async {
        eventually("the command runs", async || {
            let list = service
                .get(&format!("/api/v1/sandboxes/{id}/process"))
                .await;
            list["items"]
                .as_array()
                .is_some_and(|items| !items.is_empty())
        })
        .await;
        let look = post(&service, &path, "key", &wish);
        tokio::join!(look, service.run_in(&id, "touch go")).0
    };
    let (first, other) = tokio::join!(post(&service, &path, "key", &wish), other);
    assert_eq!(first.body["stdout"], "begun\nended\n", "{first:?}");
    assert_eq!(other.body, first.body);
    assert!(other.is_replayed && !first.is_replayed);
    let list = service
        .get(&format!("/api/v1/sandboxes/{id}/process"))
        .await;
    assert_eq!(list["items"].as_array().unwrap().len(), 2, "{list}");
}

/// A command that could not be started can be retried.
#[tokio::test]
async fn a_command_that_did_not_start_is_started_by_its_repetition() {
    let service = Service::start().await;
    let id = service.sandbox().await;
    let path = format!("/api/v1/sandboxes/{id}/process/run");
    let wish = json!({"command": "echo here", "cwd": "/workspace/later"});
    let wish = service.inside(&id, wish);
    let failed = post(&service, &path, "key", &wish).await;
    assert_eq!(failed.body["error"]["name"], "COMMAND_FAILED", "{failed:?}");
    service.output_of(&id, "mkdir /workspace/later").await;
    let done = post(&service, &path, "key", &wish).await;
    assert_eq!(done.body["stdout"], "here\n", "{done:?}");
}

#[tokio::test]
async fn the_catalog_keeps_no_output_of_commands() {
    let mut service = Service::start().await;
    let id = service.sandbox().await;
    let path = format!("/api/v1/sandboxes/{id}/process/run");
    let wish = json!({"command": "echo tell-$((40 + 2))-nobody"});
    let wish = service.inside(&id, wish);
    let first = post(&service, &path, "key", &wish).await;
    assert_eq!(first.body["stdout"], "tell-42-nobody\n");
    let second = post(&service, &path, "key", &wish).await;
    assert_eq!((&second.body, second.is_replayed), (&first.body, true));
    service.kill();
    for name in ["catalog.db", "catalog.db-wal"] {
        let bytes = std::fs::read(service.data.join(name)).unwrap_or_default();
        let found = bytes.windows(14).any(|part| part == b"tell-42-nobody");
        assert!(!found, "{name} has the output");
    }
}

#[tokio::test]
async fn a_sandbox_made_by_a_killed_server_is_found() {
    let mut service = Service::start().await;
    service.expect_complaint("cannot store the outcome of a request");
    let wish = json!({"template": "base"});
    sql(&service, NO_ANSWERS);
    let first = post(&service, "/api/v1/sandboxes", "key", &wish).await;
    assert_eq!(first.status, 201, "{first:?}");
    let id = first.body["id"].as_str().unwrap();
    let of = |what: &str| format!("/api/v1/sandboxes/{id}/{what}");
    let input = json!({"data": STANDARD.encode("typed\n")});
    let command =
        json!({"command": "cat >> /workspace/typed", "background": true, "openStdin": true});
    let command = service.inside(id, command);
    let command = service.post(&of("process/run"), command).await;
    let input_path = of(&format!(
        "process/{}/input",
        command["commandId"].as_str().unwrap()
    ));
    let extended = post(&service, &of("extend"), "key", &json!({"seconds": 60})).await;
    let forked = post(&service, &of("fork"), "key", &json!({"count": 2})).await;
    let terminal = service.inside(id, json!({"cols": 80, "rows": 24}));
    let opened = post(&service, &of("pty"), "key", &terminal).await;
    assert_eq!(post(&service, &input_path, "key", &input).await.status, 204);
    service.kill();
    service.sql("DROP TRIGGER no_answer").await;
    service.run();
    let again = post(&service, "/api/v1/sandboxes", "key", &wish).await;
    assert_eq!(again.body["id"], first.body["id"], "{again:?}");
    let again = post(&service, &of("extend"), "key", &json!({"seconds": 60})).await;
    assert_eq!(
        again.body["expiresAt"], extended.body["expiresAt"],
        "{again:?}"
    );
    let again = post(&service, &of("fork"), "key", &json!({"count": 2})).await;
    let ids = |forked: &Value| {
        let made = forked["succeeded"].as_array().unwrap().iter();
        made.map(|made| made["id"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(ids(&again.body), ids(&forked.body), "{again:?}");
    let again = post(&service, &of("pty"), "key", &terminal).await;
    assert_eq!(again.body["id"], opened.body["id"], "{again:?}");
    // The input may have arrived, so it is not sent again.
    let again = post(&service, &input_path, "key", &input).await;
    assert_eq!(again.body["error"]["name"], "OUTCOME_UNKNOWN", "{again:?}");
    let list = service.get("/api/v1/sandboxes").await;
    assert_eq!(list["total"], 3, "{list}");
    let delete = json!({"ids": ids(&forked.body)});
    let deleted = post(&service, "/api/v1/sandboxes/batch-delete", "key", &delete).await;
    assert_eq!(deleted.body["succeeded"], delete["ids"], "{deleted:?}");
    assert_eq!(
        service.output_of(id, "cat /workspace/typed").await,
        "typed\n"
    );
}

/// Otherwise the sandbox would count towards the limits for as long as the
/// server runs.
#[tokio::test]
async fn a_sandbox_that_nothing_starts_is_taken_back() {
    let service = Service::start().await;
    service.expect_complaint("a new sandbox is rolled back");
    let id = service.sandbox().await;
    let lost = "sbx-aaaaaaaaaaaaaaaa";
    sql(
        &service,
        &format!(
            "CREATE TEMP TABLE lost AS SELECT * FROM sandboxes WHERE id = '{id}'; \
             UPDATE lost SET id = '{lost}', workspace = '{lost}', container = NULL, \
             state = 'starting', started_before = 0, token_hash = zeroblob(32); \
             INSERT INTO sandboxes SELECT * FROM lost;"
        ),
    );
    let path = format!("/api/v1/sandboxes/{lost}");
    service.expect(Method::GET, &path, None, 200).await;
    eventually("it is taken back", async || {
        let answer = service.request(Method::GET, &path).send().await;
        answer.unwrap().status() == 404
    })
    .await;
    let left = service.get("/api/v1/sandboxes").await;
    assert_eq!(left["items"][0]["id"], json!(id), "{left}");
}

#[tokio::test]
async fn a_create_goes_on_when_its_caller_disconnects() {
    let service = Service::start().await;
    sql(&service, "DELETE FROM requests");
    let wish = json!({"template": "base"});
    let text = wish.to_string();
    let path = "/api/v1/sandboxes";
    let create = begin(&service, path, "create", text.len(), text.as_bytes()).await;
    begun(&service, "1").await;
    drop(create);
    eventually("the repetition is answered", async || {
        let answer = post(&service, path, "create", &wish).await;
        match answer.status {
            201 => answer.body["state"] == "running",
            409 => false,
            _ => panic!("{answer:?}"),
        }
    })
    .await;
    let list = service.get(path).await;
    assert_eq!(list["total"], 1, "{list}");
}

/// Tests that need a real container engine.
mod on_docker {
    use super::*;

    /// The id of a warm sandbox is that of its container, which the request
    /// does not know beforehand.
    #[tokio::test]
    async fn a_sandbox_that_was_started_ahead_is_found_after_a_kill() {
        let mut service = Service::with_docker_and(&[("WARM_POOL", "base=1")]).await;
        service.expect_complaint("cannot fill a warm pool");
        service.expect_complaint("cannot store the outcome of a request");
        eventually("a full pool", async || {
            service.get("/api/v1/stats").await["pools"][0]["ready"] == 1
        })
        .await;
        let wish = json!({"template": "base"});
        sql(&service, NO_ANSWERS);
        let first = post(&service, "/api/v1/sandboxes", "key", &wish).await;
        assert_eq!(first.status, 201, "{first:?}");
        service.kill();
        service.sql("DROP TRIGGER no_answer").await;
        service.run();
        let again = post(&service, "/api/v1/sandboxes", "key", &wish).await;
        assert_eq!(again.body["id"], first.body["id"], "{again:?}");
        let list = service.get("/api/v1/sandboxes").await;
        assert_eq!(list["total"], 1, "{list}");
    }
}
