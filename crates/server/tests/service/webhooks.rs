//! Webhooks.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use axum::body::Bytes;
use axum::http::{HeaderMap, StatusCode};
use hmac::{Hmac, KeyInit, Mac};
use reqwest::Method;
use serde_json::{Value, json};
use sha2::Sha256;

use crate::harness::{Service, eventually};

const ALLOWED: &[(&str, &str)] = &[("WEBHOOK_ALLOW_PRIVATE", "true"), ("WEBHOOK_TIMEOUT", "2")];
const SECRET: &str = "a secret";

/// A receiver of webhooks.
#[derive(Clone, Default)]
struct Receiver {
    got: Arc<Mutex<Vec<Value>>>,
    /// Number of further requests that the receiver rejects.
    refuses: Arc<Mutex<usize>>,
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
        let mut mac = Hmac::<Sha256>::new_from_slice(SECRET.as_bytes()).unwrap();
        mac.update(body);
        let digits = mac.finalize().into_bytes();
        let digits: String = digits.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(headers["x-webhook-signature"], format!("sha256={digits}"));
        assert_eq!(headers["x-webhook-event"], event["event"].as_str().unwrap());
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
        let is_it = |event: &Value| event["event"] == kind && event["data"]["sandboxId"] == id;
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
