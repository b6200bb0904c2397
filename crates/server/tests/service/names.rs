//! Names of sandboxes, workspaces, projects and agents stand for their ids.

use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::Service;

fn id(made: &Value) -> String {
    made["id"]
        .as_str()
        .unwrap_or_else(|| panic!("{made}"))
        .to_owned()
}

/// A service with an agent, a project, a workspace and a sandbox, each with a
/// name.
struct Named {
    service: Service,
    agent: String,
    project: String,
    workspace: String,
    sandbox: String,
}

impl Named {
    async fn start() -> Self {
        let service = Service::start().await;
        let agent = service.post("/api/v1/agents", json!({"name": "ada"})).await;
        let project = service
            .post("/api/v1/projects", json!({"name": "site"}))
            .await;
        let wish = json!({"project": "site", "agent": "ada", "name": "fix"});
        let workspace = service.post("/api/v1/workspaces", wish).await;
        let wish = json!({"template": "base", "name": "try one"});
        let sandbox = service.post("/api/v1/sandboxes", wish).await;
        Self {
            agent: id(&agent),
            project: id(&project),
            workspace: id(&workspace),
            sandbox: id(&sandbox),
            service,
        }
    }

    async fn key_of(&self, agent: &str) -> String {
        let scopes = [
            "sandboxes:read",
            "sandboxes:write",
            "projects:read",
            "projects:write",
        ];
        let wish = json!({"name": "a key", "agent": agent, "scopes": scopes});
        let made = self.service.post("/api/v1/keys", wish).await;
        made["secret"].as_str().unwrap().to_owned()
    }
}

#[tokio::test]
async fn a_name_is_accepted_in_paths_bodies_and_queries() {
    let named = Named::start().await;
    let service = &named.service;
    let found = service.get("/api/v1/sandboxes/try%20one").await;
    assert_eq!(found["id"], *named.sandbox);
    let found = service.get("/api/v1/workspaces/fix").await;
    assert_eq!(found["id"], *named.workspace);
    assert_eq!(found["agent"], *named.agent);
    let found = service.get("/api/v1/projects/site").await;
    assert_eq!(found["id"], *named.project);
    // The workspace of a sandbox gets the name of the sandbox.
    let wish = json!({"template": "base", "name": "on site",
        "workspace": {"project": {"name": "site", "agent": "ada"}}});
    let on_site = service.post("/api/v1/sandboxes", wish).await;
    assert_eq!(on_site["agent"], *named.agent);
    let found = service.get("/api/v1/workspaces/on%20site").await;
    assert_eq!(found["sandbox"], on_site["id"]);

    let wish = json!({"template": "base", "workspace": {"fork": "try one"}});
    service.post("/api/v1/sandboxes", wish).await;
    let page = service
        .get("/api/v1/reviews?workspace=fix&project=site")
        .await;
    assert_eq!(page["items"], json!([]));
    let key = service
        .post("/api/v1/keys", json!({"name": "k", "agent": "ada"}))
        .await;
    assert_eq!(key["agent"], *named.agent);
    let wish = json!({"ids": ["try one", "unknown"]});
    let deleted = service.expect(
        Method::POST,
        "/api/v1/sandboxes/batch-delete",
        Some(wish),
        200,
    );
    let deleted = deleted.await;
    assert_eq!(deleted["succeeded"], json!(["try one"]));
    assert_eq!(deleted["failed"][0]["id"], "unknown");
    service
        .expect(Method::DELETE, "/api/v1/agents/ada", None, 204)
        .await;
    service
        .expect(Method::DELETE, "/api/v1/workspaces/fix", None, 204)
        .await;
}

#[tokio::test]
async fn a_name_is_unique_and_free_again_after_the_deletion() {
    let named = Named::start().await;
    let service = &named.service;
    let sandbox = json!({"template": "base", "name": "try one"});
    let workspace = json!({"project": "site", "name": "fix"});
    for (path, wish) in [("sandboxes", &sandbox), ("workspaces", &workspace)] {
        let path = format!("/api/v1/{path}");
        let refused = service
            .expect(Method::POST, &path, Some(wish.clone()), 409)
            .await;
        assert_eq!(refused["error"]["name"], "NAME_TAKEN", "{refused}");
    }
    let forks = format!("/api/v1/sandboxes/{}/fork", named.sandbox);
    let wish = Some(json!({"name": "try one"}));
    service.expect(Method::POST, &forks, wish, 409).await;
    // Another project may have a workspace with the same name; the name alone is
    // then ambiguous.
    service
        .post("/api/v1/projects", json!({"name": "other"}))
        .await;
    service
        .post(
            "/api/v1/workspaces",
            json!({"project": "other", "name": "fix"}),
        )
        .await;
    let refused = service
        .expect(Method::GET, "/api/v1/workspaces/fix", None, 409)
        .await;
    assert_eq!(refused["error"]["name"], "NAME_AMBIGUOUS", "{refused}");
    let both = refused["error"]["details"]["workspaces"]
        .as_array()
        .unwrap();
    assert!(both.contains(&json!(named.workspace)), "{refused}");
    for (kind, id, wish) in [
        ("sandboxes", &named.sandbox, sandbox),
        ("workspaces", &named.workspace, workspace),
    ] {
        let path = format!("/api/v1/{kind}/{id}");
        service.expect(Method::DELETE, &path, None, 204).await;
        service.post(&format!("/api/v1/{kind}"), wish).await;
    }
}

#[tokio::test]
async fn a_name_never_has_the_form_of_an_id() {
    let service = Service::start().await;
    for (kind, wish) in [
        ("sandboxes", json!({"template": "base"})),
        ("projects", json!({})),
        ("agents", json!({})),
    ] {
        for name in [
            "sbx-abcdefghijkmnpqr",
            "prj-abcdefghijkmnpqr",
            "batch-delete",
        ] {
            let mut wish = wish.clone();
            wish["name"] = json!(name);
            let path = format!("/api/v1/{kind}");
            let refused = service.expect(Method::POST, &path, Some(wish), 400).await;
            let message = refused["error"]["message"].as_str().unwrap();
            assert!(message.contains("is not a valid name"), "{message}");
        }
    }
}

#[tokio::test]
async fn a_name_that_the_caller_may_not_see_is_not_found() {
    let named = Named::start().await;
    let service = &named.service;
    service.post("/api/v1/agents", json!({"name": "bob"})).await;
    let bob = named.key_of("bob").await;
    for path in ["sandboxes/try%20one", "workspaces/fix"] {
        let path = format!("/api/v1/{path}");
        let hidden = service.expect_as(&bob, Method::GET, &path, None, 404).await;
        let text = hidden.to_string();
        for id in [&named.sandbox, &named.workspace] {
            assert!(!text.contains(&**id), "{text}");
        }
    }
    let wish = Some(json!({"project": "site", "agent": "ada"}));
    let path = "/api/v1/workspaces";
    service.expect_as(&bob, Method::POST, path, wish, 403).await;
    let wish = Some(json!({"project": "site", "agent": "bob"}));
    service.expect_as(&bob, Method::POST, path, wish, 201).await;
}

#[tokio::test]
async fn the_name_of_a_sandbox_does_not_mean_the_workspace_of_an_older_one() {
    let named = Named::start().await;
    let service = &named.service;
    let wish = json!({"template": "base", "name": "web",
        "workspace": {"project": {"name": "site"}}});
    let old = service.post("/api/v1/sandboxes", wish.clone()).await;
    let path = "/api/v1/sandboxes/web?keep_workspace=true";
    service.expect(Method::DELETE, path, None, 204).await;
    let new = service.post("/api/v1/sandboxes", wish).await;
    let path = "/api/v1/workspaces/web";
    let refused = service.expect(Method::GET, path, None, 409).await;
    let both = refused["error"]["details"]["workspaces"]
        .as_array()
        .unwrap();
    assert!(both.contains(&old["workspace"]), "{refused}");
    assert!(both.contains(&new["workspace"]), "{refused}");
}
