//! The number of round trips of frequent calls.

use elevo_testkit::wire::Wire;

use super::Temporary;
use crate::catalog::{Catalog, Keys, Landings, Sandboxes};
use crate::conformance::samples::{
    ALICE, KEY, NO_LIMITS, added, full_step, furnished_with_project, id_of, key, landing, sandbox,
    snapshot, step,
};
use crate::postgres::PostgresCatalog;
use crate::records::{Project, Step};

/// A catalog with sample records, on one connection through a proxy.
struct Counted {
    catalog: PostgresCatalog,
    project: Project,
    wire: Wire,
    /// Deleted last.
    _temporary: Temporary,
}

impl Counted {
    async fn open() -> Self {
        let temporary = Temporary::new();
        let (direct, project) = furnished_with_project(&temporary).await;
        direct.close().await;
        let wire = temporary.0.wire();
        let catalog = temporary.open_through(&wire).await;
        // Connects.
        catalog.check().await.unwrap();
        Self {
            catalog,
            project,
            wire,
            _temporary: temporary,
        }
    }

    /// Counts the round trips of statements that are transactions of their own.
    ///
    /// The pool checks its connection after each statement, when the caller has
    /// the result already. Those trips are left out: there is one for each
    /// statement, and one for the connection that this waits for.
    async fn trips(&self, work: impl Future<Output = ()>) -> u64 {
        let pool = self.catalog.database.pool();
        let connection = pool.acquire().await.unwrap();
        let before = self.wire.trips();
        drop(connection);
        work.await;
        let _connection = pool.acquire().await.unwrap();
        let found = self.wire.trips() - before;
        assert_eq!(found.connections, 0);
        assert_eq!(found.trips % 2, 1, "a check before a statement: {found:?}");
        found.trips / 2
    }
}

#[tokio::test]
async fn a_landing_takes_one_trip() {
    let counted = Counted::open().await;
    let land = async |n: u64| {
        let changes = vec![added("one", n as u8), added("other", n as u8)];
        let step = Step {
            changes,
            ..step(snapshot(n))
        };
        let landing = landing(&counted.project, snapshot(n - 1), vec![step]);
        let landed = counted.catalog.land(&landing).await;
        assert_eq!(landed.unwrap().sequence, n);
    };
    // Prepares the statement.
    land(1).await;
    assert_eq!(counted.trips(land(2)).await, 1);
}

#[tokio::test]
async fn a_landing_that_changes_reviews_takes_two_trips() {
    let counted = Counted::open().await;
    let full = full_step(&counted.project);
    // Prepares the statements; the landing is refused.
    let moved = landing(&counted.project, snapshot(77), vec![full.clone()]);
    counted.catalog.land(&moved).await.unwrap_err();
    let full = landing(&counted.project, counted.project.head, vec![full]);
    let land = async || {
        let landed = counted.catalog.land(&full).await;
        assert_eq!(landed.unwrap().sequence, 1);
    };
    assert_eq!(counted.trips(land()).await, 2);
}

#[tokio::test]
async fn a_sandbox_is_read_in_one_trip() {
    let counted = Counted::open().await;
    let read = async || {
        let found = counted.catalog.sandbox(ALICE, &id_of("x")).await;
        assert!(found.unwrap().is_none());
    };
    read().await;
    assert_eq!(counted.trips(read()).await, 1);
}

/// The lookup of a command: the key of the request, its tenant and the sandbox.
#[tokio::test]
async fn a_key_and_a_sandbox_are_read_in_one_trip() {
    let counted = Counted::open().await;
    let (catalog, hash) = (&counted.catalog, key(ALICE, KEY, None).hash);
    let one = sandbox(ALICE, "a");
    catalog.add_sandbox(&one, NO_LIMITS).await.unwrap();
    let read = async || {
        let found = catalog.access_of_any_tenant(&hash, Some(&one.id)).await;
        assert!(found.unwrap().unwrap().sandbox.is_some());
    };
    read().await;
    assert_eq!(counted.trips(read()).await, 1);
}
