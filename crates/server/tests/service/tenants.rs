//! The failure of one tenant, row or container does not affect another tenant,
//! and an erased tenant leaves nothing.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use elevo_core::TenantId;
use elevo_engine::{Inspect, Store};
use elevo_objects::Kind;
use elevo_sandbox::sim::Call;
use elevo_store_local::{LocalStore, Options};
use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::{KEY, Service, eventually, mounts_below};
use crate::shared::{self, file};

#[tokio::test]
async fn a_container_that_cannot_be_removed_does_not_stop_the_start() {
    let (mut service, engine) = Service::start_simulated(|_| {}).await;
    service.expect_complaint("so it is in quarantine");
    service.expect_complaint("an injected fault");
    let (stuck, kept) = (service.sandbox().await, service.sandbox().await);
    service.stop_here().await;
    service
        .sql(&format!("delete from sandboxes where id = '{stuck}'"))
        .await;
    engine.fail(Call::Remove, &stuck, u32::MAX);
    service.run_simulated(&engine, |_| {}).await;
    let row = service.get(&format!("/api/v1/sandboxes/{kept}")).await;
    assert_eq!(row["state"], "running", "{row}");
    service.delete(&kept).await;
    let cleared = service.post("/api/v1/gc", json!({})).await;
    assert_eq!(cleared["cleanedSandboxes"], 0, "{cleared}");
}

#[tokio::test]
async fn an_expired_sandbox_that_cannot_go_does_not_keep_others() {
    let (service, engine) = Service::start_simulated(|_| {}).await;
    service.expect_complaint("cannot delete an expired sandbox or workspace");
    service.expect_complaint("an injected fault");
    let wish = json!({"template": "base", "timeoutSeconds": 60});
    let mut ids = Vec::new();
    for _ in 0..2 {
        let made = service.post("/api/v1/sandboxes", wish.clone()).await;
        ids.push(made["id"].as_str().unwrap().to_owned());
    }
    engine.fail(Call::Remove, &ids[0], u32::MAX);
    service.sql("update sandboxes set expires = 1").await;
    eventually("the second sandbox is gone", async || {
        !engine.containers().contains(&ids[1])
    })
    .await;
}

#[tokio::test]
async fn a_tenant_whose_workspaces_are_damaged_stops_neither_start_nor_collection() {
    let mut service = Service::start_without_engine(&[]);
    service.expect_complaint("is damaged");
    let project = shared::project(&service, json!({}), &[("a", "1\n")]).await;
    let other = service
        .expect(
            Method::POST,
            "/api/v1/tenants",
            Some(json!({"name": "other"})),
            201,
        )
        .await;
    let key = other["secret"].as_str().unwrap();
    let theirs = json!({"name": "theirs"});
    let theirs = service
        .expect_as(key, Method::POST, "/api/v1/projects", Some(theirs), 201)
        .await;
    let wish = json!({"project": theirs["id"]});
    let ws = service
        .expect_as(key, Method::POST, "/api/v1/workspaces", Some(wish), 201)
        .await;
    let directory = ws["path"].as_str().unwrap().split("/live/").next().unwrap();
    service.stop();
    let registry = std::path::Path::new(directory).join("registry/log");
    assert!(registry.exists(), "{}", registry.display());
    std::fs::write(&registry, "damaged\n").unwrap();
    service.run();
    assert_eq!(file(&service, &project, "a").await.unwrap(), "1\n");
    let cleared = service
        .expect(Method::POST, "/api/v1/gc", Some(json!({})), 200)
        .await;
    assert_eq!(cleared["failedTenants"], json!(["other"]), "{cleared}");
}

#[tokio::test]
async fn a_project_with_a_sandbox_is_not_deleted_under_it() {
    let (service, _engine) = Service::start_simulated(|_| {}).await;
    let project = shared::project(&service, json!({}), &[("a", "1\n")]).await;
    let wish = json!({"template": "base", "workspace": {"project": {"name": project}}});
    let made = service
        .expect(Method::POST, "/api/v1/sandboxes", Some(wish), 201)
        .await;
    let path = format!("/api/v1/projects/{project}");
    let refused = service.expect(Method::DELETE, &path, None, 409).await;
    assert_eq!(refused["error"]["name"], "WORKSPACE_IN_USE", "{refused}");
    assert_eq!(refused["error"]["details"]["sandboxId"], made["id"]);
    service.delete(made["id"].as_str().unwrap()).await;
    service.expect(Method::DELETE, &path, None, 204).await;
}

/// Text in files, names and messages of the erased tenant.
const MARKER: &str = "marker-7d1f0c55";

/// A tenant that is to be erased.
struct Leaver {
    id: String,
    secret: String,
    /// The id of its project.
    project: String,
}

impl Leaver {
    /// Creates a tenant with an agent and its key, a webhook, a project with a
    /// history, and a live workspace with changes that were not merged.
    async fn make(service: &Service, name: &str) -> Self {
        let wish = Some(json!({"name": name}));
        let made = service.expect(Method::POST, "/api/v1/tenants", wish, 201);
        let made = made.await;
        let mut leaver = Self {
            id: text(&made["id"]),
            secret: text(&made["secret"]),
            project: String::new(),
        };
        let agent = json!({"name": MARKER});
        let agent = leaver.post(service, "/api/v1/agents", agent).await;
        let key = json!({"name": MARKER, "agent": agent["id"]});
        leaver.post(service, "/api/v1/keys", key).await;
        let hook = json!({"url": format!("https://example.com/{MARKER}")});
        leaver.post(service, "/api/v1/webhooks", hook).await;
        let project = json!({"name": MARKER, "description": MARKER});
        let project = leaver.post(service, "/api/v1/projects", project).await;
        leaver.project = text(&project["id"]);
        let merged = leaver.workspace(service).await;
        let message = json!({"message": MARKER});
        let url = format!("/api/v1/workspaces/{}/merge", merged.0);
        let merging = service.expect_as(&leaver.secret, Method::POST, &url, Some(message), 200);
        merging.await;
        leaver.workspace(service).await;
        leaver
    }

    async fn post(&self, service: &Service, path: &str, body: Value) -> Value {
        let made = service.expect_as(&self.secret, Method::POST, path, Some(body), 201);
        made.await
    }

    /// Creates a workspace on the project, with files; returns its id and its
    /// directory.
    async fn workspace(&self, service: &Service) -> (String, PathBuf) {
        let wish = json!({"project": self.project});
        let made = self.post(service, "/api/v1/workspaces", wish).await;
        let path = PathBuf::from(text(&made["path"]));
        for n in 0..50 {
            let content = format!("{MARKER} {n} {}\n", made["id"]).repeat(100);
            fs::write(path.join(format!("{MARKER}-{n}")), content).unwrap();
        }
        (text(&made["id"]), path)
    }

    /// Returns the directory of its workspaces.
    fn directory(&self, service: &Service) -> PathBuf {
        service.data.join("workspaces").join(&self.id)
    }

    async fn erase(&self, service: &Service) -> Value {
        let path = format!("/api/v1/tenants/{}", self.id);
        service.expect(Method::DELETE, &path, None, 202).await
    }

    /// Returns its entry in the list of tenants.
    async fn listed(&self, service: &Service) -> Option<Value> {
        let list = service.get("/api/v1/tenants").await;
        let mut items = list["items"].as_array().unwrap().iter();
        items.find(|item| item["id"] == self.id.as_str()).cloned()
    }

    async fn is_erased(&self, service: &Service) {
        eventually("the tenant is gone", async || {
            self.listed(service).await.is_none()
        })
        .await;
        let refused = service.expect_as(&self.secret, Method::GET, "/api/v1/projects", None, 401);
        refused.await;
        let directory = self.directory(service);
        assert!(!directory.exists(), "{}", directory.display());
        assert_eq!(mounts_below(&directory), [""; 0]);
        let path = format!("/api/v1/tenants/{}", self.id);
        let again = service.expect(Method::DELETE, &path, None, 404).await;
        assert_eq!(again["error"]["name"], "TENANT_NOT_FOUND", "{again}");
    }

    /// Checks that the store of a stopped server has no object of the tenant.
    async fn left_the_store(&self, service: &Service) {
        let id = tenant_id(&self.id);
        let store = LocalStore::open_read_only(&service.data.join("store"), &Options::default());
        let store = store.unwrap();
        assert_eq!(store.list_snapshots(id, None, 1).await.unwrap(), []);
        assert_eq!(store.list_references(id, "", None, 1).await.unwrap(), []);
        for kind in [Kind::Chunk, Kind::Directory, Kind::Times, Kind::ChunkList] {
            assert_eq!(store.list_objects(id, kind, None, 1).await.unwrap(), []);
        }
    }
}

fn text(value: &Value) -> String {
    value
        .as_str()
        .unwrap_or_else(|| panic!("{value}"))
        .to_owned()
}

fn tenant_id(hex: &str) -> TenantId {
    let byte = |at: usize| u8::from_str_radix(&hex[2 * at..2 * at + 2], 16).unwrap();
    TenantId::new(std::array::from_fn(byte))
}

/// Returns the files at or below a path that have a text in their content or
/// path. Does not read the images of pools, which are gigabytes without data.
fn files_with(path: &Path, text: &str) -> Vec<PathBuf> {
    let stat = fs::symlink_metadata(path).unwrap();
    if stat.is_dir() {
        let entries = fs::read_dir(path).unwrap();
        let below = entries.flat_map(|entry| files_with(&entry.unwrap().path(), text));
        return below.collect();
    }
    let bytes = match stat.is_file() && !path.ends_with("uppers.img") {
        true => fs::read(path).unwrap(),
        false => Vec::new(),
    };
    let mut windows = bytes.windows(text.len());
    let is_inside = windows.any(|window| window == text.as_bytes());
    match is_inside || path.to_string_lossy().contains(text) {
        true => vec![path.to_owned()],
        false => Vec::new(),
    }
}

/// Checks that the marker is not on the disk of a stopped server. The store is
/// queried instead: RocksDB deletes old logs and tables at its own pace.
async fn assert_no_marker(service: &Service) {
    service.sql("vacuum").await;
    for entry in fs::read_dir(&service.data).unwrap() {
        let path = entry.unwrap().path();
        if !["audit", "store"].iter().any(|kept| path.ends_with(kept)) {
            let found = files_with(&path, MARKER);
            assert!(found.is_empty(), "{found:?}");
        }
    }
}

#[tokio::test]
async fn an_erased_tenant_leaves_nothing() {
    let mut service = Service::start().await;
    service.expect_complaint("so it is in quarantine");
    let ours = shared::project(&service, json!({}), &[("a", "1\n")]).await;
    let own = shared::workspace(&service, json!({"project": ours})).await;
    let sandbox = service.sandbox().await;
    let leaver = Leaver::make(&service, "leaver").await;
    let secret = &leaver.secret;
    // A running sandbox, one whose workspace is parked, and a workspace without a
    // row.
    let wish = json!({"template": "base", "name": MARKER});
    let theirs = leaver.post(&service, "/api/v1/sandboxes", wish).await;
    let run = format!("/api/v1/sandboxes/{}/process/run", text(&theirs["id"]));
    let command = json!({"command": format!("echo {MARKER} > {MARKER}")});
    let command = service.inside(&text(&theirs["id"]), command);
    let ran = service.expect_as(secret, Method::POST, &run, Some(command), 200);
    assert_eq!(ran.await["exitCode"], 0);
    let wish = json!({"template": "base", "name": format!("{MARKER}-2")});
    let parked = leaver.post(&service, "/api/v1/sandboxes", wish).await;
    let url = format!(
        "/api/v1/sandboxes/{}?keep_workspace=true",
        text(&parked["id"])
    );
    let deleted = service.expect_as(secret, Method::DELETE, &url, None, 204);
    deleted.await;
    let (unknown, _) = leaver.workspace(&service).await;
    service.stop();
    service
        .sql(&format!("delete from workspaces where id = '{unknown}'"))
        .await;
    service.run();
    let quarantined = leaver.directory(&service).join("quarantine").join(unknown);
    assert!(quarantined.exists());
    // A stream of the tenant ends.
    let events = service.events_as(secret).await;

    let marked = leaver.erase(&service).await;
    assert!(marked["erasingSince"].is_string(), "{marked}");
    assert_eq!(marked["erasingSince"], marked["suspendedAt"], "{marked}");
    events.text().await.unwrap();
    leaver.is_erased(&service).await;
    assert!(service.containers().contains(&sandbox));
    assert!(!service.containers().contains(&text(&theirs["id"])));

    assert_eq!(file(&service, &ours, "a").await.unwrap(), "1\n");
    shared::write(&own, "a", "2\n");
    shared::merge(&service, &own).await;
    assert_eq!(service.output_of(&sandbox, "echo works").await, "works\n");
    let cleared = service.post("/api/v1/gc", json!({"full": true})).await;
    assert_eq!(cleared["failedTenants"], Value::Null, "{cleared}");
    service.stop();
    leaver.left_the_store(&service).await;
    assert_no_marker(&service).await;
    let audit = files_with(&service.data.join("audit"), "tenant.removed");
    assert_eq!(audit.len(), 1, "the audit log stays");
    service.run();
    assert_eq!(file(&service, &ours, "a").await.unwrap(), "2\n");
}

#[tokio::test]
async fn an_erasure_that_was_killed_goes_on() {
    let mut service = Service::start_without_engine(&[]);
    let ours = shared::project(&service, json!({}), &[("a", "1\n")]).await;
    let mut leavers = Vec::new();
    // Each kill interrupts the job at another step, or comes before or after it.
    for (n, wait) in [0, 5, 20, 40, 80, 160].into_iter().enumerate() {
        let leaver = Leaver::make(&service, &format!("leaver-{n}")).await;
        leaver.erase(&service).await;
        // The moment of the kill is the point: the server reports no step of the
        // job. The test passes at every moment.
        tokio::time::sleep(Duration::from_millis(wait)).await;
        service.kill();
        service.run();
        leavers.push(leaver);
    }
    for leaver in &leavers {
        leaver.is_erased(&service).await;
    }
    assert_eq!(file(&service, &ours, "a").await.unwrap(), "1\n");
    service.stop();
    for leaver in &leavers {
        leaver.left_the_store(&service).await;
    }
    assert_no_marker(&service).await;
}

#[tokio::test]
async fn an_erasure_waits_after_an_adoption_and_cannot_be_undone() {
    let service = Service::start_without_engine(&[("RUST_LOG", "info,elevo_server=debug")]);
    // Records an adoption, as a start with `--adopt` does.
    service
        .sql("insert into settings values ('adopted', '2999-01-01T00:00:00.000Z')")
        .await;
    let leaver = Leaver::make(&service, "leaver").await;
    let marked = leaver.erase(&service).await;
    let refused = service.expect_as(&leaver.secret, Method::GET, "/api/v1/projects", None, 403);
    assert_eq!(refused.await["error"]["name"], "TENANT_SUSPENDED");
    let path = "/api/v1/tenants/leaver";
    let back = Some(json!({"suspended": false}));
    let back = service.expect(Method::PATCH, path, back, 404).await;
    assert_eq!(back["error"]["name"], "TENANT_NOT_FOUND", "{back}");
    let again = service.expect(Method::DELETE, path, None, 202).await;
    assert_eq!(again, marked);
    eventually("the erasure is due, and waits", async || {
        service.logged("tenants are not erased for a day after the adoption")
    })
    .await;
    assert_eq!(leaver.listed(&service).await, Some(marked));
    assert!(leaver.directory(&service).exists());
    service
        .sql("delete from settings where name = 'adopted'")
        .await;
    leaver.is_erased(&service).await;
}

#[tokio::test]
async fn the_first_tenant_and_the_own_one_are_not_erased() {
    let service = Service::start_without_engine(&[]);
    let refused = service.expect(Method::DELETE, "/api/v1/tenants/local", None, 400);
    assert_eq!(refused.await["error"]["name"], "INVALID_REQUEST");
    let leaver = Leaver::make(&service, "leaver").await;
    let path = format!("/api/v1/tenants/{}", leaver.id);
    let refused = service.expect_as(&leaver.secret, Method::DELETE, &path, None, 403);
    refused.await;
    // A key of another tenant with the necessary scope does not erase the first
    // one.
    let scopes = "update api_keys set scopes = '[\"system\"]' where name = 'owner'";
    service.sql(scopes).await;
    for (path, status) in [("/api/v1/tenants/local", 400), (path.as_str(), 400)] {
        let refused = service.expect_as(&leaver.secret, Method::DELETE, path, None, status);
        refused.await;
    }
    let unknown = service.expect_as(KEY, Method::DELETE, "/api/v1/tenants/none", None, 404);
    assert_eq!(unknown.await["error"]["name"], "TENANT_NOT_FOUND");
    assert!(leaver.listed(&service).await.unwrap()["erasingSince"].is_null());
}
