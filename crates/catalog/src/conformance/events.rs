//! Checks of events.

use std::time::Duration;

use elevo_core::SandboxState;
use futures::future::join_all;
use serde_json::json;
use tokio::time::{sleep, timeout};

use crate::catalog::*;
use crate::change::SandboxChange;
use crate::conformance::backend::Backend;
use crate::conformance::samples::{
    AGENT, AGENT_KEYS, ALICE, BOB, NO_LIMITS, add, add_workspace, at, full_step, furnished,
    furnished_with_project, id_of, land, sandbox, workspace,
};
use crate::conformance::webhooks::webhook;
use crate::error::Error;
use crate::limits::MAX_PAGE;
use crate::query::AddLimits;
use crate::records::{
    Attempt, DeliveryState, Event, EventKind, EventQuery, NewEvent, Sandbox, Workspace,
    WorkspaceChange, WorkspaceState,
};

pub(crate) fn all() -> EventQuery {
    EventQuery {
        limit: MAX_PAGE,
        ..EventQuery::default()
    }
}

/// Returns the events of a query as soon as at least `count` are visible.
pub(crate) async fn visible(
    catalog: &impl Catalog,
    query: &EventQuery,
    count: usize,
) -> Vec<Event> {
    let waiting = async {
        loop {
            let events = catalog.events(query).await.expect("events");
            if events.len() >= count {
                return events;
            }
            sleep(Duration::from_millis(1)).await;
        }
    };
    let found = timeout(Duration::from_secs(60), waiting).await;
    found.expect("every recorded event becomes visible")
}

/// Adds events; returns their numbers as soon as all of them are visible. All
/// earlier events of their kinds must be visible.
pub(crate) async fn add_events(catalog: &impl Catalog, events: &[NewEvent]) -> Vec<u64> {
    let query = EventQuery {
        after: catalog.last_event().await.expect("last"),
        kinds: events.iter().map(|event| event.kind).collect(),
        ..all()
    };
    for event in events {
        catalog.add_event(event).await.expect("added");
    }
    let found = visible(catalog, &query, events.len()).await;
    found.iter().map(|event| event.id).collect()
}

async fn kinds(catalog: &impl Catalog, query: &EventQuery) -> Vec<EventKind> {
    let events = catalog.events(query).await.expect("events");
    events.into_iter().map(|event| event.event.kind).collect()
}

pub(crate) fn note(subject: &str, n: u64) -> NewEvent {
    NewEvent {
        tenant: ALICE,
        agent: None,
        kind: EventKind::AgentConnected,
        subject: subject.into(),
        at: at(100 + n as i64),
        data: json!({ "n": n }),
    }
}

/// A webhook that lags behind keeps only the events of its tenant from being
/// deleted.
pub async fn a_webhook_keeps_no_events_of_other_tenants(backend: &impl Backend) {
    let catalog = furnished(backend).await;
    catalog.add_webhook(&webhook("a")).await.expect("added");
    let theirs = NewEvent {
        tenant: BOB,
        ..note("theirs", 1)
    };
    add_events(&catalog, &[note("ours", 0), theirs]).await;
    let forgotten = catalog.forget_events(at(1000)).await;
    assert_eq!(forgotten.expect("forgotten"), 1);
    let left = catalog.events(&all()).await.expect("listed");
    assert_eq!(left.len(), 1);
    assert_eq!(left[0].event.subject, "ours");
}

/// Promise 18: adding, changing and deleting a sandbox records events with the
/// state at that time; a failed change records none.
pub async fn a_change_of_a_sandbox_records_an_event(backend: &impl Backend) {
    let catalog = furnished(backend).await;
    let one = Sandbox {
        agent: Some(id_of(AGENT)),
        key: id_of(AGENT_KEYS[0]),
        ..sandbox(ALICE, "a")
    };
    add(&catalog, &one).await;
    let change = SandboxChange {
        to: Some(SandboxState::Running),
        tells: vec![EventKind::SandboxRunning, EventKind::SandboxCreated],
        ..SandboxChange::default()
    };
    catalog
        .change_sandbox(ALICE, &id_of("a"), &change, at(101))
        .await
        .expect("it starts");
    // A failed change records no event.
    catalog
        .change_sandbox(ALICE, &id_of("a"), &change, at(102))
        .await
        .expect_err("it runs");
    let limits = AddLimits {
        total: Some(1),
        ..NO_LIMITS
    };
    let refused = catalog.add_sandbox(&sandbox(ALICE, "b"), limits).await;
    refused.expect_err("one is the limit");
    assert!(
        catalog
            .remove_sandbox(ALICE, &id_of("a"), at(103))
            .await
            .expect("remove")
    );
    assert!(
        !catalog
            .remove_sandbox(ALICE, &id_of("a"), at(104))
            .await
            .expect("remove")
    );
    let events = visible(&catalog, &all(), 4).await;
    let expected = [
        (EventKind::SandboxStarting, "starting", 100),
        (EventKind::SandboxRunning, "running", 101),
        (EventKind::SandboxCreated, "running", 101),
        (EventKind::SandboxDeleted, "running", 103),
    ];
    assert_eq!(events.len(), expected.len(), "{events:?}");
    for (Event { event, .. }, (kind, state, seconds)) in events.iter().zip(expected) {
        assert_eq!((event.kind, event.at), (kind, at(seconds)));
        assert_eq!((event.tenant, &*event.subject), (ALICE, "sbx-a"));
        assert_eq!(event.agent.as_deref(), Some(AGENT));
        let data = json!({"sandboxId": "sbx-a", "name": null, "state": state, "reason": null,
            "template": "base", "createdAt": 100_000_000, "expiresAt": 1_000_000_000});
        assert_eq!(event.data, data);
    }
}

/// Checks the events of two sandboxes that expire, one of which leaves a parked
/// workspace, and of that workspace, which expires later.
pub async fn the_event_of_an_expiry_states_whether_the_workspace_is_parked(backend: &impl Backend) {
    let catalog = furnished(backend).await;
    for (id, parked) in [("a", true), ("b", false)] {
        add(&catalog, &sandbox(ALICE, id)).await;
        let change = SandboxChange {
            removing: Some(true),
            keep_workspace: Some(parked),
            tells: vec![EventKind::SandboxExpired],
            ..SandboxChange::default()
        };
        let marked = catalog
            .change_sandbox(ALICE, &id_of(id), &change, at(1000))
            .await;
        marked.expect("it has expired");
    }
    let parked = Workspace {
        agent: Some(id_of(AGENT)),
        state: WorkspaceState::Parked,
        expires: Some(at(2000)),
        ..workspace(ALICE, "workspace-of-a", None)
    };
    add_workspace(&catalog, &parked).await;
    let change = WorkspaceChange {
        state: Some(WorkspaceState::Removing),
        tells: vec![EventKind::WorkspaceExpired],
        ..WorkspaceChange::default()
    };
    let marked = catalog.change_workspace(ALICE, &parked.id, &change, at(2000));
    marked.await.expect("it has expired");
    let query = EventQuery {
        kinds: vec![EventKind::SandboxExpired, EventKind::WorkspaceExpired],
        ..all()
    };
    let events = visible(&catalog, &query, 3).await;
    let data = |n: usize| &events[n].event.data;
    assert_eq!(data(0)["parked"], true);
    assert_eq!(data(0)["workspace"], "workspace-of-a");
    assert_eq!(data(1)["parked"], false);
    let expected = json!({"workspace": "workspace-of-a", "project": null, "name": null,
        "createdAt": 100_000_000, "expiresAt": 2_000_000_000});
    assert_eq!(data(2), &expected);
    let last = &events[2].event;
    assert_eq!((&*last.subject, last.at), ("workspace-of-a", at(2000)));
    assert_eq!(last.agent.as_deref(), Some(AGENT));
}

/// Checks promise 18: a landing records the move of the head, and the reviews
/// that it ends and opens.
pub async fn a_landing_records_its_events(backend: &impl Backend) {
    let (catalog, one) = furnished_with_project(backend).await;
    let before = catalog.last_event().await.expect("last");
    land(&catalog, &one, vec![full_step(&one)]).await;
    let query = EventQuery {
        after: before,
        ..all()
    };
    let events = visible(&catalog, &query, 3).await;
    let told: Vec<_> = events
        .iter()
        .map(|event| (event.event.kind, event.event.data.clone()))
        .collect();
    assert_eq!(
        told[0],
        (
            EventKind::ProjectLanded,
            json!({"project": "prj-p", "step": 1})
        )
    );
    assert_eq!(told[1].0, EventKind::ReviewClosed);
    assert_eq!(told[1].1["review"], "rev-r");
    assert_eq!(told[2].0, EventKind::ReviewOpened);
    assert_eq!(told[2].1["review"], "rev-s");
    assert!(events.iter().all(|event| event.event.subject == "prj-p"));
}

/// Checks the filters by tenant, agent, kind, subject and number.
pub async fn events_are_found_by_every_filter(backend: &impl Backend) {
    let catalog = furnished(backend).await;
    assert_eq!(catalog.last_event().await.expect("last"), 0);
    let mine = |kind, agent: Option<&str>, subject: &str| NewEvent {
        kind,
        agent: agent.map(id_of),
        ..note(subject, 1)
    };
    let made = [
        mine(EventKind::SandboxRunning, Some(AGENT), "a"),
        mine(EventKind::SandboxRunning, None, "b"),
        mine(EventKind::SandboxRunning, Some("other"), "c"),
        mine(EventKind::ProjectLanded, Some("other"), "p"),
        NewEvent {
            tenant: BOB,
            ..mine(EventKind::SandboxError, Some(AGENT), "a")
        },
    ];
    let ids = add_events(&catalog, &made).await;
    assert!(ids.is_sorted_by(|one, next| one < next));
    assert_eq!(catalog.last_event().await.expect("last"), ids[4]);
    let found = catalog.events(&all()).await.expect("events");
    let found: Vec<_> = found.into_iter().map(|event| event.event).collect();
    assert_eq!(found, made);
    let of = async |query: EventQuery| {
        let found = catalog.events(&query).await.expect("events");
        let index = |id| ids.iter().position(|known| *known == id).expect("known");
        found
            .into_iter()
            .map(|event| index(event.id))
            .collect::<Vec<_>>()
    };
    let tenant = Some(ALICE);
    assert_eq!(of(EventQuery { tenant, ..all() }).await, [0, 1, 2, 3]);
    let agent = Some(id_of(AGENT));
    let bound = EventQuery {
        tenant,
        agent,
        ..all()
    };
    assert_eq!(of(bound).await, [0, 3], "its own, and landings");
    let subject = Some("a".into());
    assert_eq!(of(EventQuery { subject, ..all() }).await, [0, 4]);
    let kinds = vec![EventKind::SandboxError, EventKind::ProjectLanded];
    assert_eq!(of(EventQuery { kinds, ..all() }).await, [3, 4]);
    assert_eq!(
        of(EventQuery {
            after: ids[2],
            ..all()
        })
        .await,
        [3, 4]
    );
    assert_eq!(
        of(EventQuery {
            after: u64::MAX,
            ..all()
        })
        .await,
        [0; 0]
    );
    assert_eq!(of(EventQuery { limit: 2, ..all() }).await, [0, 1]);
    for limit in [0, MAX_PAGE + 1] {
        let refused = catalog.events(&EventQuery { limit, ..all() }).await;
        assert!(matches!(refused, Err(Error::Refused(_))));
    }
}

/// Promise 19: a reader that continues after the last number it has seen misses no
/// event of several concurrent writers.
pub async fn events_are_seen_in_the_order_of_their_numbers(backend: &impl Backend) {
    let catalog = furnished(backend).await;
    let other = backend.open().await;
    let writing = (0..4).map(|writer| {
        let catalog = if writer % 2 == 0 { &catalog } else { &other };
        async move {
            for n in 0..50 {
                let event = note(&format!("s{writer}"), n);
                catalog.add_event(&event).await.expect("added");
            }
        }
    });
    let reading = async {
        let (mut after, mut seen) = (0, Vec::new());
        while seen.len() < 200 {
            let query = EventQuery {
                after,
                limit: 7,
                ..all()
            };
            let events = catalog.events(&query).await.expect("events");
            after = events.last().map_or(after, |event| event.id);
            seen.extend(events);
            tokio::task::yield_now().await;
        }
        seen
    };
    let (_, seen) = futures::future::join(join_all(writing), reading).await;
    for writer in 0..4 {
        let of: Vec<_> = seen
            .iter()
            .filter(|event| event.event.subject == format!("s{writer}"))
            .map(|event| event.event.data["n"].as_u64().expect("a number"))
            .collect();
        assert_eq!(of, Vec::from_iter(0..50));
    }
}

/// Events that are too young, not queued or not delivered are kept, and no
/// number is used again.
pub async fn only_old_delivered_events_are_deleted(backend: &impl Backend) {
    let catalog = furnished(backend).await;
    catalog.add_webhook(&webhook("a")).await.expect("added");
    let events = [0, 1, 2, 3].map(|n| note("s", n));
    let ids = add_events(&catalog, &events).await;
    let forget = async |before| catalog.forget_events(at(before)).await.expect("forgotten");
    assert_eq!(forget(1000).await, 0, "nothing was queued");
    catalog
        .queue_deliveries(Some(ALICE), &id_of("a"), 10, at(200))
        .await
        .expect("queued");
    assert_eq!(forget(1000).await, 0, "nothing was delivered");
    let attempts = ids[..3].iter().map(|event| Attempt {
        event: *event,
        state: DeliveryState::Delivered,
        attempts: 1,
        due: at(200),
        status: Some(200),
        error: None,
    });
    let attempts: Vec<_> = attempts.collect();
    catalog
        .note_attempts(Some(ALICE), &id_of("a"), &attempts, at(201))
        .await
        .expect("noted");
    let forgotten = async |tenant| catalog.forgotten_events(tenant).await.expect("number");
    assert_eq!(forgotten(ALICE).await, 0);
    assert_eq!(forget(102).await, 2, "of before");
    assert_eq!(forgotten(ALICE).await, ids[1]);
    assert_eq!(forget(1000).await, 1);
    assert_eq!(forgotten(ALICE).await, ids[2]);
    assert_eq!(
        forgotten(BOB).await,
        0,
        "no event of this tenant was deleted"
    );
    assert_eq!(forget(1000).await, 0, "one is pending");
    assert!(
        catalog
            .remove_webhook(Some(ALICE), &id_of("a"))
            .await
            .expect("removed")
    );
    assert_eq!(forget(1000).await, 1);
    assert_eq!(kinds(&catalog, &all()).await, []);
    assert_eq!(catalog.last_event().await.expect("last"), ids[3]);
    let next = add_events(&catalog, &[note("s", 9)]).await;
    assert!(next[0] > ids[3], "no number is used twice");
}
