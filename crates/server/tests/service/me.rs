//! The key of a request, the server, and the rate limits in responses.

use reqwest::{Method, Response};
use serde_json::{Value, json};

use crate::harness::Service;

async fn key(service: &Service, wish: Value) -> Value {
    service.post("/api/v1/keys", wish).await
}

async fn send(service: &Service, key: &Value, method: Method, path: &str, body: Value) -> Response {
    let url = format!("{}{path}", service.url);
    let secret = key["secret"].as_str().unwrap();
    let request = service.http.request(method, url).bearer_auth(secret);
    let request = match body.is_null() {
        true => request,
        false => request.json(&body),
    };
    request.send().await.unwrap()
}

fn header(response: &Response, name: &str) -> Option<String> {
    let value = response.headers().get(name)?;
    Some(value.to_str().unwrap().to_owned())
}

#[tokio::test]
async fn a_key_without_scopes_learns_what_it_may_do() {
    let service = Service::start().await;
    let agent = service.post("/api/v1/agents", json!({"name": "ada"})).await;
    let limits = json!({"createsPerMinute": 4, "requestsPerMinute": 30, "sandboxes": 3});
    let wish = json!({"name": "bound", "agent": agent["id"], "scopes": [], "limits": limits});
    let bound = key(&service, wish).await;
    let me = send(&service, &bound, Method::GET, "/api/v1/me", Value::Null).await;
    assert_eq!(me.status(), 200);
    let me: Value = me.json().await.unwrap();
    assert_eq!(me["key"], json!({"id": bound["id"], "name": "bound"}));
    assert_eq!(me["agent"], json!({"id": agent["id"], "name": "ada"}));
    assert!(me["tenant"]["name"].is_string(), "{me}");
    assert_eq!(me["scopes"], json!([]));
    assert_eq!(me["limits"]["key"], limits);
    assert_eq!(me["limits"]["tenant"]["projects"], 1000, "{me}");
    assert_eq!(me["usage"], json!({"sandboxes": 0}));
    // The request itself counts.
    let left = json!({"sandboxes": 3, "creates": 4, "requests": 29});
    assert_eq!(me["left"], left);

    // The keys of an agent share their limit of sandboxes.
    let wish = json!({"name": "other", "agent": agent["id"], "limits": {"sandboxes": 3}});
    let other = key(&service, wish).await;
    let wish = json!({"template": "base"});
    let made = send(&service, &other, Method::POST, "/api/v1/sandboxes", wish).await;
    assert_eq!(made.status(), 201);
    let me = send(&service, &bound, Method::GET, "/api/v1/me", Value::Null).await;
    let me: Value = me.json().await.unwrap();
    assert_eq!(me["usage"]["sandboxes"], 1, "{me}");
    assert_eq!(me["left"]["sandboxes"], 2, "{me}");
    assert_eq!(me["left"]["creates"], 4, "{me}");

    let owner = service.get("/api/v1/me").await;
    assert_eq!(owner["left"], json!({}), "{owner}");
    assert_eq!(owner.get("agent"), None, "{owner}");
    assert_eq!(owner["usage"]["sandboxes"], 0, "{owner}");
}

#[tokio::test]
async fn the_limit_of_a_tenant_counts_for_its_keys() {
    let service = Service::start_with(&[("TENANT_SANDBOXES", "5"), ("RATE_TENANT", "100")]).await;
    service.sandbox().await;
    let me = service.get("/api/v1/me").await;
    assert_eq!(me["limits"]["tenant"]["sandboxes"], 5, "{me}");
    assert_eq!(me["left"]["sandboxes"], 4, "{me}");
    for rate in ["creates", "commands", "requests"] {
        assert!(me["left"][rate].as_u64() < Some(100), "{rate}: {me}");
    }
}

#[tokio::test]
async fn the_server_describes_itself() {
    let service = Service::start_with(&[
        ("MAX_ARCHIVE", "5m"),
        ("MAX_FILE", "6m"),
        ("MAX_SANDBOXES", "7"),
        ("RUNTIMES", "runsc"),
        ("DEFAULT_NETWORK", "none"),
    ])
    .await;
    let info = service.get("/api/v1/info").await;
    assert_eq!(info["version"], env!("CARGO_PKG_VERSION"));
    let features = info["features"].as_array().unwrap();
    for feature in ["sandboxes", "projects", "metadata", "rateLimitHeaders"] {
        assert!(features.contains(&json!(feature)), "{feature}: {info}");
    }
    assert_eq!(info["limits"]["archiveBytes"], 5 << 20);
    assert_eq!(info["limits"]["fileBytes"], 6 << 20);
    assert_eq!(info["limits"]["bodyBytes"], 2 << 20);
    assert_eq!(info["limits"]["batch"], 50);
    assert_eq!(info["limits"]["sandboxes"], 7);
    assert_eq!(info["limits"]["lifetimeSeconds"], 86400);
    assert_eq!(info["defaultNetwork"], "none");
    assert_eq!(info["runtimes"], json!(["runsc"]));
    let scopeless = key(&service, json!({"name": "none", "scopes": []})).await;
    let seen = send(
        &service,
        &scopeless,
        Method::GET,
        "/api/v1/info",
        Value::Null,
    )
    .await;
    assert_eq!(seen.status(), 200);
}

#[tokio::test]
async fn ordinary_keys_can_create_sixteen_sandboxes_at_once() {
    let service = Service::start().await;
    let plain = key(&service, json!({"name": "plain"})).await;
    assert_eq!(plain["limits"]["sandboxes"], 100, "{plain}");
    assert_eq!(plain["limits"]["createsPerMinute"], 60, "{plain}");
    let wish = json!({"template": "base"});
    let made = send(&service, &plain, Method::POST, "/api/v1/sandboxes", wish).await;
    let made: Value = made.json().await.unwrap();
    let path = format!("/api/v1/sandboxes/{}/fork", made["id"].as_str().unwrap());
    let forked = send(&service, &plain, Method::POST, &path, json!({"count": 16})).await;
    let policy = header(&forked, "ratelimit-policy").unwrap();
    assert_eq!(policy, "\"creates\";q=60;w=60");
    let state = header(&forked, "ratelimit").unwrap();
    let forked: Value = forked.json().await.unwrap();
    assert_eq!(
        forked["succeeded"].as_array().unwrap().len(),
        16,
        "{forked}"
    );
    // 60, less one and 16, and some for the time that has passed.
    let left = state.split_once("r=").unwrap().1.split_once(';').unwrap().0;
    let left: u32 = left.parse().unwrap();
    assert!((43..60).contains(&left), "{state}");
}

#[tokio::test]
async fn responses_have_the_state_of_the_rate_limits() {
    let service = Service::start().await;
    let limits = json!({"requestsPerMinute": 2, "createsPerMinute": 1});
    let slow = key(&service, json!({"name": "slow", "limits": limits})).await;
    let list = "/api/v1/sandboxes";
    let first = send(&service, &slow, Method::GET, list, Value::Null).await;
    let policy = "\"requests\";q=2;w=60";
    assert_eq!(header(&first, "ratelimit-policy").unwrap(), policy);
    let state = header(&first, "ratelimit").unwrap();
    assert_eq!(state, "\"requests\";r=1;t=30");
    // An error has the headers as well, also one for the rate itself.
    let missing = "/api/v1/sandboxes/sbx-none";
    let second = send(&service, &slow, Method::GET, missing, Value::Null).await;
    assert_eq!(second.status(), 404);
    let state = header(&second, "ratelimit").unwrap();
    assert!(state.starts_with("\"requests\";r=0;t="), "{state}");
    let third = send(&service, &slow, Method::GET, list, Value::Null).await;
    assert_eq!(third.status(), 429);
    assert_eq!(header(&third, "ratelimit-policy").unwrap(), policy);
    let refused: Value = third.json().await.unwrap();
    let error = &refused["error"];
    assert_eq!(error["details"]["resource"], "requestsPerMinute", "{error}");
    assert_eq!(error["details"]["limit"], 2, "{error}");
    let remedy = error["remediation"].as_str().unwrap();
    assert!(remedy.contains("RATE_REQUESTS"), "{remedy}");

    // Without a limit or a valid key, the response has no such header.
    let plain = service.request(Method::GET, list).send().await.unwrap();
    assert_eq!(header(&plain, "ratelimit"), None);
    let wrong = json!({"secret": "wrong"});
    let unknown = send(&service, &wrong, Method::GET, list, Value::Null).await;
    assert_eq!(unknown.status(), 401);
    assert_eq!(header(&unknown, "ratelimit"), None);
}

#[tokio::test]
async fn limits_name_the_way_to_raise_them() {
    let service = Service::start_with(&[("MAX_SANDBOXES", "2"), ("TENANT_PROJECTS", "1")]).await;
    let few = key(&service, json!({"name": "few", "limits": {"sandboxes": 1}})).await;
    let wish = json!({"template": "base"});
    let create = async |key: &Value| {
        let sent = send(
            &service,
            key,
            Method::POST,
            "/api/v1/sandboxes",
            wish.clone(),
        );
        sent.await.json::<Value>().await.unwrap()
    };
    create(&few).await;
    let owner = json!({"secret": crate::harness::KEY});
    let of_key = create(&few).await;
    create(&owner).await;
    let of_server = create(&owner).await;
    for (refused, limit, setting) in [
        (of_key, 1, "KEY_SANDBOXES"),
        (of_server, 2, "MAX_SANDBOXES"),
    ] {
        let error = &refused["error"];
        assert_eq!(error["name"], "SANDBOX_LIMIT_EXCEEDED", "{error}");
        assert_eq!(error["details"]["limit"], limit, "{error}");
        let remedy = error["remediation"].as_str().unwrap();
        assert!(remedy.contains(setting), "{remedy}");
    }
    service
        .post("/api/v1/projects", json!({"name": "one"}))
        .await;
    let wish = Some(json!({"name": "two"}));
    let refused = service
        .expect(Method::POST, "/api/v1/projects", wish, 429)
        .await;
    let error = &refused["error"];
    assert_eq!(error["name"], "QUOTA_EXCEEDED", "{error}");
    let remedy = error["remediation"].as_str().unwrap();
    assert!(remedy.contains("TENANT_PROJECTS"), "{remedy}");
}
