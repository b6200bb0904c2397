//! Commands with an id that the client has chosen: each runs once.

use futures::future::join_all;
use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::{Events, Service, eventually};

/// A command that adds a line to a file, waits for another file and then prints
/// a line.
const SLOW: &str = "echo run >> /workspace/runs; echo begun; \
                    while [ ! -e /workspace/go ]; do sleep 0.05; done; echo ended";

fn path(id: &str) -> String {
    format!("/api/v1/sandboxes/{id}/process/run")
}

async fn run(service: &Service, id: &str, wish: &Value, status: u16) -> Value {
    let wish = Some(service.inside(id, wish.clone()));
    service.expect(Method::POST, &path(id), wish, status).await
}

async fn runs(service: &Service, id: &str) -> String {
    let result = service.run_in(id, "cat /workspace/runs").await;
    result["stdout"].as_str().unwrap().to_owned()
}

async fn restart(service: &Service, id: &str) {
    for verb in ["stop", "start"] {
        let path = format!("/api/v1/sandboxes/{id}/{verb}");
        service.expect(Method::POST, &path, None, 200).await;
    }
}

#[tokio::test]
async fn concurrent_requests_with_one_id_start_one_command() {
    let service = Service::start().await;
    let id = service.sandbox().await;
    let wish = json!({"commandId": "build_1.a", "command": "echo run >> /workspace/runs; echo $$"});
    let all = (0..12).map(|_| run(&service, &id, &wish, 200));
    let results = join_all(all).await;
    assert_eq!(results[0]["commandId"], "build_1.a");
    assert_eq!(results[0]["timedOut"], false);
    for result in &results {
        assert_eq!(result, &results[0]);
    }
    assert_eq!(runs(&service, &id).await, "run\n");

    // Requests for the background get the same response, and streams begin with
    // the first byte of output.
    let wish =
        json!({"commandId": "b", "command": "echo run >> /workspace/runs", "background": true});
    for _ in 0..2 {
        let started = run(&service, &id, &wish, 202).await;
        assert_eq!(started, json!({"commandId": "b"}));
    }
    let wish = json!({"commandId": "s", "command": "echo run >> /workspace/runs; echo one; exit 3", "stream": true});
    for _ in 0..2 {
        let request = service.request(Method::POST, &path(&id));
        let request = request.json(&service.inside(&id, wish.clone()));
        let mut events = Events::new(request.send().await.unwrap());
        let mut seen = Vec::new();
        while let Some((_, event)) = events.next().await {
            seen.push(event);
        }
        let kinds: Vec<_> = seen.iter().map(|event| &event["type"]).collect();
        assert_eq!(kinds, ["start", "stdout", "exit"], "{seen:?}");
        assert_eq!(seen[1]["data"], "one\n");
        assert_eq!(seen[2]["exitCode"], 3);
    }
    assert_eq!(runs(&service, &id).await, "run\nrun\nrun\n");
}

#[tokio::test]
async fn a_request_that_lost_its_connection_attaches_to_its_command() {
    let service = Service::start().await;
    let id = service.sandbox().await;
    let wish = json!({"commandId": "slow", "command": SLOW});
    let body = service.inside(&id, wish.clone());
    let first = tokio::spawn(service.request(Method::POST, &path(&id)).json(&body).send());
    eventually("the command runs", async || {
        runs(&service, &id).await == "run\n"
    })
    .await;
    first.abort();
    assert!(first.await.unwrap_err().is_cancelled());
    service.output_of(&id, "touch /workspace/go").await;
    let again = run(&service, &id, &wish, 200).await;
    assert_eq!(again["stdout"], "begun\nended\n");
    assert_eq!(runs(&service, &id).await, "run\n");
}

#[tokio::test]
async fn a_command_runs_once_across_restarts_of_the_server_and_the_sandbox() {
    let mut service = Service::start().await;
    let id = service.sandbox().await;
    let wish = json!({"commandId": "slow", "command": SLOW});
    let body = service.inside(&id, wish.clone());
    let first = tokio::spawn(service.request(Method::POST, &path(&id)).json(&body).send());
    eventually("the command runs", async || {
        runs(&service, &id).await == "run\n"
    })
    .await;
    service.kill();
    assert!(first.await.unwrap().is_err());
    service.run();
    let go = service.run_in(&id, "touch /workspace/go");
    let (again, _) = tokio::join!(run(&service, &id, &wish, 200), go);
    assert_eq!(again["stdout"], "begun\nended\n");
    restart(&service, &id).await;
    let gone = run(&service, &id, &wish, 410).await;
    assert_eq!(gone["error"]["name"], "OUTPUT_GONE", "{gone}");
    assert_eq!(gone["error"]["details"]["commandId"], "slow");
    assert_eq!(runs(&service, &id).await, "run\n");
}

#[tokio::test]
async fn a_command_that_the_agent_no_longer_knows_does_not_run_again() {
    let service = Service::start_with(&[("RATE_COMMANDS", "10000")]).await;
    let id = service.sandbox().await;
    let wish = json!({"commandId": "old", "command": "echo run >> /workspace/runs"});
    run(&service, &id, &wish, 200).await;
    // The agent keeps the records of 200 ended commands.
    for _ in 0..200 {
        run(&service, &id, &json!({"args": ["true"]}), 200).await;
    }
    let command = format!("/api/v1/sandboxes/{id}/process/old");
    service.expect(Method::GET, &command, None, 404).await;
    let gone = run(&service, &id, &wish, 410).await;
    assert_eq!(gone["error"]["name"], "OUTPUT_GONE", "{gone}");
    assert_eq!(runs(&service, &id).await, "run\n");
}

#[tokio::test]
async fn another_request_cannot_use_the_id_of_a_command() {
    let service = Service::start().await;
    let id = service.sandbox().await;
    let wish = json!({"commandId": "mine", "command": "echo run >> /workspace/runs"});
    run(&service, &id, &wish, 200).await;
    let assert_taken = |answer: Value| {
        assert_eq!(answer["error"]["name"], "COMMAND_ID_TAKEN", "{answer}");
    };
    for (name, value) in [
        ("command", json!("true")),
        ("envs", json!({"A": "1"})),
        ("stdin", json!("x")),
        ("timeout", json!(1000)),
    ] {
        let mut other = wish.clone();
        other[name] = value;
        assert_taken(run(&service, &id, &other, 409).await);
    }
    let key = json!({"name": "other", "scopes": ["process"]});
    let key = service.post("/api/v1/keys", key).await;
    let other = key["secret"].as_str().unwrap();
    let body = Some(service.inside(&id, wish.clone()));
    let at = path(&id);
    let answer = service.expect_as(other, Method::POST, &at, body.clone(), 409);
    assert_taken(answer.await);
    // The id of a command or terminal that the server has chosen is taken too.
    let started = service.run_in(&id, "true").await;
    let wish = json!({"commandId": started["commandId"], "command": "true"});
    assert_taken(run(&service, &id, &wish, 409).await);
    // An id is unique in its sandbox only.
    let second = service.sandbox().await;
    run(
        &service,
        &second,
        &json!({"commandId": "mine", "args": ["true"]}),
        200,
    )
    .await;
    service.expect(Method::POST, &at, body, 200).await;
    assert_eq!(runs(&service, &id).await, "run\n");
}

#[tokio::test]
async fn the_id_of_a_command_that_did_not_start_is_free() {
    let service = Service::start().await;
    let id = service.sandbox().await;
    let wish = json!({"commandId": "x", "args": ["/no/such/program"]});
    let failed = run(&service, &id, &wish, 422).await;
    assert_eq!(failed["error"]["name"], "COMMAND_FAILED", "{failed}");
    let wish = json!({"commandId": "x", "args": ["echo", "a b", "$HOME"]});
    let result = run(&service, &id, &wish, 200).await;
    assert_eq!(result["stdout"], "a b $HOME\n");
    // A request with both keys attaches by either of them.
    let request = || {
        let body = json!({"commandId": "y", "args": ["echo", "once"]});
        let request = service.request(Method::POST, &path(&id));
        request.json(&service.inside(&id, body))
    };
    for keyed in [true, false, true] {
        let request = match keyed {
            true => request().header("Idempotency-Key", "key"),
            false => request(),
        };
        let answer: Value = request.send().await.unwrap().json().await.unwrap();
        assert_eq!(answer["stdout"], "once\n", "{answer}");
    }
    for bad in ["", "a b", "ä", "a/b", &"x".repeat(65)] {
        let wish = json!({"commandId": bad, "command": "true"});
        run(&service, &id, &wish, 400).await;
    }
}
