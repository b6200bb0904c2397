//! The list of snapshots, their names, and differences between them.

use reqwest::Method;
use serde_json::{Value, json};

use crate::files::changes;
use crate::harness::Service;
use crate::shared::{Ws, agent, at, project, workspace, write};

const SNAPSHOTS: &str = "/api/v1/snapshots";

/// A workspace with two snapshots, the second with a name.
struct Saved {
    service: Service,
    ws: Ws,
    first: String,
    second: String,
}

impl Saved {
    async fn start() -> Self {
        let service = Service::start().await;
        let project = project(&service, json!({}), &[("old", "one\n")]).await;
        let ws = workspace(&service, json!({"project": project})).await;
        let mut taken = Vec::new();
        for (content, wish) in [
            ("two\n", json!({"message": "first"})),
            ("three\n", json!({"name": "good"})),
        ] {
            write(&ws, "file", content);
            let made = service.post(&at(&ws, "snapshot"), wish).await;
            taken.push(made["id"].as_str().unwrap().to_owned());
        }
        Self {
            service,
            ws,
            second: taken.pop().unwrap(),
            first: taken.pop().unwrap(),
        }
    }

    async fn list(&self, query: &str) -> Value {
        self.service.get(&format!("{SNAPSHOTS}?{query}")).await
    }

    async fn rename(&self, id: &str, name: Value, status: u16) -> Value {
        let (url, wish) = (format!("{SNAPSHOTS}/{id}"), json!({"name": name}));
        self.service
            .expect(Method::PATCH, &url, Some(wish), status)
            .await
    }
}

fn ids(page: &Value) -> Vec<&str> {
    let items = page["items"].as_array().unwrap().iter();
    items.map(|item| item["id"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn snapshots_are_listed_newest_first_and_filtered() {
    let saved = Saved::start().await;
    let request = saved.service.request(Method::POST, SNAPSHOTS);
    let imported = request.body(vec![0; 1024]).send().await.unwrap();
    let imported: Value = imported.json().await.unwrap();
    let imported = imported["id"].as_str().unwrap();
    let (first, second) = (saved.first.as_str(), saved.second.as_str());
    let all = saved.list("").await;
    assert_eq!(ids(&all), [imported, second, first]);
    assert!(all["next"].is_null());
    let of_workspace = saved.list(&format!("workspace={}", saved.ws.id)).await;
    assert_eq!(ids(&of_workspace), [second, first]);
    assert_eq!(ids(&saved.list("name_prefix=go").await), [second]);
    assert_eq!(ids(&saved.list("name_prefix=x").await), [""; 0]);
    let mut seen = Vec::new();
    let mut query = "limit=1".to_owned();
    loop {
        let page = saved.list(&query).await;
        seen.extend(ids(&page).into_iter().map(str::to_owned));
        match page["next"].as_str() {
            Some(next) => query = format!("limit=1&cursor={next}"),
            None => break,
        }
    }
    assert_eq!(seen, ids(&all));
    let shown = saved.service.get(&format!("{SNAPSHOTS}/{first}")).await;
    assert_eq!(shown, all["items"][2]);
    assert_eq!(shown["message"], "first");
    assert_eq!(shown["workspace"], saved.ws.id.as_str());
    let url = format!("{SNAPSHOTS}?cursor=1_x");
    saved.service.expect(Method::GET, &url, None, 400).await;
}

#[tokio::test]
async fn a_name_stands_for_its_snapshot() {
    let saved = Saved::start().await;
    let service = &saved.service;
    let named = service.get(&format!("{SNAPSHOTS}/good")).await;
    assert_eq!(named["id"], saved.second.as_str());
    let taken = saved.rename(&saved.first, json!("good"), 409).await;
    assert_eq!(taken["error"]["name"], "NAME_TAKEN");
    let other = workspace(service, json!({"project": "shared"})).await;
    let url = at(&other, "snapshot");
    let wish = Some(json!({"name": "good"}));
    let taken = service.expect(Method::POST, &url, wish, 409).await;
    assert_eq!(taken["error"]["name"], "NAME_TAKEN");
    let diff = service.get(&at(&saved.ws, "diff?from=good")).await;
    assert_eq!(changes(&diff), [""; 0]);
    assert_eq!(diff["base"], saved.second.as_str());

    let free = saved.rename("good", Value::Null, 200).await;
    assert!(free["name"].is_null(), "{free}");
    let moved = saved.rename(&saved.first, json!("good"), 200).await;
    assert_eq!(moved["name"], "good");
    let (url, wish) = (at(&saved.ws, "restore"), json!({"snapshot": "good"}));
    service.expect(Method::POST, &url, Some(wish), 200).await;
    assert_eq!(crate::shared::read(&saved.ws, "file"), "two\n");

    for bad in [
        "",
        "a/b",
        "start",
        "last",
        "diff",
        "abcdef",
        &"0".repeat(64),
    ] {
        let refused = saved.rename(&saved.first, json!(bad), 400).await;
        assert_eq!(refused["error"]["name"], "INVALID_REQUEST", "{bad}");
    }
    let url = format!("{SNAPSHOTS}/{}", saved.first);
    let empty = Some(json!({}));
    service.expect(Method::PATCH, &url, empty, 400).await;
    let missing = saved.rename("nothing", json!("other"), 404).await;
    assert_eq!(missing["error"]["name"], "SNAPSHOT_NOT_FOUND");
}

#[tokio::test]
async fn a_state_can_have_several_names_and_takers() {
    let service = Service::start().await;
    project(&service, json!({}), &[("a", "1\n")]).await;
    let mut seen = Vec::new();
    for name in ["ada", "bob"] {
        let (id, key) = agent(&service, name).await;
        let ws = workspace(&service, json!({"project": "shared", "agent": id})).await;
        for state in ["first", "second"] {
            let wish = Some(json!({"name": format!("{name}-{state}")}));
            let url = at(&ws, "snapshot");
            let taken = service.expect_as(&key, Method::POST, &url, wish, 201).await;
            seen.push((key.clone(), format!("{name}-{state}"), taken));
        }
    }
    for (key, name, taken) in &seen {
        let url = format!("{SNAPSHOTS}/{name}");
        let found = service.expect_as(key, Method::GET, &url, None, 200).await;
        assert_eq!(found["id"], taken["id"], "{name}");
        assert_eq!(found["tree"], seen[0].2["tree"], "{name}");
    }
}

#[tokio::test]
async fn two_snapshots_are_compared_in_every_form() {
    let saved = Saved::start().await;
    let service = &saved.service;
    let query = format!("{SNAPSHOTS}/diff?from={}&to=good", saved.first);
    let diff = service.get(&query).await;
    assert_eq!(changes(&diff), ["changed file"]);
    assert_eq!(diff["base"], saved.first.as_str());
    let stat = service.get(&format!("{query}&format=stat")).await;
    assert_eq!((&stat["added"], &stat["removed"]), (&json!(1), &json!(1)));
    let request = service.request(Method::GET, &format!("{query}&format=patch"));
    let patch = request.send().await.unwrap().text().await.unwrap();
    assert!(patch.contains("-two\n+three\n"), "{patch}");
    let url = format!("{SNAPSHOTS}/diff?from=good&to={}", "0".repeat(64));
    let missing = service.expect(Method::GET, &url, None, 404).await;
    assert_eq!(missing["error"]["name"], "SNAPSHOT_NOT_FOUND");
}

#[tokio::test]
async fn an_agent_finds_only_its_own_snapshots() {
    let saved = Saved::start().await;
    let service = &saved.service;
    let (_, key) = agent(service, "one").await;
    let wish = Some(json!({"project": "shared"}));
    let own = service
        .expect_as(&key, Method::POST, "/api/v1/workspaces", wish, 201)
        .await;
    // The snapshot of an unchanged workspace is the version of the project.
    let url = format!(
        "/api/v1/workspaces/{}/snapshot",
        own["id"].as_str().unwrap()
    );
    let taken = service.expect_as(&key, Method::POST, &url, None, 201).await;
    let own = taken["id"].as_str().unwrap();
    let list = service
        .expect_as(&key, Method::GET, SNAPSHOTS, None, 200)
        .await;
    assert_eq!(ids(&list), [own]);
    let url = format!("{SNAPSHOTS}/{own}");
    service.expect_as(&key, Method::GET, &url, None, 200).await;
    for other in ["good", &saved.first] {
        let url = format!("{SNAPSHOTS}/{other}");
        service.expect_as(&key, Method::GET, &url, None, 404).await;
        let wish = Some(json!({"name": "mine"}));
        service
            .expect_as(&key, Method::PATCH, &url, wish, 404)
            .await;
        let url = format!("{SNAPSHOTS}/diff?from={own}&to={other}");
        service.expect_as(&key, Method::GET, &url, None, 404).await;
    }
}

#[tokio::test]
async fn garbage_collection_keeps_a_snapshot_with_a_name() {
    let mut service = Service::start().await;
    service.stop();
    let old = crate::garbage::leave_snapshot(&service).await.to_string();
    service.run();
    let url = format!("{SNAPSHOTS}/{old}");
    let wish = Some(json!({"name": "kept"}));
    service.expect(Method::PATCH, &url, wish, 200).await;
    service.expect(Method::POST, "/api/v1/gc", None, 200).await;
    let list = service.get(SNAPSHOTS).await;
    assert_eq!(ids(&list), [old.as_str()]);
    assert_eq!(list["items"][0]["message"], "long ago");
    service.get(&url).await;

    // Without its name, the content is collected, and the record with it.
    let wish = Some(json!({"name": null}));
    service.expect(Method::PATCH, &url, wish, 200).await;
    assert_eq!(ids(&service.get(SNAPSHOTS).await), [old.as_str()]);
    service.expect(Method::POST, "/api/v1/gc", None, 200).await;
    assert_eq!(ids(&service.get(SNAPSHOTS).await), [""; 0]);
    service.expect(Method::GET, &url, None, 404).await;
}
