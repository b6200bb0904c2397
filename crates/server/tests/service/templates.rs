//! Templates, and the images they need.

use reqwest::Method;
use reqwest::header::ACCEPT;
use serde_json::{Value, json};

use crate::harness::Service;

/// A registry that cannot be reached.
const NOWHERE: &str = "127.0.0.1:1/none";

/// Returns the last event of an addition whose progress is streamed.
async fn last_event(service: &Service, wish: Value) -> Value {
    let request = service.request(Method::POST, "/api/v1/templates");
    let request = request.header(ACCEPT, "text/event-stream").json(&wish);
    let answer = request.send().await.unwrap();
    assert_eq!(answer.status(), 200);
    assert_eq!(answer.headers()["content-type"], "text/event-stream");
    let text = answer.text().await.unwrap();
    let mut events = text.lines().filter_map(|line| line.strip_prefix("data: "));
    serde_json::from_str(events.next_back().unwrap()).unwrap()
}

#[tokio::test]
async fn a_template_is_added_followed_listed_and_removed() {
    let service = Service::start_bare(&[]);
    let wish = json!({"name": "mine", "image": service.image(), "description": "for tests", "tags": ["a"]});
    let done = last_event(&service, wish).await;
    assert_eq!(done["type"], "done", "{done}");
    let list = service.get("/api/v1/templates").await;
    assert_eq!(list["items"], json!([done["template"]]));
    assert_eq!(list["items"][0]["image"], json!(service.image()));
    assert!(list["items"][0]["size"].as_u64() > Some(0), "{list}");

    let path = "/api/v1/templates/mine";
    service.expect(Method::DELETE, path, None, 204).await;
    let missing = service.expect(Method::DELETE, path, None, 404).await;
    assert_eq!(missing["error"]["name"], "TEMPLATE_NOT_FOUND");
    let wish = Some(json!({"template": "mine"}));
    service
        .expect(Method::POST, "/api/v1/sandboxes", wish, 404)
        .await;
}

/// Tests that need a real container engine.
mod on_docker {
    use super::*;

    #[tokio::test]
    async fn an_image_that_cannot_be_had_makes_no_template() {
        let service = Service::with_docker_bare();
        let wish = json!({"name": "none", "image": NOWHERE});
        let refused = service
            .expect(Method::POST, "/api/v1/templates", Some(wish.clone()), 422)
            .await;
        assert_eq!(refused["error"]["name"], "IMAGE_UNAVAILABLE", "{refused}");
        let message = refused["error"]["message"].as_str().unwrap();
        assert!(message.contains(NOWHERE), "{refused}");
        let last = last_event(&service, wish).await;
        assert_eq!(last["type"], "error", "{last}");
        assert_eq!(last["error"]["name"], "IMAGE_UNAVAILABLE", "{last}");
        let list = service.get("/api/v1/templates").await;
        assert_eq!(list["items"], json!([]));
    }
}
