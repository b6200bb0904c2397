//! Calls whose connection breaks.

use elevo_testkit::wire::Fault;

use super::Temporary;
use crate::catalog::{Events, Landings, Projects};
use crate::conformance::samples::{
    ALICE, added, furnished_with_project, id_of, landing, requested, snapshot,
};
use crate::error::Error;
use crate::records::{EventQuery, LandedStep, Step};

/// The database lands, and the client never gets the answer. A retry finds that
/// the request was carried out.
#[tokio::test]
async fn a_landing_without_an_answer_is_found_by_its_request() {
    let temporary = Temporary::new();
    let (direct, project) = furnished_with_project(&temporary).await;
    let wire = temporary.0.wire();
    let catalog = temporary.open_through(&wire).await;
    let land = |n: u64| {
        let step = Step {
            changes: vec![added("one", n as u8)],
            ..requested(snapshot(n), &format!("request {n}"))
        };
        landing(&project, snapshot(n - 1), vec![step])
    };
    catalog.land(&land(1)).await.unwrap();
    let pool = catalog.database.pool();
    for n in 2..5 {
        // The pool checks the connection when it is returned: that is the first
        // trip, and the landing is the second one.
        let connection = pool.acquire().await.unwrap();
        wire.set(Fault::CutAtTrip { nth: 2 });
        drop(connection);
        let failed = catalog.land(&land(n)).await;
        assert!(matches!(failed, Err(Error::Failed(_))), "{failed:?}");

        let expected = LandedStep {
            sequence: Some(n),
            head: snapshot(n),
        };
        let request = format!("request {n}");
        let landed = direct.landing_by_request(ALICE, &project.id, &request);
        assert_eq!(landed.await.unwrap(), Some(expected));
        let again = catalog.land(&land(n)).await;
        assert!(
            matches!(&again, Err(Error::Repeated { landed, .. }) if *landed == expected),
            "{again:?}"
        );
    }
    let now = direct.project(ALICE, &id_of("p")).await.unwrap().unwrap();
    assert_eq!((now.head, now.sequence), (snapshot(4), 4));
}

/// Events are numbered by readers: one that dies meanwhile leaves them to the
/// next one, and none gets two numbers.
#[tokio::test]
async fn a_broken_connection_numbers_each_event_once() {
    let temporary = Temporary::new();
    let (direct, project) = furnished_with_project(&temporary).await;
    let wire = temporary.0.wire();
    let catalog = temporary.open_through(&wire).await;
    let before = direct.last_event().await.unwrap();
    for n in 1..=6 {
        let step = requested(snapshot(n), &format!("request {n}"));
        let step = landing(&project, snapshot(n - 1), vec![step]);
        direct.land(&step).await.unwrap();
        wire.set(Fault::CutAtTrip { nth: 1 });
        // Its result is not known.
        let _ = catalog.last_event().await;
        wire.heal();
    }
    assert_eq!(direct.last_event().await.unwrap(), before + 6);
    let query = EventQuery {
        after: before,
        limit: 100,
        ..EventQuery::default()
    };
    let events = direct.events(&query).await.unwrap();
    let found: Vec<_> = events
        .iter()
        .map(|event| (event.id, event.event.data["step"].as_u64()))
        .collect();
    let expected: Vec<_> = (1..=6).map(|n| (before + n, Some(n))).collect();
    assert_eq!(found, expected);
}
