//! Tests of the format of the file and its migrations.

use std::collections::BTreeMap;

use elevo_core::{SandboxState, TenantId, Timestamp};
use serde_json::json;
use sqlx::Row;

use super::super::SqliteCatalog;
use super::super::database::newest_format;
use super::{Temporary, id_of};
use crate::conformance::Backend;
use crate::error::Error;
use crate::nodes::NodeId;
use crate::query::SandboxQuery;
use crate::records::{Agent, ApiKey, KeyLimits, Sandbox, Template, Tenant};
use crate::records::{Begun, IdempotentRequest, RequestRun};

/// Returns the whole schema, as text.
async fn schema(catalog: &SqliteCatalog) -> String {
    // Without the tables of SQLite and sqlx.
    let select = "SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL \
                  AND name NOT LIKE 'sqlite_%' AND tbl_name <> '_sqlx_migrations' \
                  ORDER BY tbl_name, type DESC, name";
    let rows = sqlx::query(select).fetch_all(catalog.database.readers());
    let rows = rows.await.unwrap();
    let parts: Vec<String> = rows.iter().map(|row| row.get("sql")).collect();
    parts.join(";\n\n")
}

/// The snapshot is the current schema, so that a migration shows as a difference.
#[tokio::test]
async fn the_schema_matches_the_snapshot() {
    let temporary = Temporary::new();
    let catalog = temporary.open().await;
    insta::assert_snapshot!("schema", schema(&catalog).await);
}

#[tokio::test]
async fn migrating_a_catalog_twice_changes_nothing() {
    let temporary = Temporary::new();
    let first = temporary.open().await;
    first.set_setting("a", "b").await.unwrap();
    let before = schema(&first).await;
    let second = temporary.open().await;
    let third = temporary.open().await;
    third.close().await;
    assert_eq!(schema(&second).await, before);
    assert_eq!(second.setting("a").await.unwrap().as_deref(), Some("b"));
}

#[tokio::test]
async fn a_catalog_of_a_newer_version_is_not_opened() {
    let temporary = Temporary::new();
    temporary
        .meddle(
            "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time)
             VALUES (9999, 'from the future', TRUE, x'00', 0)",
        )
        .await;
    let known = newest_format();
    let found = SqliteCatalog::find(&temporary.file()).await.map(drop);
    for opened in [temporary.try_open().await.map(drop), found] {
        let Err(error @ Error::Newer { found: 9999, .. }) = opened else {
            panic!("{opened:?}");
        };
        let text = error.to_string();
        assert!(
            text.contains(&format!(
                "format 9999, and this version of Elevo reads up to {known}"
            )),
            "{text}"
        );
        assert!(
            text.contains(&format!("`catalog.db.version-{known}`")),
            "{text}"
        );
    }
}

#[tokio::test]
async fn an_edited_migration_is_reported() {
    let temporary = Temporary::new();
    temporary
        .meddle("UPDATE _sqlx_migrations SET checksum = x'00' WHERE version = 1")
        .await;
    let opened = temporary.try_open().await;
    assert!(matches!(opened, Err(Error::Damaged(_))), "{opened:?}");
}

/// All rows of a catalog that version 1 wrote can be read.
#[tokio::test]
async fn a_catalog_of_version_1_is_read() {
    let temporary = Temporary::new();
    temporary.restore(include_str!("version-1.sql")).await;
    let catalog = temporary.open().await;
    assert_holds_version_1(&catalog).await;
    let new = Temporary::new();
    assert_eq!(
        schema(&catalog).await,
        schema(&new.open().await).await,
        "an old catalog is brought to the same schema as a new one"
    );
}

const TENANT: TenantId = TenantId::new([0xa1; 16]);

fn at(seconds: i64) -> Timestamp {
    Timestamp::new(seconds, 123_456_000).unwrap()
}

async fn assert_holds_version_1(catalog: &SqliteCatalog) {
    assert_eq!(catalog.tenants().await.unwrap(), [tenant()]);
    assert_eq!(catalog.agents(TENANT).await.unwrap(), [agent()]);
    assert_eq!(catalog.keys(TENANT).await.unwrap(), [key()]);
    let page = catalog.sandboxes(&SandboxQuery::default()).await.unwrap();
    assert_eq!(page.items, [sandbox()]);
    assert_eq!(catalog.templates().await.unwrap(), [template()]);
    let installation = catalog.setting("installation").await.unwrap();
    assert_eq!(installation.as_deref(), Some("it's this one"));
    // The request is new: the migration to version 6 deletes earlier requests,
    // because that version names requests differently.
    assert_eq!(catalog.begin(&request()).await.unwrap(), Begun::New);
}

fn tenant() -> Tenant {
    Tenant::new(TENANT, "Alice & co.", at(1_700_000_000))
}

fn agent() -> Agent {
    Agent {
        id: id_of("agt-1"),
        tenant: TENANT,
        name: "builder".into(),
        created: at(1_700_000_001),
    }
}

fn key() -> ApiKey {
    ApiKey {
        id: id_of("key-1"),
        tenant: TENANT,
        agent: Some(id_of("agt-1")),
        name: "laptop".into(),
        hash: [0x11; 32],
        scopes: vec!["sandboxes".into(), "commands".into()],
        limits: KeyLimits {
            creates_per_minute: Some(10),
            commands_per_minute: Some(100),
            requests_per_minute: None,
            sandboxes: Some(10),
            ..KeyLimits::default()
        },
        created: at(1_700_000_002),
        expires: Some(at(1_800_000_000)),
        revoked: Some(at(1_750_000_000)),
    }
}

fn sandbox() -> Sandbox {
    Sandbox {
        id: id_of("sbx-1"),
        tenant: TENANT,
        agent: Some(id_of("agt-1")),
        key: id_of("key-1"),
        name: Some("ünïcode 'quoted'".into()),
        state: SandboxState::Stopped,
        reason: Some("it was asked to".into()),
        failure: None,
        template: "base".into(),
        container: Some("c0ffee".into()),
        workspace: id_of("ws-1"),
        token_hash: [0x22; 32],
        created: at(1_700_000_003),
        expires: at(1_700_003_600),
        updated: at(1_700_000_004),
        removing: true,
        keep_workspace: true,
        started_before: true,
        node: NodeId::FIRST,
        generation: 1,
        spec: json!({ "memory": 1 << 30, "env": { "A": "b\nc" } }),
        metadata: BTreeMap::new(),
        project: None,
        base: None,
    }
}

fn template() -> Template {
    Template {
        name: "base".into(),
        image: "docker.io/library/debian:12".into(),
        description: Some("words".into()),
        tags: vec!["debian".into()],
        size: 1 << 40,
        writable_root: true,
        created: at(1_700_000_000),
    }
}

fn request() -> IdempotentRequest {
    IdempotentRequest {
        run: RequestRun {
            tenant: TENANT,
            name: [0x44; 32],
            process: "process".into(),
        },
        fingerprint: [0x33; 32],
        id: "id".into(),
        now: at(1_700_000_005),
        keep_until: at(1_700_086_405),
    }
}
