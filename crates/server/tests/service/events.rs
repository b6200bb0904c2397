//! Events and their streams.

use std::time::Duration;

use reqwest::Method;
use reqwest::header::ACCEPT;
use serde_json::{Value, json};

use crate::harness::{Events, KEY, Service, eventually};

/// Opens a stream of events with a key.
async fn follow(service: &Service, key: &str, path: &str, last: Option<u64>) -> Events {
    let url = format!("{}/api/v1/events{path}", service.url);
    let mut request = service.http.get(url).bearer_auth(key);
    request = request.header(ACCEPT, "text/event-stream");
    if let Some(last) = last {
        request = request.header("last-event-id", last.to_string());
    }
    Events::new(request.send().await.unwrap())
}

/// Returns the next event, within a short time.
async fn next(events: &mut Events) -> (u64, Value) {
    let next = tokio::time::timeout(Duration::from_secs(10), events.next());
    next.await.expect("an event").expect("a stream")
}

/// Returns the kinds of events about a sandbox so far, without those of its
/// agent, whose order varies.
async fn told(service: &Service, id: &str) -> Vec<String> {
    let page = service.get(&format!("/api/v1/events?sandbox={id}")).await;
    let events = page["items"].as_array().unwrap().iter();
    let names = events.map(|event| event["kind"].as_str().unwrap().to_owned());
    names.filter(|name| name.starts_with("sandbox.")).collect()
}

#[tokio::test]
async fn a_stream_that_is_cut_before_its_first_event_can_continue() {
    let service = Service::start_without_engine(&[]);
    service
        .post("/api/v1/projects", json!({"name": "one"}))
        .await;
    let request = service.request(Method::GET, "/api/v1/events");
    let request = request.header(ACCEPT, "text/event-stream");
    let mut answer = request.send().await.unwrap();
    let begun = answer.chunk().await.unwrap().unwrap();
    drop(answer);
    let begun = std::str::from_utf8(&begun).unwrap();
    let mut lines = begun.lines();
    let last = lines.find_map(|line| line.strip_prefix("id: ")).unwrap();
    let path = "/api/v1/projects/one/apply";
    let change = json!({"files": [{"path": "file", "content": "text"}]});
    service.expect(Method::POST, path, Some(change), 200).await;
    let mut stream = follow(&service, KEY, "", Some(last.parse().unwrap())).await;
    let (_, event) = next(&mut stream).await;
    assert_eq!(event["kind"], "project.landed", "{event}");
}

#[tokio::test]
async fn the_events_of_a_sandbox_are_in_order() {
    let mut service = Service::start().await;
    let mut stream = follow(&service, KEY, "", None).await;
    let id = service.sandbox().await;
    let mut seen = Vec::new();
    while seen.len() < 4 {
        let (number, event) = next(&mut stream).await;
        assert_eq!(event["id"], number);
        assert_eq!(event["data"]["sandboxId"], *id, "{event}");
        assert_eq!(event["data"]["template"], "base", "{event}");
        assert!(
            event["timestamp"].as_str().unwrap().ends_with('Z'),
            "{event}"
        );
        assert!(
            event["data"]["expiresAt"].as_str().unwrap().ends_with('Z'),
            "{event}"
        );
        seen.push((number, event["kind"].as_str().unwrap().to_owned()));
    }
    assert!(seen.is_sorted_by(|one, next| one.0 < next.0), "{seen:?}");
    assert!(
        seen.iter().any(|(_, name)| name == "agent.connected"),
        "{seen:?}"
    );
    let path = format!("/api/v1/sandboxes/{id}");
    service.post(&format!("{path}/stop"), json!({})).await;
    service.post(&format!("{path}/start"), json!({})).await;
    service.kill();
    service.run();
    service.delete(&id).await;
    let expected = [
        "sandbox.starting",
        "sandbox.running",
        "sandbox.created",
        "sandbox.stopped",
        "sandbox.starting",
        "sandbox.running",
        "sandbox.deleted",
    ];
    assert_eq!(told(&service, &id).await, expected);
    // A client that was away gets all events since, each once.
    let (last, _) = seen[1];
    let mut stream = follow(&service, KEY, "", Some(last)).await;
    let mut number = last;
    loop {
        let (next, event) = next(&mut stream).await;
        assert!(next > number);
        number = next;
        if event["kind"] == "sandbox.deleted" {
            break;
        }
    }
    let page = service
        .get(&format!("/api/v1/events?cursor={last}&limit=1000"))
        .await;
    assert_eq!(page["next"], number.to_string(), "{page}");
}

#[tokio::test]
async fn clients_get_only_the_events_they_may_see() {
    let service = Service::start().await;
    let made = service
        .post("/api/v1/tenants", json!({"name": "other"}))
        .await;
    let other = made["secret"].as_str().unwrap().to_owned();
    let made = service.post("/api/v1/agents", json!({"name": "one"})).await;
    let agent = made["id"].as_str().unwrap();
    let wish =
        json!({"name": "k", "agent": agent, "scopes": ["sandboxes:read", "sandboxes:write"]});
    let bound = service.post("/api/v1/keys", wish).await;
    let bound = bound["secret"].as_str().unwrap().to_owned();
    let wish = json!({"name": "p", "scopes": ["process"]});
    let blind = service.post("/api/v1/keys", wish).await;
    let blind = blind["secret"].as_str().unwrap().to_owned();

    let ours = service.sandbox().await;
    let wish = Some(json!({"template": "base"}));
    let path = "/api/v1/sandboxes";
    let made = service
        .expect_as(&bound, Method::POST, path, wish, 201)
        .await;
    let theirs = made["id"].as_str().unwrap().to_owned();
    let subjects = async |key: &str| {
        let page = service
            .expect_as(key, Method::GET, "/api/v1/events?limit=1000", None, 200)
            .await;
        let items = page["items"].as_array().unwrap().clone();
        let mut ids: Vec<_> = items
            .iter()
            .map(|event| event["data"]["sandboxId"].as_str().unwrap().to_owned())
            .collect();
        ids.sort();
        ids.dedup();
        ids
    };
    let mut both = vec![ours.clone(), theirs.clone()];
    both.sort();
    assert_eq!(subjects(KEY).await, both);
    assert_eq!(subjects(&bound).await, [theirs.as_str()]);
    assert_eq!(subjects(&other).await, Vec::<String>::new());
    let about = format!("/api/v1/events?sandbox={ours}");
    for key in [&bound, &other] {
        let page = service.expect_as(key, Method::GET, &about, None, 200).await;
        assert_eq!(page["items"], json!([]));
    }
    service
        .expect_as(&blind, Method::GET, "/api/v1/events", None, 403)
        .await;
    let kinds = "/api/v1/events?kinds=project.landed";
    service
        .expect_as(&bound, Method::GET, kinds, None, 403)
        .await;

    // The first event of the stream is the tenant's own, which happened later.
    let mut stream = follow(&service, &other, "", None).await;
    service.delete(&ours).await;
    let wish = Some(json!({"template": "base"}));
    let made = service
        .expect_as(&other, Method::POST, path, wish, 201)
        .await;
    let (_, heard) = next(&mut stream).await;
    assert_eq!(heard["data"]["sandboxId"], made["id"], "{heard}");
}

#[tokio::test]
async fn an_expiry_has_an_event_before_and_when_it_happens() {
    let service = Service::start().await;
    let wish = json!({"template": "base", "timeoutSeconds": 302});
    let made = service.post("/api/v1/sandboxes", wish).await;
    let id = made["id"].as_str().unwrap();
    eventually("the event is delivered", async || {
        told(&service, id)
            .await
            .contains(&"sandbox.expiring".into())
    })
    .await;
    let short = service
        .post(
            "/api/v1/sandboxes",
            json!({"template": "base", "timeoutSeconds": 2}),
        )
        .await;
    let short = short["id"].as_str().unwrap();
    eventually("it is gone", async || {
        told(&service, short).await.last().unwrap() == "sandbox.deleted"
    })
    .await;
    let told = told(&service, short).await;
    assert_eq!(
        told[told.len() - 2..],
        ["sandbox.expired", "sandbox.deleted"]
    );
}

#[tokio::test]
async fn only_some_kinds_are_heard_by_who_asks_for_them() {
    let service = Service::start().await;
    let path = "?kinds=sandbox.deleted,%20sandbox.error";
    let mut stream = follow(&service, KEY, path, None).await;
    let id = service.sandbox().await;
    service.delete(&id).await;
    let (_, event) = next(&mut stream).await;
    assert_eq!(event["kind"], "sandbox.deleted", "{event}");
    for wrong in [
        "kinds=nothing",
        "limit=0",
        "limit=1001",
        "sandbox=a&project=b",
    ] {
        let path = format!("/api/v1/events?{wrong}");
        service.expect(Method::GET, &path, None, 400).await;
    }
}
