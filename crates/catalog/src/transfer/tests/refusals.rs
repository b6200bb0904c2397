//! Catalogs that are not copied.

use std::sync::Arc;
use std::time::Duration;

use super::databases::{File, Server, assert_same, copy, dump_of};
use super::filled::filled;
use crate::catalog::{Catalog, Events, Nodes, Settings};
use crate::conformance::samples::at;
use crate::conformance::{Backend, note};
use crate::error::{Error, Result};
use crate::transfer::{Transferred, transfer};

fn assert_refused(result: Result<Vec<Transferred>>, why: &str) {
    match result {
        Err(Error::Refused(text)) => assert!(text.contains(why), "{text}"),
        other => panic!("expected `Refused`, got {other:?}"),
    }
}

/// Uses a catalog in one of several ways; returns a part of the expected error.
async fn use_catalog(catalog: &impl Catalog, way: usize) -> &'static str {
    match way {
        0 => {
            catalog.set_setting("one", "1").await.unwrap();
            "`settings`"
        }
        1 => {
            // It has ended, so the catalog can be copied.
            let begun = catalog.begin_session("one", Duration::ZERO, at(100));
            begun.await.unwrap();
            "`nodes`"
        }
        2 => {
            catalog.add_event(&note("a", 1)).await.unwrap();
            "events"
        }
        _ => {
            catalog.add_event(&note("a", 1)).await.unwrap();
            catalog.last_event().await.unwrap();
            assert_eq!(catalog.forget_events(at(10_000)).await.unwrap(), 1);
            "events"
        }
    }
}

#[tokio::test]
async fn a_used_file_is_refused_and_unchanged() {
    let file = File::new();
    let source = filled(&file).await;
    for way in 0..4 {
        let used = File::new();
        let catalog = used.open().await;
        let why = use_catalog(&catalog, way).await;
        let before = used.dump().await;
        assert_refused(copy(&source, &catalog).await, why);
        assert_same(&used.dump().await, &before);
        // No lock is left behind.
        catalog.set_setting("two", "2").await.unwrap();
    }
}

#[tokio::test]
async fn a_used_database_is_refused_and_unchanged() {
    let file = File::new();
    let source = filled(&file).await;
    for way in 0..4 {
        let used = Server::new();
        let catalog = used.open().await;
        let why = use_catalog(&catalog, way).await;
        let before = dump_of(&catalog).await;
        assert_refused(copy(&source, &catalog).await, why);
        assert_same(&dump_of(&catalog).await, &before);
        catalog.set_setting("two", "2").await.unwrap();
    }
}

#[tokio::test]
async fn a_catalog_is_not_copied_to_itself() {
    let file = File::new();
    let catalog = filled(&file).await;
    let before = file.dump().await;
    assert_refused(copy(&catalog, &catalog).await, "not empty");
    assert_same(&file.dump().await, &before);
}

#[tokio::test]
async fn other_tables_are_refused() {
    let file = File::new();
    let sqlite = filled(&file).await;
    for (change, table) in [
        ("CREATE TABLE notes (id bigint PRIMARY KEY)", "(notes)"),
        ("DROP TABLE leases", "(leases)"),
        ("ALTER TABLE tags ADD COLUMN color text", "(tags)"),
        ("ALTER TABLE tags ADD COLUMN price numeric", "numeric"),
        ("CREATE TABLE notes (id bigint)", "primary key"),
        (
            "ALTER TABLE tenants ADD FOREIGN KEY (id, name) REFERENCES agents (tenant, name)",
            "cycle",
        ),
    ] {
        let server = Server::new();
        let postgres = server.open().await;
        server.execute(change).await;
        assert_refused(copy(&sqlite, &postgres).await, table);
    }
}

/// As if a server had recorded an event between the numbering and the copy.
#[tokio::test]
async fn events_without_a_number_are_refused() {
    let server = Server::new();
    let postgres = server.open().await;
    server
        .execute(
            "CREATE OR REPLACE FUNCTION number_events_1() RETURNS bigint \
                 LANGUAGE sql AS 'SELECT 0::bigint'",
        )
        .await;
    postgres.add_event(&note("a", 1)).await.unwrap();
    let result = copy(&postgres, &File::new().open().await).await;
    assert_refused(result, "stop all its servers");
}

const DAY: Duration = Duration::from_secs(24 * 3600);

#[tokio::test]
async fn a_database_with_a_session_is_not_copied() {
    let (file, server, other) = (File::new(), Server::new(), File::new());
    let catalog = server.open().await;
    copy(&filled(&file).await, &catalog).await.unwrap();
    let session = catalog.begin_session("one", DAY, at(100)).await.unwrap();
    let to = other.open().await;
    assert_refused(copy(&catalog, &to).await, "a server uses the catalog");
    let ended = catalog.renew_session(session.session, Duration::ZERO, at(100));
    assert!(ended.await.unwrap());
    copy(&catalog, &to).await.unwrap();
}

/// A server that was thought to have ended renews its session. Another one cannot
/// begin a session before the copy has ended.
#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_comes_into_use_during_the_copy_is_not_copied() {
    let (file, server) = (File::new(), Server::new());
    let catalog = Arc::new(server.open().await);
    copy(&filled(&file).await, &*catalog).await.unwrap();
    let paused = catalog.begin_session("one", Duration::ZERO, at(100));
    let paused = paused.await.unwrap();
    let (other, later) = (File::new(), File::new());
    let mut renewals = 0;
    let mut renew = |_: &Transferred| {
        let (catalog, session) = (catalog.clone(), paused.session);
        let renew = async move {
            catalog
                .renew_session(session, Duration::ZERO, at(100))
                .await
        };
        assert!(wait_for(renew).unwrap());
        renewals += 1;
    };
    let to = other.open().await;
    let copied = transfer((&*catalog).into(), (&to).into(), &mut renew).await;
    assert_refused(copied, "a server uses the catalog");
    assert!(renewals > 0);

    let mut begun = None;
    let mut begin = |_: &Transferred| {
        let catalog = catalog.clone();
        begun.get_or_insert_with(|| {
            tokio::spawn(async move { catalog.begin_session("two", DAY, at(100)).await })
        });
    };
    let to = later.open().await;
    transfer((&*catalog).into(), (&to).into(), &mut begin)
        .await
        .unwrap();
    let begun = begun.unwrap().await.unwrap().unwrap();
    assert!(!to.sessions().await.unwrap().contains(&begun));
}

fn wait_for<T: Send>(work: impl Future<Output = T> + Send) -> T {
    tokio::task::block_in_place(|| tokio::runtime::Handle::current().block_on(work))
}
