//! The numbers of events, and lists of one moment.

use futures::future::join;
use sqlx::{Connection, PgConnection};

use super::{Gate, Temporary};
use crate::catalog::Sandboxes;
use crate::conformance::samples::{ALICE, NO_LIMITS, furnished, of_tenant, sandbox};

/// Records an event that has no number yet.
const INSERT: &str = "INSERT INTO outbox (tenant, kind, subject, at, data) \
     VALUES (decode(repeat('a1', 16), 'hex'), 'project.landed', 'subject', 1, '{}')";

/// Not the text that the background tasks run.
const NUMBER: &str = "SELECT newest FROM number_events_1() newest";

/// The second reader begins before the first one commits, and so before the
/// number that it continues from is known.
#[tokio::test]
async fn events_that_two_readers_number_at_once_get_different_numbers() {
    let temporary = Temporary::new();
    // Without background tasks, which number events as well.
    furnished(&temporary).await.close().await;
    let connect = async || PgConnection::connect(&temporary.0.url()).await.unwrap();
    let (mut one, mut two) = (connect().await, connect().await);
    let gate = Gate::close(&temporary, &["events"]).await;
    sqlx::query(INSERT).execute(&mut one).await.unwrap();
    let first = sqlx::query_scalar(NUMBER).fetch_one(&mut one);
    let second = async {
        sqlx::query(INSERT).execute(&mut two).await?;
        sqlx::query_scalar(NUMBER).fetch_one(&mut two).await
    };
    let (first, second) = gate.meet(first, second).await;
    let numbers: (i64, i64) = (first.unwrap(), second.unwrap());
    assert_eq!(numbers, (1, 2));
}

/// The list waits between its total and its items, since only the items need
/// the table of workspaces.
#[tokio::test]
async fn a_list_does_not_have_a_sandbox_that_its_total_does_not_count() {
    let temporary = Temporary::new();
    furnished(&temporary).await.close().await;
    let catalog = temporary.open_patiently().await;
    let mut gate = Gate::close(&temporary, &[]).await;
    let mut holder = PgConnection::connect(&temporary.0.url()).await.unwrap();
    let lock = sqlx::raw_sql("BEGIN; LOCK TABLE workspaces").execute(&mut holder);
    lock.await.unwrap();
    let query = of_tenant(ALICE);
    let add = async {
        gate.wait_for(1).await;
        let one = sandbox(ALICE, "a");
        catalog.add_sandbox(&one, NO_LIMITS).await.unwrap();
        sqlx::raw_sql("COMMIT").execute(&mut holder).await.unwrap();
    };
    let (page, ()) = join(catalog.sandboxes(&query), add).await;
    let page = page.unwrap();
    assert_eq!((page.items.len(), page.total), (0, 0));
}
