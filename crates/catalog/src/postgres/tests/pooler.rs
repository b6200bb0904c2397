//! A catalog whose calls go through a pooler in transaction mode.

use std::time::Duration;

use elevo_testkit::postgres::{self, Database};
use futures::future::join_all;

use crate::catalog::{Agents, Events, Tenants};
use crate::conformance::samples::{ALICE, agent, tenant};
use crate::error::Result;
use crate::postgres::{PostgresCatalog, PostgresOptions};

async fn open(database: &Database, url: &str) -> Result<PostgresCatalog> {
    let options = PostgresOptions {
        direct: Some(database.url()),
        is_pooled: true,
        ..PostgresOptions::default()
    };
    PostgresCatalog::open(url, &options).await
}

#[tokio::test]
async fn many_calls_at_once_go_through_a_pooler() {
    let database = Database::create();
    let url = database.url_through_pooler(&postgres::pooler_url());
    let catalog = open(&database, &url).await.unwrap();
    catalog.add_tenant(&tenant(ALICE, "alice")).await.unwrap();
    // More at once than the connections, and of several kinds, so that the
    // statements of the calls meet on the connections of the pooler.
    let calls = (0..200).map(|n| {
        let catalog = &catalog;
        async move {
            let agent = agent(ALICE, &format!("agent-{n}"));
            catalog.add_agent(&agent).await.unwrap();
            let found = catalog.agent(ALICE, &agent.id).await.unwrap();
            assert_eq!(found.as_ref(), Some(&agent));
            assert_eq!(catalog.tenants().await.unwrap().len(), 1);
        }
    });
    join_all(calls).await;
    let newest = catalog.wait_for_event(0, Duration::from_millis(1)).await;
    assert_eq!(newest.unwrap(), 0);
    catalog.close().await;
}

#[tokio::test]
async fn a_pooler_without_prepared_statements_is_refused() {
    let database = Database::create();
    let url = database.url_through_pooler(&postgres::old_pooler_url());
    let refused = open(&database, &url).await.unwrap_err();
    let words = format!("{refused:?}");
    assert!(words.contains("use PgBouncer 1.21"), "{words}");
}
