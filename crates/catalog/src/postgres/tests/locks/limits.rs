//! Limits, which hold for additions that meet.

use std::fmt::Debug;
use std::time::Duration;

use sqlx::{AssertSqlSafe, Connection, PgConnection};

use super::{Gate, Temporary};
use crate::catalog::{Agents, Keys, Nodes, Projects, Sandboxes, Templates, Tenants, Webhooks};
use crate::catalog::{Settings, Workspaces};
use crate::conformance::samples::{
    ALICE, BOB, NO_LIMITS, agent, at, furnished, key, project, sandbox, tenant, workspace,
};
use crate::conformance::webhook;
use crate::error::{Error, Limit, Result};
use crate::limits::{MAX_LISTED, MAX_WEBHOOKS};
use crate::postgres::PostgresCatalog;
use crate::query::AddLimits;
use crate::records::{TENANT_LIMITS, Template, TenantLimits};

/// Opens a catalog with tenants that may have one sandbox, one workspace and one
/// project each.
async fn with_room_for_one(temporary: &Temporary) -> PostgresCatalog {
    furnished(temporary).await.close().await;
    let catalog = temporary.open_patiently().await;
    let limits = TenantLimits {
        sandboxes: Some(1),
        workspaces: Some(1),
        projects: Some(1),
        ..TenantLimits::default()
    };
    let limits = serde_json::to_string(&limits).unwrap();
    catalog.set_setting(TENANT_LIMITS, &limits).await.unwrap();
    catalog
}

/// The first of two calls succeeds, and the second one exceeds a limit.
fn assert_one_fits<T: Debug>((first, second): (Result<T>, Result<T>), limit: Limit) {
    first.unwrap();
    match second {
        Err(Error::LimitReached { which, .. }) => assert_eq!(which, limit),
        other => panic!("expected `LimitReached`, got {other:?}"),
    }
}

#[tokio::test]
async fn sandboxes_of_a_tenant_that_are_added_at_once_stay_within_its_limit() {
    let temporary = Temporary::new();
    let catalog = with_room_for_one(&temporary).await;
    let gate = Gate::close(&temporary, &["sandboxes"]).await;
    let [one, two] = ["a", "b"].map(|id| sandbox(ALICE, id));
    let add = |one| catalog.add_sandbox(one, NO_LIMITS);
    let added = gate.meet(add(&one), add(&two)).await;
    assert_one_fits(added, Limit::SandboxesOfTenant);
}

#[tokio::test]
async fn workspaces_of_a_tenant_that_are_added_at_once_stay_within_its_limit() {
    let temporary = Temporary::new();
    let catalog = with_room_for_one(&temporary).await;
    let gate = Gate::close(&temporary, &["workspaces"]).await;
    let [one, two] = ["a", "b"].map(|id| workspace(ALICE, id, None));
    let added = gate.meet(catalog.add_workspace(&one), catalog.add_workspace(&two));
    assert_one_fits(added.await, Limit::WorkspacesOfTenant);
}

#[tokio::test]
async fn projects_of_a_tenant_that_are_added_at_once_stay_within_its_limit() {
    let temporary = Temporary::new();
    let catalog = with_room_for_one(&temporary).await;
    let gate = Gate::close(&temporary, &["projects"]).await;
    let [one, two] = ["a", "b"].map(|id| project(ALICE, id));
    let policy = serde_json::json!({});
    let add = |one| catalog.add_project(one, &policy);
    let added = gate.meet(add(&one), add(&two)).await;
    assert_one_fits(added, Limit::ProjectsOfTenant);
}

#[tokio::test]
async fn sandboxes_of_a_key_that_are_added_at_once_stay_within_its_limit() {
    let temporary = Temporary::new();
    furnished(&temporary).await.close().await;
    let catalog = temporary.open_patiently().await;
    let gate = Gate::close(&temporary, &["sandboxes"]).await;
    let of_key = AddLimits {
        per_key: Some(1),
        total: None,
    };
    let [one, two] = ["a", "b"].map(|id| sandbox(ALICE, id));
    let add = |one| catalog.add_sandbox(one, of_key);
    let added = gate.meet(add(&one), add(&two)).await;
    assert_one_fits(added, Limit::SandboxesOfKey);
}

/// The sandboxes are of two tenants, which have no lock in common.
#[tokio::test]
async fn sandboxes_of_two_tenants_that_are_added_at_once_stay_within_the_limit_of_the_server() {
    let temporary = Temporary::new();
    furnished(&temporary).await.close().await;
    let catalog = temporary.open_patiently().await;
    let gate = Gate::close(&temporary, &["sandboxes"]).await;
    let of_server = AddLimits {
        per_key: None,
        total: Some(1),
    };
    let (one, two) = (sandbox(ALICE, "a"), sandbox(BOB, "b"));
    let add = |one| catalog.add_sandbox(one, of_server);
    let added = gate.meet(add(&one), add(&two)).await;
    assert_one_fits(added, Limit::Sandboxes);
}

/// Adds rows until a table has one less than the maximum; `counted` selects the
/// rows that count.
async fn fill(temporary: &Temporary, table: &str, columns: &str, values: &str, counted: &str) {
    let insert = format!(
        "INSERT INTO {table} ({columns}) SELECT {values} FROM generate_series(1, {MAX_LISTED} - 1 \
         - (SELECT count(*) FROM {table} WHERE {counted})) n"
    );
    let mut connection = PgConnection::connect(&temporary.0.url()).await.unwrap();
    let filled = sqlx::raw_sql(AssertSqlSafe(insert)).execute(&mut connection);
    filled.await.unwrap();
}

/// The condition on the rows of Alice, and her id.
const OF_ALICE: &str = "tenant = '\\xa1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1'";

#[tokio::test]
async fn agents_that_are_added_at_once_stay_within_the_maximum() {
    let temporary = Temporary::new();
    furnished(&temporary).await.close().await;
    let values = "decode(repeat('a1', 16), 'hex'), 'agt-' || n, n::text, 1";
    let columns = "tenant, id, name, created";
    fill(&temporary, "agents", columns, values, OF_ALICE).await;
    let catalog = temporary.open_patiently().await;
    let gate = Gate::close(&temporary, &["agents"]).await;
    let [one, two] = ["one", "two"].map(|id| agent(ALICE, id));
    let added = gate.meet(catalog.add_agent(&one), catalog.add_agent(&two));
    assert_one_fits(added.await, Limit::Agents);
}

#[tokio::test]
async fn keys_that_are_added_at_once_stay_within_the_maximum() {
    let temporary = Temporary::new();
    furnished(&temporary).await.close().await;
    let values = "decode(repeat('a1', 16), 'hex'), 'key-' || n, '', \
                  decode(lpad(to_hex(n), 64, '0'), 'hex'), '[]', '{}', 1";
    let columns = "tenant, id, name, hash, scopes, limits, created";
    fill(&temporary, "api_keys", columns, values, OF_ALICE).await;
    let catalog = temporary.open_patiently().await;
    let gate = Gate::close(&temporary, &["api_keys"]).await;
    let [one, two] = ["one", "two"].map(|id| key(ALICE, id, None));
    let added = gate.meet(catalog.add_key(&one), catalog.add_key(&two));
    assert_one_fits(added.await, Limit::Keys);
}

#[tokio::test]
async fn webhooks_that_are_added_at_once_stay_within_the_maximum() {
    let temporary = Temporary::new();
    furnished(&temporary).await.close().await;
    let catalog = temporary.open_patiently().await;
    for n in 1..MAX_WEBHOOKS {
        catalog.add_webhook(&webhook(&n.to_string())).await.unwrap();
    }
    let gate = Gate::close(&temporary, &["webhooks"]).await;
    let [one, two] = ["one", "two"].map(webhook);
    let added = gate.meet(catalog.add_webhook(&one), catalog.add_webhook(&two));
    assert_one_fits(added.await, Limit::Webhooks);
}

#[tokio::test]
async fn tenants_that_are_added_at_once_stay_within_the_maximum() {
    let temporary = Temporary::new();
    furnished(&temporary).await.close().await;
    let values = "decode(lpad(to_hex(n), 32, '0'), 'hex'), n::text, 1";
    fill(&temporary, "tenants", "id, name, created", values, "true").await;
    let catalog = temporary.open_patiently().await;
    let gate = Gate::close(&temporary, &["tenants"]).await;
    let [one, two] =
        [0xee, 0xef].map(|n| tenant(elevo_core::TenantId::new([n; 16]), &format!("name {n}")));
    let added = gate.meet(catalog.add_tenant(&one), catalog.add_tenant(&two));
    assert_one_fits(added.await, Limit::Tenants);
}

#[tokio::test]
async fn templates_that_are_added_at_once_stay_within_the_maximum() {
    let temporary = Temporary::new();
    furnished(&temporary).await.close().await;
    let values = "n::text, '', '[]', 0, false, 1";
    let columns = "name, image, tags, size, writable_root, created";
    fill(&temporary, "templates", columns, values, "true").await;
    let catalog = temporary.open_patiently().await;
    let gate = Gate::close(&temporary, &["templates"]).await;
    let [one, two] = ["one", "two"].map(|name| Template {
        name: name.into(),
        image: "image".into(),
        description: None,
        tags: Vec::new(),
        size: 1,
        writable_root: false,
        created: at(1),
    });
    let added = gate.meet(catalog.put_template(&one), catalog.put_template(&two));
    assert_one_fits(added.await, Limit::Templates);
}

/// Both are new nodes.
#[tokio::test]
async fn sessions_that_begin_at_once_have_different_numbers() {
    let temporary = Temporary::new();
    let catalog = temporary.open_patiently().await;
    let begin = |node| catalog.begin_session(node, Duration::from_secs(10), at(100));
    begin("first").await.unwrap();
    let gate = Gate::close(&temporary, &["nodes"]).await;
    let (one, two) = gate.meet(begin("one"), begin("two")).await;
    let (one, two) = (one.unwrap(), two.unwrap());
    assert!(one.session < two.session && one.id < two.id);
}

#[tokio::test]
async fn a_catalog_is_not_given_away_while_a_session_begins() {
    let temporary = Temporary::new();
    let catalog = temporary.open_patiently().await;
    let gate = Gate::close(&temporary, &["nodes"]).await;
    let begin = catalog.begin_session("one", Duration::from_secs(60), at(100));
    let (begun, given) = gate.meet(begin, catalog.give_to("two", at(100))).await;
    begun.unwrap();
    assert!(!given.unwrap());
}
