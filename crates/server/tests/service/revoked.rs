//! A key that was revoked, has expired or was replaced ends everything that was
//! opened with it.

use std::time::Duration;

use futures::{SinkExt, StreamExt};
use reqwest::{Method, Response};
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;

use crate::harness::{KEY, Service, Socket, eventually};
use crate::shared::{Ws, agent, file, project, write};

/// Long enough for any machine. A server that ignores the end of a key never
/// ends a stream.
const PATIENCE: Duration = Duration::from_secs(60);

struct Key {
    id: String,
    secret: String,
}

async fn key(service: &Service, more: Value) -> Key {
    let mut wish = json!({"name": "guest", "scopes":
        ["sandboxes:read", "sandboxes:write", "process", "files", "projects:read"]});
    let fields = more.as_object().unwrap().clone();
    wish.as_object_mut().unwrap().extend(fields);
    let made = service.expect(Method::POST, "/api/v1/keys", Some(wish), 201);
    let made = made.await;
    Key {
        id: made["id"].as_str().unwrap().to_owned(),
        secret: made["secret"].as_str().unwrap().to_owned(),
    }
}

async fn revoke(service: &Service, key: &str) {
    let url = format!("/api/v1/keys/{key}");
    service.expect(Method::DELETE, &url, None, 204).await;
}

/// A terminal, the output of a command and a stream of events.
struct Open {
    terminal: Socket,
    output: Response,
    events: Response,
}

impl Open {
    async fn with(service: &Service, id: &str, secret: &str) -> Self {
        let url = format!("/api/v1/sandboxes/{id}/pty");
        let wish = Some(service.inside(id, json!({"cols": 80, "rows": 24})));
        let made = service.expect_as(secret, Method::POST, &url, wish, 201);
        let made = made.await;
        let mut request = made["websocketUrl"]
            .as_str()
            .unwrap()
            .into_client_request()
            .unwrap();
        let bearer = format!("Bearer {secret}").parse().unwrap();
        request.headers_mut().insert("authorization", bearer);
        let terminal = tokio_tungstenite::connect_async(request).await.unwrap().0;
        let url = format!("{}/api/v1/sandboxes/{id}/process/run", service.url);
        let output = service.http.post(url).bearer_auth(secret);
        let command = json!({"command": "sleep 1000", "stream": true});
        let output = output.json(&service.inside(id, command));
        let output = output.send().await.unwrap();
        assert_eq!(output.status(), 200);
        let events = service.events_as(secret).await;
        Self {
            terminal,
            output,
            events,
        }
    }

    /// Waits for the end of all of them; returns the last output of the terminal
    /// and of the command.
    async fn ended(mut self) -> (String, String) {
        let mut said = String::new();
        let terminal = async {
            while let Some(Ok(message)) = self.terminal.next().await {
                match message {
                    Message::Text(text) => said = text.to_string(),
                    Message::Close(frame) => {
                        assert_eq!(u16::from(frame.unwrap().code), 4401);
                        break;
                    }
                    _ => {}
                }
            }
        };
        let ends = async { tokio::join!(terminal, self.output.text(), self.events.text()) };
        let ended = tokio::time::timeout(PATIENCE, ends).await;
        let (_, output, events) = ended.expect("streams end with their key");
        let events = events.unwrap();
        assert!(
            events.contains("event: error") && events.contains("UNAUTHORIZED"),
            "{events}"
        );
        (said, output.unwrap())
    }
}

#[tokio::test]
async fn streams_end_when_their_key_is_revoked() {
    let service = Service::start().await;
    let guest = key(&service, json!({})).await;
    let id = service.sandbox().await;
    let open = Open::with(&service, &id, &guest.secret).await;
    let mut others = Open::with(&service, &id, KEY).await;
    revoke(&service, &guest.id).await;
    let (terminal, output) = open.ended().await;
    assert!(terminal.contains("this key was revoked"), "{terminal}");
    assert!(output.contains("this key was revoked"), "{output}");
    for text in [terminal, output] {
        assert!(text.contains("\"name\":\"UNAUTHORIZED\""), "{text}");
    }
    // A terminal of another key continues.
    let ping = Message::Text(json!({"type": "ping"}).to_string().into());
    others.terminal.send(ping).await.unwrap();
    loop {
        let message = tokio::time::timeout(PATIENCE, others.terminal.next()).await;
        match message.unwrap().unwrap().unwrap() {
            Message::Text(text) if text.contains("pong") => break,
            Message::Close(_) => panic!("the terminal of another key was closed"),
            _ => {}
        }
    }
}

#[tokio::test]
async fn streams_end_when_their_key_expires() {
    let service = Service::start().await;
    let guest = key(&service, json!({"expiresInSeconds": 5})).await;
    let id = service.sandbox().await;
    let open = Open::with(&service, &id, &guest.secret).await;
    let (terminal, output) = open.ended().await;
    assert!(terminal.contains("this key has expired"), "{terminal}");
    assert!(output.contains("this key has expired"), "{output}");
}

#[tokio::test]
async fn a_workspace_of_an_agent_without_a_valid_key_is_not_merged() {
    let service = Service::start_without_engine(&[]);
    let (id, secret) = agent(&service, "alice").await;
    let project = project(&service, json!({}), &[("a", "first\n")]).await;
    let sync = json!({"mode": "regular", "seconds": 1});
    let wish = Some(json!({"project": project, "sync": sync}));
    let made = service.expect_as(&secret, Method::POST, "/api/v1/workspaces", wish, 201);
    let made = made.await;
    let ws = Ws {
        id: made["id"].as_str().unwrap().to_owned(),
        path: made["path"].as_str().unwrap().into(),
    };
    write(&ws, "before", "merged\n");
    eventually("the workspace is merged", async || {
        file(&service, &project, "before").await.is_some()
    })
    .await;
    let keys = service.get("/api/v1/keys").await;
    let keys = keys["items"].as_array().unwrap().iter();
    for key in keys.filter(|key| key["agent"] == *id) {
        revoke(&service, key["id"].as_str().unwrap()).await;
    }
    eventually("the sync pauses", async || {
        service.logged("all keys of its agent are revoked or expired")
    })
    .await;
    write(&ws, "after", "not merged\n");
    // The server checks the owner's workspace equally often, so its merges show
    // that enough time has passed.
    let wish = json!({"project": project, "sync": {"mode": "regular", "seconds": 1}});
    let clock = crate::shared::workspace(&service, wish).await;
    for name in ["one", "two", "three"] {
        write(&clock, name, "tick\n");
        eventually("the other workspace is merged", async || {
            file(&service, &project, name).await.is_some()
        })
        .await;
    }
    assert_eq!(file(&service, &project, "after").await, None);
    assert!(
        !ws.path.join("three").exists(),
        "it is not refreshed either"
    );

    // The agent gets another key, and the synchronization continues.
    let wish = json!({"name": "new", "agent": id, "scopes": ["projects:read"]});
    service.post("/api/v1/keys", wish).await;
    eventually("the sync goes on", async || {
        file(&service, &project, "after").await.is_some()
    })
    .await;
}

#[tokio::test]
async fn another_api_key_in_the_settings_revokes_the_former_one() {
    let mut service = Service::start_without_engine(&[]);
    service.expect_complaint("API_KEY is a revoked key");
    let made = key(&service, json!({})).await;
    service.stop();
    let other = "another-key-0123456789-0123456789-0123456789";
    service.set("API_KEY", other);
    service.run();
    let url = "/api/v1/keys";
    service.expect_as(other, Method::GET, url, None, 200).await;
    service.expect_as(KEY, Method::GET, url, None, 401).await;
    let url = "/api/v1/projects";
    service
        .expect_as(&made.secret, Method::GET, url, None, 200)
        .await;
    // The former key stays revoked, even if it is configured again.
    service.stop();
    service.set("API_KEY", KEY);
    service.run();
    service.expect_as(KEY, Method::GET, url, None, 401).await;
    eventually("the log warns", async || {
        service.logged("API_KEY is a revoked key")
    })
    .await;
}

#[tokio::test]
async fn an_agent_that_is_ended_has_no_key_left() {
    let service = Service::start_without_engine(&[]);
    let (id, _) = agent(&service, "guest").await;
    let keys = [
        key(&service, json!({"agent": id, "scopes": ["projects:read"]})).await,
        key(&service, json!({"agent": id, "scopes": ["projects:read"]})).await,
    ];
    let other = key(&service, json!({"scopes": ["projects:read"]})).await;
    let url = format!("/api/v1/agents/{id}");
    service.expect(Method::DELETE, &url, None, 204).await;
    for key in keys {
        service
            .expect_as(&key.secret, Method::GET, "/api/v1/projects", None, 401)
            .await;
    }
    service
        .expect_as(&other.secret, Method::GET, "/api/v1/projects", None, 200)
        .await;
    // The agent may get a new key.
    let again = key(&service, json!({"agent": id, "scopes": ["projects:read"]})).await;
    service
        .expect_as(&again.secret, Method::GET, "/api/v1/projects", None, 200)
        .await;
}
