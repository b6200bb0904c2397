//! Keys, scopes, agents, tenants, rates.

use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::Service;

async fn key(service: &Service, wish: Value) -> String {
    let made = service
        .expect(Method::POST, "/api/v1/keys", Some(wish), 201)
        .await;
    made["secret"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn keys_do_what_their_scopes_say_until_they_are_revoked() {
    let service = Service::start().await;
    let reader = key(
        &service,
        json!({"name": "reader", "scopes": ["sandboxes:read"]}),
    )
    .await;
    service
        .expect_as(&reader, Method::GET, "/api/v1/sandboxes", None, 200)
        .await;
    let body = Some(json!({"template": "base"}));
    let refused = service
        .expect_as(&reader, Method::POST, "/api/v1/sandboxes", body, 403)
        .await;
    assert_eq!(refused["error"]["details"]["scope"], "sandboxes:write");
    let list = service.get("/api/v1/keys").await;
    let found = list["items"]
        .as_array()
        .unwrap()
        .iter()
        .find(|key| key["name"] == "reader")
        .unwrap();
    assert!(found.get("secret").is_none() && !list.to_string().contains("elv_"));
    let path = format!("/api/v1/keys/{}", found["id"].as_str().unwrap());
    service.expect(Method::DELETE, &path, None, 204).await;
    service
        .expect_as(&reader, Method::GET, "/api/v1/sandboxes", None, 401)
        .await;

    // A key cannot give another one more than it has.
    let keeper = key(
        &service,
        json!({"name": "keeper", "scopes": ["keys", "sandboxes:read"]}),
    )
    .await;
    let more = Some(
        json!({"name": "more", "scopes": ["system"], "limits": {"requestsPerMinute": 10, "createsPerMinute": 1, "commandsPerMinute": 1, "sandboxes": 1}}),
    );
    service
        .expect_as(&keeper, Method::POST, "/api/v1/keys", more, 403)
        .await;
    let wider = Some(json!({"name": "wider", "scopes": ["sandboxes:read"], "limits": {}}));
    service
        .expect_as(&keeper, Method::POST, "/api/v1/keys", wider, 403)
        .await;
}

#[tokio::test]
async fn a_key_over_its_rate_limit_gets_the_time_to_retry() {
    let service = Service::start().await;
    let slow = key(&service, json!({"name": "slow", "limits": {"requestsPerMinute": 3, "createsPerMinute": 1, "sandboxes": 1}})).await;
    for _ in 0..3 {
        service
            .expect_as(&slow, Method::GET, "/api/v1/sandboxes", None, 200)
            .await;
    }
    let url = format!("{}/api/v1/sandboxes", service.url);
    let answer = service
        .http
        .get(&url)
        .header("X-API-Key", &slow)
        .send()
        .await
        .unwrap();
    assert_eq!(answer.status(), 429);
    let wait: u64 = answer.headers()["retry-after"]
        .to_str()
        .unwrap()
        .parse()
        .unwrap();
    assert!((1..=60).contains(&wait), "{wait}");
    let body = json!({"template": "base"});
    service
        .expect_as(
            &slow,
            Method::POST,
            "/api/v1/sandboxes",
            Some(body.clone()),
            201,
        )
        .await;
    let refused = service
        .expect_as(&slow, Method::POST, "/api/v1/sandboxes", Some(body), 429)
        .await;
    assert_eq!(refused["error"]["name"], "RATE_LIMITED");

    let few = key(&service, json!({"name": "few", "limits": {"sandboxes": 1}})).await;
    let body = json!({"template": "base"});
    service
        .expect_as(
            &few,
            Method::POST,
            "/api/v1/sandboxes",
            Some(body.clone()),
            201,
        )
        .await;
    let refused = service
        .expect_as(&few, Method::POST, "/api/v1/sandboxes", Some(body), 429)
        .await;
    assert_eq!(refused["error"]["name"], "SANDBOX_LIMIT_EXCEEDED");
}
