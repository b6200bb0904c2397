//! Copies that fail leave the destination empty.

use std::mem;

use elevo_testkit::wire::{Fault, Wire};
use tokio::sync::Notify;

use super::databases::{File, Server, assert_empty, assert_same, copy, dump_of};
use super::filled::filled;
use crate::catalog::Catalog;
use crate::conformance::Backend;
use crate::error::{Error, Result};
use crate::transfer::{AnyCatalog, Transferred, transfer};

fn assert_damaged(result: Result<Vec<Transferred>>, parts: &[&str]) {
    match result {
        Err(Error::Damaged(text)) => {
            let has_all = parts.iter().all(|part| text.contains(part));
            assert!(has_all, "{text}: {parts:?}");
        }
        other => panic!("expected `Damaged`, got {other:?}"),
    }
}

async fn is_empty(catalog: &impl Catalog) -> bool {
    catalog.tenants().await.unwrap().is_empty()
}

/// Copies a catalog. Cuts the connection to PostgreSQL at a round trip after the
/// first batch: before it, the pool can replace a broken connection.
async fn copy_and_cut<'a, 'b>(
    from: impl Into<AnyCatalog<'a>>,
    to: impl Into<AnyCatalog<'b>>,
    wire: &Wire,
    nth: u64,
) -> Result<Vec<Transferred>> {
    let mut is_first = true;
    let mut progress = |_: &Transferred| {
        if mem::take(&mut is_first) {
            wire.set(Fault::CutAtTrip { nth });
        }
    };
    transfer(from.into(), to.into(), &mut progress).await
}

/// Cuts the connection at ever later round trips, until a copy succeeds.
#[tokio::test]
async fn a_cut_connection_to_the_destination_leaves_it_empty() {
    let (file, server) = (File::new(), Server::new());
    let sqlite = filled(&file).await;
    let direct = server.open().await;
    let wire = server.0.wire();
    let mut failed = 0;
    for nth in (1..).step_by(13) {
        let catalog = Server::open_at(&server.0.url_through(&wire)).await;
        let result = copy_and_cut(&sqlite, &catalog, &wire, nth).await;
        wire.heal();
        // The answer to the commit may be the one that was lost.
        if result.is_ok() || !is_empty(&direct).await {
            break;
        }
        assert!(matches!(result, Err(Error::Failed(_))), "{result:?}");
        assert_empty(&direct).await;
        failed += 1;
    }
    assert!(failed > 4, "{failed}");
    assert_same(&dump_of(&direct).await, &file.dump().await);
}

#[tokio::test]
async fn a_cut_connection_to_the_source_leaves_the_destination_empty() {
    let (first, server, second) = (File::new(), Server::new(), File::new());
    let sqlite = filled(&first).await;
    copy(&sqlite, &server.open().await).await.unwrap();
    let wire = server.0.wire();
    let back = second.open().await;
    let mut failed = 0;
    for nth in (1..).step_by(9) {
        let catalog = Server::open_at(&server.0.url_through(&wire)).await;
        let result = copy_and_cut(&catalog, &back, &wire, nth).await;
        wire.heal();
        if result.is_ok() {
            break;
        }
        assert!(matches!(result, Err(Error::Failed(_))), "{result:?}");
        assert_empty(&back).await;
        failed += 1;
    }
    assert!(failed > 4, "{failed}");
    assert_same(&second.dump().await, &first.dump().await);
}

#[tokio::test]
async fn a_dropped_copy_leaves_the_destination_empty() {
    let (file, server, other) = (File::new(), Server::new(), File::new());
    let source = filled(&file).await;
    let (postgres, sqlite) = (server.open().await, other.open().await);
    let destinations: [AnyCatalog; 2] = [(&postgres).into(), (&sqlite).into()];
    for to in destinations {
        let reached = Notify::new();
        let mut progress = |it: &Transferred| {
            if it.table == "landings" {
                reached.notify_one();
            }
        };
        let copying = assert_send(transfer((&source).into(), to, &mut progress));
        tokio::select! {
            biased;
            () = reached.notified() => {}
            copied = copying => panic!("it ended: {copied:?}"),
        }
        assert_empty(to).await;
        copy(&source, to).await.unwrap();
    }
    assert_same(&other.dump().await, &file.dump().await);
}

fn assert_send<F: Future + Send>(future: F) -> F {
    future
}

#[tokio::test]
async fn a_value_that_postgres_cannot_store_is_named() {
    let (file, server) = (File::new(), Server::new());
    let (sqlite, postgres) = (filled(&file).await, server.open().await);
    file.execute("INSERT INTO settings VALUES ('nul', 'a' || char(0))")
        .await;
    let result = copy(&sqlite, &postgres).await;
    assert_damaged(result, &["`settings`", "`value`"]);
    assert_empty(&postgres).await;
}

#[tokio::test]
async fn a_difference_in_postgres_is_found() {
    let file = File::new();
    let sqlite = filled(&file).await;
    for (event, body, parts) in [
        (
            "INSERT ON settings",
            "NEW.value := NEW.value || '!'; RETURN NEW;",
            ["`settings`", "(\"generation\")"],
        ),
        (
            "INSERT ON versions",
            "IF NEW.path = 'a' THEN RETURN NULL; END IF; RETURN NEW;",
            ["`versions`", "(\"prj-p\", 1, 61)"],
        ),
        (
            "INSERT ON templates",
            "NEW.writable_root := NOT NEW.writable_root; RETURN NEW;",
            ["`templates`", "(\"base\")"],
        ),
        (
            "UPDATE ON last_event",
            "RETURN OLD;",
            ["newest event", "is 0"],
        ),
    ] {
        let server = Server::new();
        let postgres = server.open().await;
        let sql = format!(
            "CREATE FUNCTION meddle() RETURNS trigger LANGUAGE plpgsql AS \
                 $$ BEGIN {body} END $$; \
             CREATE TRIGGER meddle BEFORE {event} FOR EACH ROW EXECUTE FUNCTION meddle()"
        );
        server.execute(sql).await;
        assert_damaged(copy(&sqlite, &postgres).await, &parts);
        assert_empty(&postgres).await;
    }
}

#[tokio::test]
async fn a_difference_in_sqlite_is_found() {
    let file = File::new();
    let source = filled(&file).await;
    for (table, change) in [
        ("events", "UPDATE events SET at = at + 1 WHERE id = NEW.id"),
        ("leases", "DELETE FROM leases"),
    ] {
        let other = File::new();
        let catalog = other.open().await;
        let trigger = format!("CREATE TRIGGER meddle AFTER INSERT ON {table} BEGIN {change}; END");
        other.execute(trigger).await;
        let name = format!("`{table}`");
        assert_damaged(copy(&source, &catalog).await, &[&name]);
        other.execute("DROP TRIGGER meddle").await;
        assert_empty(&catalog).await;
        copy(&source, &catalog).await.unwrap();
    }
}
