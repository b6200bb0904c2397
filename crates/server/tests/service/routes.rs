//! Every route, without a key, with a wrong one, with another tenant's and with
//! another agent's. The routes are those of the API description, so a new one is
//! covered automatically.

use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};

use crate::harness::Service;

/// Routes that need no key.
const OPEN: &[&str] = &["/health", "/ready"];

/// Routes without a sandbox in their path, each with the status for another
/// tenant's key with all scopes of an owner, and for another agent's key.
const OF_THE_TENANT: &[(&str, &str, u16, u16)] = &[
    ("get", "/api/v1/sandboxes", 200, 200),
    ("post", "/api/v1/sandboxes", 404, 404),
    ("post", "/api/v1/sandboxes/batch-delete", 200, 200),
    ("post", "/api/v1/snapshots", 201, 201),
    ("get", "/api/v1/snapshots", 200, 200),
    ("get", "/api/v1/snapshots/{id}", 404, 404),
    ("patch", "/api/v1/snapshots/{id}", 404, 404),
    ("get", "/api/v1/snapshots/diff", 404, 404),
    ("get", "/api/v1/templates", 200, 200),
    ("post", "/api/v1/templates", 403, 403),
    ("delete", "/api/v1/templates/{name}", 403, 403),
    ("put", "/api/v1/templates/{name}/archive", 403, 403),
    ("get", "/api/v1/keys", 200, 200),
    ("post", "/api/v1/keys", 201, 403),
    ("delete", "/api/v1/keys/{id}", 404, 404),
    ("post", "/api/v1/tickets", 201, 201),
    ("get", "/api/v1/agents", 200, 200),
    ("post", "/api/v1/agents", 201, 403),
    ("get", "/api/v1/tenants", 403, 403),
    ("delete", "/api/v1/agents/{id}", 404, 403),
    ("post", "/api/v1/tenants", 403, 403),
    ("patch", "/api/v1/tenants/{id}", 403, 403),
    ("delete", "/api/v1/tenants/{id}", 403, 403),
    ("get", "/api/v1/projects", 200, 200),
    ("post", "/api/v1/projects", 201, 403),
    ("get", "/api/v1/projects/{id}", 404, 200),
    ("patch", "/api/v1/projects/{id}", 404, 403),
    ("delete", "/api/v1/projects/{id}", 404, 403),
    ("get", "/api/v1/projects/{id}/policy", 404, 403),
    ("put", "/api/v1/projects/{id}/policy", 404, 403),
    ("get", "/api/v1/projects/{id}/tags", 404, 200),
    ("post", "/api/v1/projects/{id}/tags", 404, 201),
    ("delete", "/api/v1/projects/{id}/tags/{name}", 404, 404),
    ("get", "/api/v1/projects/{id}/steps", 404, 200),
    ("get", "/api/v1/projects/{id}/steps/{step}", 404, 200),
    (
        "get",
        "/api/v1/projects/{id}/steps/{step}/changes",
        404,
        200,
    ),
    ("get", "/api/v1/projects/{id}/history", 404, 200),
    ("get", "/api/v1/projects/{id}/blame", 404, 404),
    ("get", "/api/v1/projects/{id}/files", 404, 404),
    ("get", "/api/v1/projects/{id}/files/list", 404, 200),
    ("get", "/api/v1/snapshots/{id}/files", 404, 404),
    ("get", "/api/v1/snapshots/{id}/files/list", 404, 404),
    ("get", "/api/v1/snapshots/{id}/archive", 404, 404),
    ("get", "/api/v1/projects/{id}/diff", 404, 200),
    ("post", "/api/v1/projects/{id}/apply", 404, 200),
    ("post", "/api/v1/projects/{id}/merge", 404, 200),
    ("post", "/api/v1/projects/{id}/revert", 404, 404),
    ("post", "/api/v1/projects/{id}/restore", 404, 404),
    ("post", "/api/v1/projects/{id}/import", 404, 404),
    ("get", "/api/v1/projects/{id}/archive", 404, 200),
    ("put", "/api/v1/projects/{id}/archive", 404, 422),
    ("get", "/api/v1/events", 200, 200),
    ("get", "/api/v1/webhooks", 200, 403),
    ("post", "/api/v1/webhooks", 201, 403),
    ("get", "/api/v1/webhooks/{id}", 404, 403),
    ("patch", "/api/v1/webhooks/{id}", 404, 403),
    ("delete", "/api/v1/webhooks/{id}", 404, 403),
    ("post", "/api/v1/webhooks/{id}/rotate", 404, 403),
    ("get", "/api/v1/webhooks/{id}/deliveries", 404, 403),
    (
        "post",
        "/api/v1/webhooks/{id}/deliveries/{event}/replay",
        404,
        403,
    ),
    ("get", "/api/v1/workspaces", 200, 200),
    ("post", "/api/v1/workspaces", 404, 201),
    ("get", "/api/v1/workspaces/{id}", 404, 404),
    ("delete", "/api/v1/workspaces/{id}", 404, 404),
    ("post", "/api/v1/workspaces/{id}/merge", 404, 404),
    ("post", "/api/v1/workspaces/{id}/complete", 404, 404),
    ("post", "/api/v1/workspaces/{id}/refresh", 404, 404),
    ("get", "/api/v1/workspaces/{id}/diff", 404, 404),
    ("post", "/api/v1/workspaces/{id}/snapshot", 404, 404),
    ("post", "/api/v1/workspaces/{id}/fork", 404, 404),
    ("post", "/api/v1/workspaces/{id}/restore", 404, 404),
    ("get", "/api/v1/workspaces/{id}/archive", 404, 404),
    ("put", "/api/v1/workspaces/{id}/archive", 404, 404),
    ("get", "/api/v1/workspaces/{id}/files", 404, 404),
    ("put", "/api/v1/workspaces/{id}/files", 404, 404),
    ("delete", "/api/v1/workspaces/{id}/files", 404, 404),
    ("get", "/api/v1/workspaces/{id}/files/list", 404, 404),
    ("post", "/api/v1/workspaces/{id}/files/move", 404, 404),
    ("post", "/api/v1/workspaces/{id}/files/mkdir", 404, 404),
    ("get", "/api/v1/workspaces/{id}/files/watch", 404, 404),
    ("post", "/api/v1/workspaces/{id}/park", 404, 404),
    ("post", "/api/v1/workspaces/{id}/resume", 404, 404),
    ("get", "/api/v1/reviews", 200, 200),
    // Hidden from the second agent by the policy.
    ("get", "/api/v1/reviews/{id}", 404, 404),
    ("get", "/api/v1/reviews/{id}/content", 404, 404),
    ("post", "/api/v1/reviews/{id}/resolve", 404, 404),
    ("post", "/api/v1/reviews/resolve", 200, 200),
    ("get", "/api/v1/me", 200, 200),
    ("get", "/api/v1/info", 200, 200),
    ("get", "/api/v1/stats", 403, 403),
    ("get", "/api/v1/gc", 403, 403),
    ("post", "/api/v1/gc", 403, 403),
];

/// An address to which the server sends nothing, because it is not public.
const NOWHERE: &str = "http://localhost:1/hook";

struct Route {
    method: String,
    path: String,
}

fn routes() -> Vec<Route> {
    let api: Value = serde_json::from_str(&elevo_server::openapi_json()).unwrap();
    let mut routes = Vec::new();
    for (path, methods) in api["paths"].as_object().unwrap() {
        for method in methods.as_object().unwrap().keys() {
            routes.push(Route {
                method: method.clone(),
                path: path.clone(),
            });
        }
    }
    assert!(routes.len() > 35, "{}", routes.len());
    routes
}

/// Builds a request that would change something, were it allowed.
fn request(service: &Service, route: &Route, ids: &Ids, template: &str) -> RequestBuilder {
    let sandbox = &ids.sandbox;
    let path = route
        .path
        .replace("{cmdId}", "cmd-1")
        .replace("{ptyId}", "pty-1")
        .replace("{event}", "1")
        .replace("{port}", "1")
        .replace("{path}", "page")
        .replace("{name}", "base");
    let path = match route.path.as_str() {
        "/api/v1/keys/{id}" => path.replace("{id}", &ids.key),
        "/api/v1/agents/{id}" => path.replace("{id}", "agt-none"),
        _ if path.starts_with("/api/v1/projects/") => {
            path.replace("{id}", &ids.project).replace("{step}", "1")
        }
        _ if path.starts_with("/api/v1/workspaces/") => path.replace("{id}", &ids.workspace),
        _ if path.starts_with("/api/v1/snapshots/") => path.replace("{id}", &ids.snapshot),
        _ if path.starts_with("/api/v1/webhooks/") => path.replace("{id}", &ids.webhook),
        _ if path.starts_with("/api/v1/reviews/") => path.replace("{id}", &ids.review),
        _ => path.replace("{id}", sandbox),
    };
    let method: Method = route.method.to_uppercase().parse().unwrap();
    let request = service
        .http
        .request(method, format!("{}{path}", service.url));
    let request = match route.path.rsplit('/').next().unwrap() {
        "history" | "blame" | "files" => request.query(&[("path", "core/secret")]),
        "content" => request.query(&[("side", "workspace")]),
        "diff" if route.path.contains("/snapshots/") => {
            request.query(&[("from", &ids.snapshot), ("to", &ids.snapshot)])
        }
        _ => request,
    };
    let body = match route.path.rsplit('/').next().unwrap() {
        "projects" if route.method == "post" => json!({"name": "another"}),
        "workspaces" if route.method == "post" => json!({"project": ids.project}),
        "webhooks" if route.method == "post" => json!({"url": NOWHERE}),
        "tags" if route.method == "post" => json!({"name": "v1"}),
        "policy" if route.method == "put" => json!({"policy": {}}),
        "{id}" if path.starts_with("/api/v1/webhooks/") && route.method == "patch" => {
            json!({"url": NOWHERE})
        }
        "rotate" => json!({}),
        "{id}" if route.method == "patch" => json!({"name": "another"}),
        "resolve" if !route.path.contains("{id}") => {
            json!({"items": [{"id": ids.review, "take": "workspace"}]})
        }
        "resolve" => json!({"take": "workspace"}),
        "merge" if route.path.contains("projects") => json!({"workspaces": [ids.workspace]}),
        "merge" | "complete" | "refresh" => json!({}),
        "apply" => json!({"files": [{"path": "core/secret", "content": "mine"}]}),
        "revert" | "import" => json!({"snapshot": "0".repeat(64)}),
        "restore" if route.path.contains("projects") => {
            json!({"snapshot": "0".repeat(64), "path": "x"})
        }
        "sandboxes" if route.method == "post" => json!({"template": template}),
        "batch-delete" => json!({"ids": [sandbox]}),
        "extend" => json!({"seconds": 1}),
        "restore" => json!({"snapshot": "0".repeat(64)}),
        "run" => service.inside(sandbox, json!({"command": "touch /workspace/broken-in"})),
        "input" => json!({"data": ""}),
        "resize" => json!({"cols": 1, "rows": 1}),
        "pty" => json!({"cols": 80, "rows": 24}),
        "templates" if route.method == "post" => json!({"name": "evil"}),
        "tickets" => json!({"path": "/api/v1/events"}),
        "keys" | "agents" | "tenants" if route.method == "post" => json!({"name": "another"}),
        "fork" | "snapshot" | "kill" | "link" => json!({}),
        "ws" => {
            let headers = [
                ("connection", "upgrade"),
                ("upgrade", "websocket"),
                ("sec-websocket-version", "13"),
                ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
            ];
            return headers.into_iter().fold(request, |request, (name, value)| {
                request.header(name, value)
            });
        }
        "files" if route.method == "put" => return request.body("mine"),
        "move" => json!({"from": "core/secret", "to": "moved"}),
        "mkdir" => json!({"path": "made"}),
        "archive" if route.method == "put" => return request.body(vec![0; 1024]),
        "snapshots" if route.method == "post" => return request.body(vec![0; 1024]),
        _ => return request,
    };
    request.json(&body)
}

/// The resources that the requests are about.
struct Ids {
    sandbox: String,
    key: String,
    project: String,
    workspace: String,
    review: String,
    webhook: String,
    snapshot: String,
}

impl Ids {
    /// Creates a project and, with a key, a workspace on it that is in review.
    async fn make(
        service: &Service,
        sandbox: &str,
        key: &str,
        agent: Option<(&str, &str)>,
    ) -> Self {
        let of_agent = agent.map(|(id, _)| json!([id]));
        let mut rules = vec![json!({"pattern": "core/**", "merge": "review"})];
        if let Some(agents) = of_agent {
            rules.push(json!({"pattern": "core/**", "access": "none"}));
            rules.push(json!({"pattern": "core/**", "agents": agents, "access": "rw"}));
        }
        let project = service
            .post(
                "/api/v1/projects",
                json!({"name": "p", "policy": {"rules": rules}}),
            )
            .await;
        let project = project["id"].as_str().unwrap().to_owned();
        let maker = agent.map_or(crate::harness::KEY, |(_, key)| key);
        let wish = Some(json!({"project": project}));
        let made = service
            .expect_as(maker, Method::POST, "/api/v1/workspaces", wish, 201)
            .await;
        let workspace = made["id"].as_str().unwrap().to_owned();
        let files = std::path::Path::new(made["path"].as_str().unwrap());
        std::fs::create_dir(files.join("core")).unwrap();
        std::fs::write(files.join("core/secret"), "held").unwrap();
        let url = format!("/api/v1/workspaces/{workspace}/snapshot");
        let taken = service
            .expect_as(maker, Method::POST, &url, None, 201)
            .await;
        let url = format!("/api/v1/workspaces/{workspace}/merge");
        let merged = service
            .expect_as(maker, Method::POST, &url, None, 200)
            .await;
        let review = merged["conflicts"][0]["reviewId"]
            .as_str()
            .unwrap()
            .to_owned();
        let webhook = service
            .post("/api/v1/webhooks", json!({"url": NOWHERE}))
            .await;
        Self {
            webhook: webhook["id"].as_str().unwrap().to_owned(),
            sandbox: sandbox.to_owned(),
            key: key.to_owned(),
            project,
            workspace,
            review,
            snapshot: taken["id"].as_str().unwrap().to_owned(),
        }
    }
}

#[tokio::test]
async fn no_route_answers_without_a_good_key() {
    let service = Service::start().await;
    let id = service.sandbox().await;
    let ids = Ids::make(&service, &id, "key-1", None).await;
    for route in routes() {
        let is_open = OPEN.contains(&route.path.as_str());
        let name = format!("{} {}", route.method, route.path);
        let expected = if is_open { 200 } else { 401 };
        let plain = request(&service, &route, &ids, "base")
            .send()
            .await
            .unwrap();
        assert_eq!(plain.status(), expected, "without a key: {name}");
        for wrong in [
            "wrong",
            "elv_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
            "\u{e4}",
        ] {
            let answer = request(&service, &route, &ids, "base")
                .bearer_auth(wrong)
                .send()
                .await
                .unwrap();
            assert_eq!(answer.status(), expected, "with a wrong key: {name}");
            if !is_open {
                let body: Value = answer.json().await.unwrap();
                assert_eq!(body["error"]["name"], "UNAUTHORIZED", "{name}");
            }
        }
    }
    let seen = service.output_of(&id, "ls /workspace").await;
    assert_eq!(seen, "");
}

/// Creates an agent; returns its id and a key of it.
async fn agent(service: &Service, name: &str) -> (String, String) {
    let wish = Some(json!({"name": name}));
    let made = service.expect(Method::POST, "/api/v1/agents", wish, 201);
    let agent = made.await["id"].as_str().unwrap().to_owned();
    let scopes = [
        "sandboxes:read",
        "sandboxes:write",
        "process",
        "files",
        "keys",
        "projects:read",
        "projects:write",
        "reviews",
    ];
    let wish = json!({"name": name, "agent": agent, "limits": {}, "scopes": scopes});
    let made = service.expect(Method::POST, "/api/v1/keys", Some(wish), 201);
    let key = made.await["secret"].as_str().unwrap().to_owned();
    (agent, key)
}

/// Returns the statuses of a route for another tenant and another agent.
fn statuses(route: &Route) -> (u16, u16) {
    let mut of_tenant = OF_THE_TENANT.iter();
    let of_tenant =
        of_tenant.find(|(method, path, ..)| *method == route.method && *path == route.path);
    match of_tenant {
        Some((_, _, for_tenant, for_agent)) => (*for_tenant, *for_agent),
        None if route.path.starts_with("/api/v1/sandboxes/{id}") => (404, 404),
        None => panic!("{} {} is in no list", route.method, route.path),
    }
}

/// Sends a request with the key of another tenant or agent, and checks that the
/// response shows nothing.
async fn is_refused(
    service: &Service,
    route: &Route,
    ids: &Ids,
    (whose, key): (&str, &str),
    expected: u16,
) {
    let sent = request(service, route, ids, "none").bearer_auth(key).send();
    let answer = sent.await.unwrap();
    let status = answer.status().as_u16();
    let text = answer.text().await.unwrap();
    let what = format!(
        "{} {} with another {whose}'s key: {text}",
        route.method, route.path
    );
    assert_eq!(status, expected, "{what}");
    assert!(!text.contains("\"template\":\"base\""), "{what}");
}

#[tokio::test]
async fn no_route_shows_or_changes_what_is_anothers() {
    let service = Service::start().await;
    let keys = service.get("/api/v1/keys").await;
    let key_id = keys["items"][0]["id"].as_str().unwrap().to_owned();
    let wish = Some(json!({"name": "other"}));
    let tenant = service.expect(Method::POST, "/api/v1/tenants", wish, 201);
    let tenant = tenant.await["secret"].as_str().unwrap().to_owned();
    // Two agents of one tenant, and a sandbox of the first.
    let (first, own_key) = agent(&service, "one").await;
    let (_, second) = agent(&service, "two").await;
    let wish = Some(json!({"template": "base"}));
    let made = service.expect_as(&own_key, Method::POST, "/api/v1/sandboxes", wish, 201);
    let id = made.await["id"].as_str().unwrap().to_owned();
    let ids = Ids::make(&service, &id, &key_id, Some((&first, &own_key))).await;
    let own = format!("/api/v1/sandboxes/{id}");
    service
        .expect_as(&own_key, Method::GET, &own, None, 200)
        .await;

    for route in routes() {
        if OPEN.contains(&route.path.as_str()) {
            continue;
        }
        let (for_tenant, for_agent) = statuses(&route);
        is_refused(&service, &route, &ids, ("tenant", &tenant), for_tenant).await;
        is_refused(&service, &route, &ids, ("agent", &second), for_agent).await;
    }
    let batch = Some(json!({"ids": [id]}));
    let path = "/api/v1/sandboxes/batch-delete";
    let refused = service.expect_as(&second, Method::POST, path, batch, 200);
    assert_eq!(refused.await["succeeded"], json!([]));
    let seen = service.output_of(&id, "ls /workspace").await;
    assert_eq!(seen, "", "nothing was done to it");
}
