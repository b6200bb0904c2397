//! Webhooks.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use axum::body::Bytes;
use axum::http::{HeaderMap, StatusCode};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use reqwest::Method;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::harness::{Service, eventually};

const ALLOWED: &[(&str, &str)] = &[("WEBHOOK_ALLOW_PRIVATE", "true"), ("WEBHOOK_TIMEOUT", "2")];
const SECRET: &str = "a secret";

/// HMAC-SHA256 as RFC 2104 defines it, independent of the server's library.
fn hmac(key: &[u8], message: &[u8]) -> Vec<u8> {
    let mut block = match key.len() {
        0..=64 => key.to_vec(),
        _ => Sha256::digest(key).to_vec(),
    };
    block.resize(64, 0);
    let padded = |byte: u8| block.iter().map(|it| it ^ byte).collect::<Vec<_>>();
    let inner = Sha256::digest([padded(0x36), message.to_vec()].concat());
    Sha256::digest([padded(0x5c), inner.to_vec()].concat()).to_vec()
}

/// The signature of Standard Webhooks.
fn standard(key: &[u8], id: &str, timestamp: &str, body: &[u8]) -> String {
    let signed = [id.as_bytes(), b".", timestamp.as_bytes(), b".", body].concat();
    format!("v1,{}", STANDARD.encode(hmac(key, &signed)))
}

#[test]
fn the_signature_is_that_of_the_example_of_the_specification() {
    let key = STANDARD.decode("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
    let body = br#"{"test": 2432232314}"#;
    let signature = standard(&key, "msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330", body);
    assert_eq!(signature, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
}

/// A receiver of webhooks.
#[derive(Clone)]
struct Receiver {
    got: Arc<Mutex<Vec<Value>>>,
    /// The ids and signatures of all requests, also of rejected ones.
    signed: Arc<Mutex<Vec<(String, String)>>>,
    /// The keys that sign, newest first.
    keys: Arc<Mutex<Vec<Vec<u8>>>>,
    /// Number of further requests that the receiver rejects.
    refuses: Arc<Mutex<usize>>,
}

impl Default for Receiver {
    fn default() -> Self {
        Self {
            got: Arc::default(),
            signed: Arc::default(),
            keys: Arc::new(Mutex::new(vec![SECRET.as_bytes().to_vec()])),
            refuses: Arc::default(),
        }
    }
}

impl Receiver {
    /// Listens on this machine; returns the address.
    async fn listen(&self) -> String {
        let receiver = self.clone();
        let take = async move |headers: HeaderMap, body: Bytes| receiver.take(&headers, &body);
        let router = axum::Router::new().route("/hook", axum::routing::post(take));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move { axum::serve(listener, router).await });
        format!("http://{address}/hook")
    }

    fn take(&self, headers: &HeaderMap, body: &[u8]) -> StatusCode {
        let event: Value = serde_json::from_slice(body).unwrap();
        let keys = self.keys.lock().unwrap().clone();
        let text = |name: &str| headers[name].to_str().unwrap();
        let (id, time) = (text("webhook-id"), text("webhook-timestamp"));
        let expected: Vec<_> = keys
            .iter()
            .map(|key| standard(key, id, time, body))
            .collect();
        assert_eq!(text("webhook-signature"), expected.join(" "));
        assert_eq!(id.rsplit('_').next().unwrap(), event["id"].to_string());
        let mut signed = self.signed.lock().unwrap();
        signed.push((id.to_owned(), text("webhook-signature").to_owned()));
        let digits = hmac(&keys[0], body);
        let digits: String = digits.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(headers["x-webhook-signature"], format!("sha256={digits}"));
        assert_eq!(headers["x-webhook-event"], event["kind"].as_str().unwrap());
        assert_eq!(headers["x-webhook-id"], event["id"].to_string());
        assert!(headers.contains_key("x-webhook-timestamp"));
        assert_eq!(headers["content-type"], "application/json");
        let mut refuses = self.refuses.lock().unwrap();
        if *refuses > 0 {
            *refuses -= 1;
            return StatusCode::SERVICE_UNAVAILABLE;
        }
        self.got.lock().unwrap().push(event);
        StatusCode::NO_CONTENT
    }

    fn got(&self) -> Vec<Value> {
        self.got.lock().unwrap().clone()
    }

    fn has(&self, id: &str, kind: &str) -> bool {
        let is_it = |event: &Value| event["kind"] == kind && event["data"]["sandboxId"] == id;
        self.got().iter().any(is_it)
    }

    /// Checks that the numbers ascend for each sandbox.
    fn assert_ordered(&self) {
        let mut last = HashMap::new();
        for event in self.got() {
            let subject = event["data"]["sandboxId"].as_str().unwrap().to_owned();
            let number = event["id"].as_u64().unwrap();
            let before = last.insert(subject, number);
            assert!(before.is_none_or(|before| before < number), "{event}");
        }
    }
}

async fn add(service: &Service, url: &str) -> String {
    let wish = json!({"url": url, "secret": SECRET});
    let made = service
        .expect(Method::POST, "/api/v1/webhooks", Some(wish), 201)
        .await;
    assert_eq!(made["signed"], true, "{made}");
    assert!(!made.to_string().contains(SECRET), "{made}");
    made["id"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn events_are_sent_signed_in_order_and_again() {
    let mut service = Service::start_with(ALLOWED).await;
    let receiver = Receiver::default();
    let hook = add(&service, &receiver.listen().await).await;
    // A receiver that does not respond delays no other.
    let dead = add(&service, "http://127.0.0.1:1/hook").await;
    *receiver.refuses.lock().unwrap() = 2;
    let ids = [service.sandbox().await, service.sandbox().await];
    for id in &ids {
        eventually("the event is delivered", async || {
            receiver.has(id, "sandbox.created")
        })
        .await;
    }
    receiver.assert_ordered();
    // Events are delivered even if the server is killed in between.
    *receiver.refuses.lock().unwrap() = 1;
    service.delete(&ids[0]).await;
    service.kill();
    service.run();
    eventually("the event is delivered", async || {
        receiver.has(&ids[0], "sandbox.deleted")
    })
    .await;
    let numbers: Vec<_> = receiver
        .got()
        .iter()
        .map(|event| event["id"].clone())
        .collect();
    let listed = service.get("/api/v1/events?limit=1000").await;
    for event in listed["items"].as_array().unwrap() {
        let is_told = async || {
            let got = receiver.got();
            got.iter().any(|got| got["id"] == event["id"])
        };
        eventually("every event is delivered", is_told).await;
    }

    // Deliveries are listed, and repeated on request.
    let path = format!("/api/v1/webhooks/{hook}/deliveries");
    let page = service
        .get(&format!("{path}?state=delivered&limit=1000"))
        .await;
    let delivered = page["items"].as_array().unwrap();
    let first = delivered
        .iter()
        .find(|one| one["event"]["id"] == numbers[0])
        .unwrap();
    assert_eq!(first["status"], 204, "{first}");
    let before = receiver.got().len();
    let replay = format!("{path}/{}/replay", numbers[0]);
    service.expect(Method::POST, &replay, None, 202).await;
    let is_again = async || {
        receiver.got()[before..]
            .iter()
            .any(|event| event["id"] == numbers[0])
    };
    eventually("it comes again", is_again).await;
    let replay = format!("{path}/999999/replay");
    service.expect(Method::POST, &replay, None, 404).await;

    let page = service
        .get(&format!("/api/v1/webhooks/{dead}/deliveries"))
        .await;
    let one = &page["items"].as_array().unwrap().last().unwrap();
    assert_ne!(one["state"], "delivered", "{one}");
    assert!(one["attempts"].as_u64() > Some(0), "{one}");
    let why = one["error"].as_str().unwrap();
    assert!(!why.contains("/hook"), "{why}");
    let path = format!("/api/v1/webhooks/{dead}");
    service.expect(Method::DELETE, &path, None, 204).await;
    service.expect(Method::DELETE, &path, None, 404).await;
    let list = service.get("/api/v1/webhooks").await;
    assert_eq!(list["items"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn an_undeliverable_event_fails_and_the_next_is_sent() {
    let settings = [ALLOWED, &[("WEBHOOK_RETRY", "1")]].concat();
    let service = Service::start_with(&settings).await;
    let receiver = Receiver::default();
    *receiver.refuses.lock().unwrap() = 2;
    let hook = add(&service, &receiver.listen().await).await;
    let id = service.sandbox().await;
    eventually("the other events are delivered", async || {
        receiver.has(&id, "sandbox.created")
    })
    .await;
    let path = format!("/api/v1/webhooks/{hook}/deliveries?state=failed");
    // The server records attempts after it has sent several events.
    let mut page = Value::Null;
    eventually("the failure is recorded", async || {
        page = service.get(&path).await;
        page["items"] != json!([])
    })
    .await;
    let failed = page["items"].as_array().unwrap();
    assert_eq!(failed.len(), 1, "{page}");
    assert_eq!(failed[0]["status"], 503, "{page}");
    assert_eq!(failed[0]["attempts"], 2, "{page}");
    receiver.assert_ordered();
}

#[tokio::test]
async fn nothing_is_sent_where_the_server_alone_could_reach() {
    let service = Service::start().await;
    for url in [
        "http://127.0.0.1:80/",
        "http://169.254.169.254/latest",
        "http://[::1]/",
        "http://10.0.0.1/",
        "http://2130706433/",
        "ftp://example.com/",
        "http://user:word@example.com/",
        "nothing",
    ] {
        let wish = Some(json!({"url": url}));
        service
            .expect(Method::POST, "/api/v1/webhooks", wish, 400)
            .await;
    }
    // The address of a host name is checked when the name is resolved.
    let receiver = Receiver::default();
    let url = receiver.listen().await.replace("127.0.0.1", "localhost");
    let hook = add(&service, &url).await;
    service.sandbox().await;
    let path = format!("/api/v1/webhooks/{hook}/deliveries");
    let mut page = Value::Null;
    eventually("it was tried", async || {
        page = service.get(&path).await;
        page["items"]
            .as_array()
            .unwrap()
            .iter()
            .any(|one| one["error"].is_string())
    })
    .await;
    assert!(page.to_string().contains("no public address"), "{page}");
    // The attempt is over, because its failure is recorded; the receiver got
    // nothing.
    assert!(receiver.got().is_empty());
    for _ in 1..20 {
        add(&service, &url).await;
    }
    let wish = Some(json!({"url": url}));
    let refused = service
        .expect(Method::POST, "/api/v1/webhooks", wish, 422)
        .await;
    assert_eq!(refused["error"]["name"], "RESOURCE_REFUSED", "{refused}");
    let hint = refused["error"]["remediation"].as_str().unwrap();
    assert!(hint.contains("Delete"), "{refused}");
}

#[tokio::test]
async fn the_webhook_of_the_settings_hears_of_all_tenants() {
    let receiver = Receiver::default();
    let url = receiver.listen().await;
    let own = [("WEBHOOK_URL", url.as_str()), ("WEBHOOK_SECRET", SECRET)];
    let service = Service::start_with(&[ALLOWED, &own].concat()).await;
    let made = service
        .post("/api/v1/tenants", json!({"name": "other"}))
        .await;
    let other = made["secret"].as_str().unwrap();
    let wish = Some(json!({"template": "base"}));
    let made = service
        .expect_as(other, Method::POST, "/api/v1/sandboxes", wish, 201)
        .await;
    let ids = [
        service.sandbox().await,
        made["id"].as_str().unwrap().to_owned(),
    ];
    for id in &ids {
        eventually("the event is delivered", async || {
            receiver.has(id, "sandbox.created")
        })
        .await;
    }
    let list = service.get("/api/v1/webhooks").await;
    assert_eq!(list["items"], json!([]), "no tenant owns it");
    let path = "/api/v1/webhooks/wh-settings";
    service.expect(Method::DELETE, path, None, 404).await;
}

/// Creates and deletes a sandbox, and waits until the receiver has its last event.
async fn deliver(service: &Service, receiver: &Receiver) {
    let id = service.sandbox().await;
    service.delete(&id).await;
    eventually("the event is delivered", async || {
        receiver.has(&id, "sandbox.deleted")
    })
    .await;
}

#[tokio::test]
async fn two_secrets_sign_during_a_rotation() {
    let mut service = Service::start_with(ALLOWED).await;
    let receiver = Receiver::default();
    let hook = add(&service, &receiver.listen().await).await;
    *receiver.refuses.lock().unwrap() = 1;
    deliver(&service, &receiver).await;
    // The attempts of one event have the same id.
    let signed = receiver.signed.lock().unwrap().clone();
    assert!(signed[0].0.starts_with(&hook), "{signed:?}");
    let attempts = signed.iter().filter(|(id, _)| *id == signed[0].0);
    assert_eq!(attempts.count(), 2, "{signed:?}");

    let path = format!("/api/v1/webhooks/{hook}");
    let rotated = service.post(&format!("{path}/rotate"), json!({})).await;
    let secret = rotated["secret"].as_str().unwrap().to_owned();
    let key = secret.strip_prefix("whsec_").unwrap();
    let key = STANDARD.decode(key).unwrap();
    assert_eq!(rotated["id"], hook, "{rotated}");
    assert!(rotated["previousUntil"].is_string(), "{rotated}");
    let shown = service.get(&path).await;
    assert!(!shown.to_string().contains(&secret), "{shown}");
    *receiver.keys.lock().unwrap() = vec![key.clone(), SECRET.as_bytes().to_vec()];
    deliver(&service, &receiver).await;

    // The previous secret is deleted when its time has passed.
    service.stop();
    service
        .sql("UPDATE webhooks SET previous_until = 1000000")
        .await;
    *receiver.keys.lock().unwrap() = vec![key];
    service.run();
    eventually("the previous secret is deleted", async || {
        service.get(&path).await["previousUntil"].is_null()
    })
    .await;
    deliver(&service, &receiver).await;

    let wish = json!({"secret": "another", "keepSeconds": 0});
    let rotated = service.post(&format!("{path}/rotate"), wish).await;
    assert!(rotated["secret"].is_null(), "{rotated}");
    assert!(rotated["previousUntil"].is_null(), "{rotated}");
    *receiver.keys.lock().unwrap() = vec![b"another".to_vec()];
    deliver(&service, &receiver).await;
}

#[tokio::test]
async fn a_webhook_is_shown_changed_and_listed_in_pages() {
    let service = Service::start_with(ALLOWED).await;
    let first = add(&service, "http://127.0.0.1:1/hook").await;
    let path = format!("/api/v1/webhooks/{first}");
    let receiver = Receiver::default();
    let change = json!({"url": receiver.listen().await, "kinds": ["sandbox.deleted"]});
    let changed = service
        .expect(Method::PATCH, &path, Some(change), 200)
        .await;
    assert_eq!(changed["kinds"], json!(["sandbox.deleted"]), "{changed}");
    assert_eq!(service.get(&path).await, changed);
    deliver(&service, &receiver).await;
    let kinds = receiver
        .got()
        .iter()
        .map(|event| event["kind"].clone())
        .collect::<Vec<_>>();
    assert_eq!(kinds, ["sandbox.deleted"]);

    let second = add(&service, "http://127.0.0.1:1/hook").await;
    let page = service.get("/api/v1/webhooks?limit=1").await;
    assert_eq!(page["items"][0]["id"], first, "{page}");
    let next = page["next"].as_str().unwrap();
    let page = service
        .get(&format!("/api/v1/webhooks?limit=5&cursor={next}"))
        .await;
    assert_eq!(page["items"].as_array().unwrap().len(), 1, "{page}");
    assert_eq!(page["items"][0]["id"], second, "{page}");
    assert!(page["next"].is_null(), "{page}");

    let rotate = format!("{path}/rotate");
    for (method, path, body) in [
        (Method::PATCH, &path, json!({"kinds": ["nothing"]})),
        (Method::PATCH, &path, json!({"url": "ftp://example.com"})),
        (Method::PATCH, &path, json!({"secret": "x"})),
        (Method::POST, &rotate, json!({"secret": "whsec_short"})),
        (Method::POST, &rotate, json!({"keepSeconds": 604_801})),
        (Method::POST, &rotate, json!({"secret": ""})),
    ] {
        service.expect(method, path, Some(body), 400).await;
    }
    for path in ["/api/v1/webhooks?cursor=x", "/api/v1/webhooks?limit=0"] {
        service.expect(Method::GET, path, None, 400).await;
    }
    let missing = service
        .expect(Method::GET, "/api/v1/webhooks/wh-none", None, 404)
        .await;
    assert_eq!(missing["error"]["name"], "WEBHOOK_NOT_FOUND", "{missing}");
}

#[tokio::test]
async fn deliveries_are_listed_in_pages() {
    let service = Service::start_with(ALLOWED).await;
    let receiver = Receiver::default();
    let hook = add(&service, &receiver.listen().await).await;
    deliver(&service, &receiver).await;
    let path = format!("/api/v1/webhooks/{hook}/deliveries");
    let all = service.get(&path).await;
    let ids = |page: &Value| -> Vec<u64> {
        let items = page["items"].as_array().unwrap().iter();
        items
            .map(|item| item["event"]["id"].as_u64().unwrap())
            .collect()
    };
    assert!(all["next"].is_null(), "{all}");
    let (mut found, mut query) = (Vec::new(), "limit=2".to_owned());
    loop {
        let page = service.get(&format!("{path}?{query}")).await;
        found.extend(ids(&page));
        match page["next"].as_str() {
            Some(next) => query = format!("limit=2&cursor={next}"),
            None => break,
        }
    }
    assert_eq!(found, ids(&all));
    for wrong in ["cursor=x", "state=other", "limit=0"] {
        let path = format!("{path}?{wrong}");
        service.expect(Method::GET, &path, None, 400).await;
    }
}
