//! Catalogs of earlier releases are migrated and keep their rows.

#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

use std::path::Path;

use elevo_catalog::secret::ApiKeySecret;
use elevo_catalog::{
    Keys, Landings, Projects, Reviews, Settings, SqliteCatalog, SqliteOptions, Tags, Webhooks,
    WorkspaceState, Workspaces,
};
use elevo_core::TenantId;
use elevo_testkit::fixtures;
use serde_json::Value;

const TENANT: TenantId = TenantId::LOCAL;

async fn open(file: &Path) -> SqliteCatalog {
    // A migration that was changed after its release has another checksum than
    // the catalog records, and fails here.
    let opened = SqliteCatalog::open(file, &SqliteOptions::default()).await;
    opened.unwrap()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap()
}

#[tokio::test]
async fn catalogs_of_earlier_releases_keep_projects_and_reviews() {
    for fixture in fixtures::all() {
        let unpacked = fixture.unpack("server.tar.gz");
        let catalog = open(&unpacked.path().join("data/catalog.db")).await;
        let expected = fixture.expected();
        let project = catalog.project_by_name(TENANT, "site").await.unwrap();
        let project = project.unwrap();
        let wanted = &expected["project"];
        assert_eq!(project.id.as_str(), text(&wanted["id"]));
        assert_eq!(project.head.to_string(), text(&wanted["head"]));
        assert_eq!(project.sequence, wanted["step"].as_u64().unwrap());

        let log = catalog.log(TENANT, &project.id, None, 100).await.unwrap();
        let found: Vec<_> = log.iter().map(|entry| entry.snapshot.to_string()).collect();
        let entries = expected["log"].as_array().unwrap();
        let wanted: Vec<_> = entries
            .iter()
            .map(|entry| text(&entry["snapshot"]))
            .collect();
        assert_eq!(found, wanted);

        let tag = catalog.tag(TENANT, &project.id, "v1").await.unwrap();
        let snapshot = tag.unwrap().snapshot.to_string();
        assert_eq!(snapshot, text(&expected["tag"]["snapshot"]));
        let id = text(&expected["review"]["id"]).parse().unwrap();
        let review = catalog.review(TENANT, &id).await.unwrap().unwrap();
        assert_eq!(review.path.to_string(), "page.md");
    }
}

#[tokio::test]
async fn catalogs_of_earlier_releases_keep_keys_and_workspaces_and_take_changes() {
    for fixture in fixtures::all() {
        let unpacked = fixture.unpack("server.tar.gz");
        let file = unpacked.path().join("data/catalog.db");
        let catalog = open(&file).await;
        let expected = fixture.expected();
        for (name, is_revoked) in [("key", false), ("revoked_key", true)] {
            let secret: ApiKeySecret = text(&expected[name]).parse().unwrap();
            let key = catalog.key_of_any_tenant(&secret.hash()).await.unwrap();
            assert_eq!(key.unwrap().revoked.is_some(), is_revoked, "{name}");
        }
        let webhooks = catalog.webhooks(Some(TENANT)).await.unwrap();
        assert_eq!(webhooks[0].id.as_str(), text(&expected["webhook"]));
        for parked in ["expired", "deleted"] {
            let id = text(&expected["parked"][parked]).parse().unwrap();
            let workspace = catalog.workspace(TENANT, &id).await.unwrap().unwrap();
            assert_eq!(workspace.state, WorkspaceState::Parked, "{parked}");
        }
        catalog.set_setting("new", "value").await.unwrap();
        catalog.close().await;
        let value = open(&file).await.setting("new").await.unwrap();
        assert_eq!(value.as_deref(), Some("value"));
    }
}
