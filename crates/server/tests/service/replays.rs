//! Every route that accepts an `Idempotency-Key` honours it. The routes are those
//! of the API description, so that a new one must be covered here.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use elevo_testkit::docker;
use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};

use crate::harness::{Service, eventually};
use crate::shared::{Ws, at, project, workspace, write};

/// The resources that the requests name.
struct Things {
    sandbox: String,
    victim: String,
    snapshot: String,
    command: String,
    terminal: String,
    project: String,
    step: String,
    review: String,
    merged: Ws,
    completed: Ws,
    webhook: String,
    event: u64,
}

fn text(value: &Value) -> String {
    value
        .as_str()
        .unwrap_or_else(|| panic!("{value}"))
        .to_owned()
}

impl Things {
    async fn make(service: &Service) -> Self {
        let hook = json!({"url": "http://localhost:1/hook"});
        let webhook = text(&service.post("/api/v1/webhooks", hook).await["id"]);
        let rules = json!({"rules": [{"pattern": "core/**", "merge": "review"}]});
        let project = project(service, rules, &[("file", "one")]).await;
        let held = workspace(service, json!({"project": project})).await;
        write(&held, "core/secret", "mine");
        write(&held, "file", "two");
        let landed = service
            .expect(Method::POST, &at(&held, "merge"), None, 200)
            .await;
        let [merged, completed] = [
            workspace(service, json!({"project": project})).await,
            workspace(service, json!({"project": project})).await,
        ];
        write(&merged, "merged", "content");
        write(&completed, "completed", "content");
        let [sandbox, victim] = [service.sandbox().await, service.sandbox().await];
        let of = |what: &str| format!("/api/v1/sandboxes/{sandbox}/{what}");
        let taken = service.post(&of("snapshot"), json!({})).await;
        let wish = json!({"command": "cat", "background": true, "openStdin": true});
        let wish = service.inside(&sandbox, wish);
        let command = service.post(&of("process/run"), wish).await;
        let size = service.inside(&sandbox, json!({"cols": 80, "rows": 24}));
        let terminal = service.post(&of("pty"), size).await;
        Self {
            victim,
            snapshot: text(&taken["id"]),
            command: text(&command["commandId"]),
            terminal: text(&terminal["id"]),
            step: text(&landed["head"]),
            review: text(&landed["conflicts"][0]["reviewId"]),
            event: delivery(service, &webhook).await,
            sandbox,
            project,
            merged,
            completed,
            webhook,
        }
    }

    fn path(&self, route: &str) -> String {
        let id = match route.split('/').nth(3).unwrap_or_default() {
            "projects" => &self.project,
            "reviews" => &self.review,
            "webhooks" => &self.webhook,
            "workspaces" if route.ends_with("/complete") => &self.completed.id,
            "workspaces" => &self.merged.id,
            _ => &self.sandbox,
        };
        let query = match route.ends_with("/files") {
            true => "?path=uploaded",
            false => "",
        };
        let path = format!("{route}{query}");
        path.replace("{id}", id)
            .replace("{cmdId}", &self.command)
            .replace("{ptyId}", &self.terminal)
            .replace("{event}", &self.event.to_string())
            .replace("{port}", "3000")
            .replace("{name}", "loaded")
    }

    /// Adds a body that the route accepts.
    fn body(&self, service: &Service, route: &str, request: RequestBuilder) -> RequestBuilder {
        let inside = |wish: Value| service.inside(&self.sandbox, wish);
        let body = match route.strip_prefix("/api/v1/").unwrap() {
            "sandboxes" => json!({"template": "base"}),
            "sandboxes/batch-delete" => json!({"ids": [self.victim]}),
            "sandboxes/{id}/extend" => json!({"seconds": 1}),
            "sandboxes/{id}/restore" => json!({"snapshot": self.snapshot}),
            "sandboxes/{id}/process/run" => inside(json!({"command": "echo run >> log; cat log"})),
            "sandboxes/{id}/process/{cmdId}/input" => json!({"data": STANDARD.encode("x")}),
            "sandboxes/{id}/process/{cmdId}/kill" => json!({"signal": 10}),
            "sandboxes/{id}/pty" => inside(json!({"cols": 80, "rows": 24})),
            "sandboxes/{id}/pty/{ptyId}/resize" => json!({"cols": 90, "rows": 30}),
            "sandboxes/{id}/fork" | "sandboxes/{id}/snapshot" => json!({}),
            "sandboxes/{id}/start" | "sandboxes/{id}/stop" => return request,
            "tickets" => json!({"path": "/api/v1/events"}),
            "sandboxes/{id}/ports/{port}/link" => json!({"expiresIn": 60}),
            "snapshots"
            | "sandboxes/{id}/archive"
            | "projects/{id}/archive"
            | "workspaces/{id}/archive" => {
                return request.body(tar());
            }
            "templates/{name}/archive" => {
                return request.body(docker::image_archive("elevo-test/replayed:1"));
            }
            "sandboxes/{id}/files" | "workspaces/{id}/files" => return request.body("content"),
            "sandboxes/{id}/files/move" | "workspaces/{id}/files/move" => {
                json!({"from": "uploaded", "to": "moved"})
            }
            "sandboxes/{id}/files/mkdir" | "workspaces/{id}/files/mkdir" => {
                json!({"path": "made"})
            }
            "projects" => json!({"name": "another"}),
            "projects/{id}/apply" => json!({"files": [{"path": "applied", "content": "one"}]}),
            "projects/{id}/import" => json!({"snapshot": self.snapshot, "path": "imported"}),
            "projects/{id}/policy" => json!({"policy": {}}),
            "projects/{id}/restore" => json!({"snapshot": self.step, "path": "file"}),
            "projects/{id}/merge" => json!({"workspaces": [self.merged.id], "atomic": true}),
            "projects/{id}/revert" => json!({"snapshot": self.step}),
            "projects/{id}/tags" => json!({"name": "v1"}),
            // The other route decides the review.
            "reviews/resolve" => json!({"items": [{"id": "rev-none", "take": "project"}]}),
            "reviews/{id}/resolve" => json!({"take": "workspace"}),
            "templates" => json!({"name": "other", "image": service.image()}),
            "webhooks" => json!({"url": "http://localhost:1/other"}),
            "webhooks/{id}/rotate" => json!({"keepSeconds": 60}),
            "webhooks/{id}/deliveries/{event}/replay" => return request,
            "workspaces" => json!({"project": self.project}),
            "workspaces/{id}/complete" | "workspaces/{id}/merge" => json!({"message": route}),
            "workspaces/{id}/refresh" | "gc" => json!({}),
            "workspaces/{id}/fork" | "workspaces/{id}/snapshot" => json!({}),
            "workspaces/{id}/restore" => json!({"snapshot": self.snapshot}),
            "workspaces/{id}/park" | "workspaces/{id}/resume" => return request,
            "keys" | "agents" | "tenants" => json!({"name": "another"}),
            _ => panic!("{route} is new: say here how it is asked for"),
        };
        request.json(&body)
    }
}

async fn delivery(service: &Service, webhook: &str) -> u64 {
    let path = format!("/api/v1/webhooks/{webhook}/deliveries");
    let mut event = None;
    eventually("something is delivered", async || {
        let list = service.get(&path).await;
        event = list["items"][0]["event"]["id"].as_u64();
        event.is_some()
    })
    .await;
    event.unwrap()
}

fn tar() -> Vec<u8> {
    let mut tar = tar::Builder::new(Vec::new());
    let mut header = tar::Header::new_gnu();
    header.set_size(7);
    header.set_mode(0o644);
    tar.append_data(&mut header, "packed", &b"content"[..])
        .unwrap();
    tar.into_inner().unwrap()
}

/// Returns the routes with the parameter; every `POST` and `PUT` has it.
fn routes() -> Vec<(Method, String)> {
    let api: Value = serde_json::from_str(&elevo_server::openapi_json()).unwrap();
    let mut routes = Vec::new();
    for (path, methods) in api["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            let parameters = operation["parameters"].as_array().cloned();
            let mut parameters = parameters.unwrap_or_default().into_iter();
            let has_it = parameters.any(|one| one["name"] == "Idempotency-Key");
            let is_change = matches!(method.as_str(), "post" | "put");
            assert_eq!(has_it, is_change, "{method} {path}");
            if has_it {
                let method = method.to_uppercase().parse().unwrap();
                routes.push((method, path.clone()));
            }
        }
    }
    // Other routes need the sandbox that the first of these stops and the workspace
    // that the second parks.
    routes.sort_by_key(|(_, path)| {
        let last = path.rsplit('/').next().unwrap_or_default();
        ["stop", "park", "resume"]
            .iter()
            .position(|one| *one == last)
    });
    routes
}

struct Answer {
    status: u16,
    body: String,
    is_replayed: bool,
}

async fn ask(service: &Service, things: &Things, (method, route): &(Method, String)) -> Answer {
    let request = service.request(method.clone(), &things.path(route));
    let request = request.header("Idempotency-Key", "key");
    let answer = things.body(service, route, request).send().await.unwrap();
    Answer {
        status: answer.status().as_u16(),
        is_replayed: answer.headers().contains_key("idempotency-replayed"),
        body: answer.text().await.unwrap(),
    }
}

#[tokio::test]
async fn every_route_with_the_parameter_replays() {
    let service = Service::start_with(&[("WEBHOOK_ALLOW_PRIVATE", "true")]).await;
    let things = Things::make(&service).await;
    for route in routes() {
        let first = ask(&service, &things, &route).await;
        assert!(
            (200..300).contains(&first.status),
            "{route:?}: {}",
            first.body
        );
        assert!(!first.is_replayed, "{route:?}");
        let second = ask(&service, &things, &route).await;
        // The catalog stores no tickets and no links; a retry creates another one.
        if route.1.ends_with("/tickets") || route.1.ends_with("/link") {
            assert!(!second.is_replayed, "{route:?}");
            // Links with the same expiry are equal.
            assert!(second.body != first.body || route.1.ends_with("/link"));
            continue;
        }
        assert!(second.is_replayed, "{route:?}: {}", second.body);
        assert_eq!(second.status, first.status, "{route:?}");
        let [first, second] = [first, second].map(|answer| without_secret(&answer.body));
        assert_eq!(second, first, "{route:?}");
    }
    let path = format!("/api/v1/projects/{}/steps", things.project);
    let log = service.get(&path).await;
    let steps = log["items"].as_array().unwrap();
    let kinds = |kind: &str| steps.iter().filter(|step| step["kind"] == kind).count();
    let expected = [("apply", 1), ("import", 1), ("archive", 1), ("resolve", 1)];
    for (kind, count) in expected {
        assert_eq!(kinds(kind), count, "{kind}: {log}");
    }
}

/// A secret is shown only once.
fn without_secret(body: &str) -> Value {
    let mut body: Value = serde_json::from_str(body).unwrap_or_default();
    if let Some(fields) = body.as_object_mut() {
        fields.remove("secret");
    }
    body
}
