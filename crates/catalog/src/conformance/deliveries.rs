//! Checks of the deliveries of events to webhooks.

use crate::catalog::*;
use crate::conformance::backend::Backend;
use crate::conformance::events::{add_events, note};
use crate::conformance::samples::{ALICE, BOB, at, furnished, id_of};
use crate::conformance::webhooks::webhook;
use crate::records::{Attempt, DeliveryState, EventKind, NewEvent, Webhook};

/// A webhook gets each event once, in order, from the time at which the webhook was
/// added, and no event that it may not see.
pub async fn a_webhook_gets_the_events_that_it_may_see(backend: &impl Backend) {
    let catalog = furnished(backend).await;
    add_events(&catalog, &[note("before", 0)]).await;
    catalog.add_webhook(&webhook("a")).await.expect("added");
    let some = Webhook {
        kinds: vec![EventKind::SandboxError],
        ..webhook("some")
    };
    catalog.add_webhook(&some).await.expect("added");
    let others = NewEvent {
        tenant: BOB,
        kind: EventKind::SandboxError,
        ..note("b", 1)
    };
    let error = NewEvent {
        kind: EventKind::SandboxError,
        ..note("a", 2)
    };
    add_events(&catalog, &[others, error.clone(), note("a", 3)]).await;
    let queue = async |id: &str, limit| {
        let queued = catalog
            .queue_deliveries(Some(ALICE), &id_of(id), limit, at(200))
            .await;
        queued.expect("queued")
    };
    assert_eq!(queue("a", 2).await, 2);
    assert_eq!(queue("a", 2).await, 1);
    assert_eq!(queue("a", 2).await, 0);
    assert_eq!(queue("some", 1000).await, 3);
    assert_eq!(queue("unknown", 1000).await, 0);
    let told = async |id: &str| {
        let pending = catalog
            .pending_deliveries(Some(ALICE), &id_of(id), 10)
            .await
            .expect("pending");
        pending
            .into_iter()
            .map(|one| one.event.event)
            .collect::<Vec<_>>()
    };
    assert_eq!(told("a").await, [error.clone(), note("a", 3)]);
    assert_eq!(told("some").await, [error]);
}

/// The outcomes of attempts are recorded, and a replayed delivery is pending as
/// if it had never been tried.
pub async fn attempts_are_recorded_and_deliveries_replayed(backend: &impl Backend) {
    let catalog = furnished(backend).await;
    catalog.add_webhook(&webhook("a")).await.expect("added");
    let ids = add_events(&catalog, &[0, 1, 2].map(|n| note("s", n))).await;
    catalog
        .queue_deliveries(Some(ALICE), &id_of("a"), 10, at(200))
        .await
        .expect("queued");
    let attempt = |event, state, status: Option<u16>, error: Option<&str>| Attempt {
        event,
        state,
        attempts: 2,
        due: at(300),
        status,
        error: error.map(Into::into),
    };
    let attempts = [
        attempt(ids[0], DeliveryState::Delivered, Some(204), None),
        attempt(
            ids[1],
            DeliveryState::Failed,
            Some(500),
            Some("it said no\0"),
        ),
        attempt(ids[2], DeliveryState::Pending, None, Some("no connection")),
        attempt(u64::MAX, DeliveryState::Failed, None, None),
    ];
    catalog
        .note_attempts(Some(ALICE), &id_of("a"), &attempts, at(210))
        .await
        .expect("noted");
    let found = catalog
        .deliveries(Some(ALICE), &id_of("a"), None, None, 10)
        .await
        .expect("list");
    let seen: Vec<_> = found
        .iter()
        .map(|one| (one.event.id, one.state, one.status))
        .collect();
    let expected = [
        (ids[2], DeliveryState::Pending, None),
        (ids[1], DeliveryState::Failed, Some(500)),
        (ids[0], DeliveryState::Delivered, Some(204)),
    ];
    assert_eq!(seen, expected);
    assert_eq!(found[1].error.as_deref(), Some("it said no?"));
    assert_eq!(
        (found[0].attempts, found[0].due, found[0].updated),
        (2, at(300), at(210))
    );
    let failed = catalog
        .deliveries(
            Some(ALICE),
            &id_of("a"),
            Some(DeliveryState::Failed),
            None,
            10,
        )
        .await;
    assert_eq!(failed.expect("list").len(), 1);
    let before = catalog
        .deliveries(Some(ALICE), &id_of("a"), None, Some(ids[1]), 10)
        .await;
    assert_eq!(before.expect("list")[0].event.id, ids[0]);
    assert!(
        catalog
            .replay(Some(ALICE), &id_of("a"), ids[1], at(220))
            .await
            .expect("replayed")
    );
    assert!(
        !catalog
            .replay(Some(ALICE), &id_of("a"), u64::MAX, at(220))
            .await
            .expect("none")
    );
    let pending = catalog
        .pending_deliveries(Some(ALICE), &id_of("a"), 10)
        .await
        .expect("pending");
    assert_eq!(pending.len(), 2);
    let again = &pending[0];
    assert_eq!(
        (again.event.id, again.attempts, again.due),
        (ids[1], 0, at(220))
    );
    assert_eq!((again.status, &again.error), (None, &None));
}
