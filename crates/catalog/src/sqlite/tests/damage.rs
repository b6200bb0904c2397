//! Tests of damaged files.

use std::fs;

use elevo_core::{TenantId, TreePath};

use super::{Temporary, id_of};
use crate::conformance::Backend;
use crate::error::{Error, Result};
use crate::query::SandboxQuery;

const ROW: &str = "
    INSERT INTO tenants (id, name, created) VALUES (zeroblob(16), 't', 1);
    INSERT INTO api_keys VALUES
        (zeroblob(16), 'key-1', NULL, 'k', zeroblob(32), '[]', '{}', 1, NULL, NULL);
    INSERT INTO sandboxes VALUES ('sbx-1', zeroblob(16), NULL, 'key-1', NULL, 'running', NULL, 't', NULL,
        'w', zeroblob(32), 1, 1, 1, 0, 0, '{}', 1, NULL, '{}', 1, 1);
    INSERT INTO templates VALUES ('t', 'i', NULL, '[]', 1, 0, 1);
";

const PROJECT: &str = "
    INSERT INTO projects VALUES ('prj-1', zeroblob(16), 'p', NULL, zeroblob(32), 1, 0, 1, 1, 0,
        'all', NULL);
    INSERT INTO policies VALUES ('prj-1', '{}');
    INSERT INTO workspaces VALUES ('w', zeroblob(16), 'prj-1', NULL, 'key-1', NULL, zeroblob(32),
        zeroblob(32), 0, '{}', 0, 0, 'live', NULL, 1, 1, NULL, 1, 1, NULL, NULL, NULL, NULL);
    INSERT INTO landings VALUES ('prj-1', 1, zeroblob(32), zeroblob(32), 'merge', NULL, NULL, 'key-1', '',
        NULL, '{}', 1);
    INSERT INTO versions VALUES ('prj-1', 1, x'61', 'added', NULL, NULL, x'0101a4', 1, 0, 'take');
    INSERT INTO reviews VALUES ('rev-1', zeroblob(16), 'prj-1', NULL, NULL, x'61', 'c', NULL, NULL, NULL,
        zeroblob(32), zeroblob(32), zeroblob(32), 'a', 'open', '{}', 1, NULL, NULL, NULL, NULL,
        NULL, 0);
";

fn assert_damaged<T: std::fmt::Debug>(result: Result<T>) {
    assert!(matches!(result, Err(Error::Damaged(_))), "{result:?}");
}

#[tokio::test]
async fn a_file_that_is_not_a_database_is_not_overwritten() {
    let temporary = Temporary::new();
    let text = "This is not a database. ".repeat(100);
    fs::write(temporary.file(), &text).unwrap();
    assert_damaged(temporary.try_open().await);
    assert_eq!(fs::read_to_string(temporary.file()).unwrap(), text);
}

#[tokio::test]
async fn impossible_values_are_reported_as_damage() {
    for meddling in [
        "UPDATE sandboxes SET workspace = 'not an id'",
        "UPDATE sandboxes SET state = 'dancing'",
        "UPDATE sandboxes SET failure = 'tiredness'",
        "UPDATE sandboxes SET spec = '{'",
        "UPDATE sandboxes SET metadata = '[]'",
        "UPDATE sandboxes SET node = -1",
        "UPDATE api_keys SET scopes = 'null'",
        "UPDATE api_keys SET limits = '7'",
        "UPDATE templates SET size = -1",
    ] {
        let temporary = Temporary::new();
        temporary.meddle(ROW).await;
        temporary.meddle(meddling).await;
        let catalog = temporary.open().await;
        if meddling.contains("sandboxes") {
            assert_damaged(catalog.sandbox_of_any_tenant(&id_of("sbx-1")).await);
            assert_damaged(catalog.sandboxes(&SandboxQuery::default()).await);
        } else if meddling.contains("api_keys") {
            assert_damaged(catalog.key_of_any_tenant(&[0; 32]).await);
            assert_damaged(catalog.access_of_any_tenant(&[0; 32], None).await);
        } else {
            assert_damaged(catalog.templates().await);
        }
        // No lock and no connection is left behind.
        catalog.check().await.unwrap();
    }
}

#[tokio::test]
async fn impossible_values_of_projects_are_reported_as_damage() {
    let tenant = TenantId::new([0; 16]);
    let a = TreePath::new("a").unwrap();
    for meddling in [
        "",
        "UPDATE projects SET retention = 'some'",
        "UPDATE projects SET retention = 'last'",
        "UPDATE projects SET retention_count = 1",
        "UPDATE policies SET policy = '{'",
        "UPDATE workspaces SET state = 'dancing'",
        "UPDATE workspaces SET sync = ''",
        "UPDATE workspaces SET node = 4294967296",
        "UPDATE workspaces SET files_limit = -1",
        "UPDATE landings SET kind = 'crash'",
        "UPDATE landings SET api_key = 'not an id'",
        "UPDATE landings SET counts = '{'",
        "UPDATE versions SET kind = 'moved'",
        "UPDATE versions SET entry_after = x'09'",
        "UPDATE versions SET origin = x'2f'",
        "UPDATE reviews SET state = 'ajar'",
        "UPDATE reviews SET successor = 'not an id'",
        "UPDATE reviews SET agent = 'not an id'",
        "UPDATE reviews SET path = x'2f'",
        "UPDATE reviews SET theirs = x''",
        "UPDATE reviews SET resolution = '{'",
    ] {
        let temporary = Temporary::new();
        temporary.meddle(ROW).await;
        temporary.meddle(PROJECT).await;
        temporary.meddle(meddling).await;
        let catalog = temporary.open().await;
        let table = meddling.split(' ').nth(1).unwrap_or_default();
        let found = [
            (
                "projects",
                catalog.project(tenant, &id_of("prj-1")).await.map(drop),
            ),
            (
                "policies",
                catalog.policy(tenant, &id_of("prj-1")).await.map(drop),
            ),
            (
                "workspaces",
                catalog.workspace(tenant, &id_of("w")).await.map(drop),
            ),
            (
                "landings",
                catalog.landing(tenant, &id_of("prj-1"), 1).await.map(drop),
            ),
            (
                "versions",
                catalog
                    .last_version(tenant, &id_of("prj-1"), &a)
                    .await
                    .map(drop),
            ),
            (
                "reviews",
                catalog.review(tenant, &id_of("rev-1")).await.map(drop),
            ),
        ];
        for (of, result) in found {
            if of == table {
                assert_damaged(result);
            } else {
                result.unwrap();
            }
        }
    }
}

#[tokio::test]
async fn overwritten_pages_are_reported_as_damage() {
    let temporary = Temporary::new();
    temporary.meddle(ROW).await;
    let mut bytes = fs::read(temporary.file()).unwrap();
    // Overwrites all pages but the first, which describes the others.
    bytes[4096..].fill(0xee);
    fs::write(temporary.file(), bytes).unwrap();
    match temporary.try_open().await {
        Err(Error::Damaged(_)) => {}
        Ok(catalog) => assert_damaged(catalog.sandboxes(&SandboxQuery::default()).await),
        other => panic!("{other:?}"),
    }
}
