//! Events and webhooks.

use elevo_core::SandboxState;
use futures::future::join_all;
use serde_json::json;

use super::landings::{full_step, furnished_with_project};
use super::samples::{add_workspace, land, workspace};
use super::{
    AGENT, AGENT_KEYS, ALICE, BOB, NO_LIMITS, Place, add, assert_exists, at, furnished, sandbox,
};
use crate::bounds::{MAX_PAGE, MAX_WEBHOOKS};
use crate::catalog::*;
use crate::change::SandboxChange;
use crate::error::{Error, Kind};
use crate::query::AddLimits;
use crate::records::{
    Attempt, DeliveryState, Event, EventKind, EventQuery, NewEvent, Sandbox, Webhook, Workspace,
    WorkspaceChange, WorkspaceState,
};

fn all() -> EventQuery {
    EventQuery {
        limit: MAX_PAGE,
        ..EventQuery::default()
    }
}

async fn kinds(catalog: &impl Catalog, query: &EventQuery) -> Vec<EventKind> {
    let events = catalog.events(query).await.expect("events");
    events.into_iter().map(|event| event.event.kind).collect()
}

fn note(subject: &str, n: u64) -> NewEvent {
    NewEvent {
        tenant: ALICE,
        agent: None,
        kind: EventKind::AgentConnected,
        subject: subject.into(),
        at: at(100 + n as i64),
        data: json!({ "n": n }),
    }
}

pub(super) fn webhook(id: &str) -> Webhook {
    Webhook {
        id: id.into(),
        tenant: Some(ALICE),
        agent: None,
        url: "https://example.com/hook?a='b'".into(),
        secret: "s3cret \u{1f511}".into(),
        kinds: Vec::new(),
        created: at(50),
    }
}

/// A receiver that lags keeps only the events of its tenant.
pub async fn a_webhook_keeps_no_events_of_other_tenants(place: &impl Place) {
    let catalog = furnished(place).await;
    catalog.add_webhook(&webhook("a")).await.expect("added");
    let theirs = NewEvent {
        tenant: BOB,
        ..note("theirs", 1)
    };
    catalog.add_event(&note("ours", 0)).await.expect("added");
    catalog.add_event(&theirs).await.expect("added");
    let forgotten = catalog.forget_events(at(1000)).await;
    assert_eq!(forgotten.expect("forgotten"), 1);
    let left = catalog.events(&all()).await.expect("listed");
    assert_eq!(left.len(), 1);
    assert_eq!(left[0].event.subject, "ours");
}

/// In the transaction of the change, with the state at that time.
pub async fn a_change_of_a_sandbox_records_an_event(place: &impl Place) {
    let catalog = furnished(place).await;
    let one = Sandbox {
        agent: Some(AGENT.into()),
        key: AGENT_KEYS[0].into(),
        ..sandbox(ALICE, "a")
    };
    add(&catalog, &one).await;
    let change = SandboxChange {
        to: Some(SandboxState::Running),
        tells: vec![EventKind::SandboxRunning, EventKind::SandboxCreated],
        ..SandboxChange::default()
    };
    catalog
        .change_sandbox("a", &change, at(101))
        .await
        .expect("it starts");
    // A failed change records no event.
    catalog
        .change_sandbox("a", &change, at(102))
        .await
        .expect_err("it runs");
    let limits = AddLimits {
        total: Some(1),
        ..NO_LIMITS
    };
    let refused = catalog.add_sandbox(&sandbox(ALICE, "b"), limits).await;
    refused.expect_err("one is the limit");
    assert!(catalog.remove_sandbox("a", at(103)).await.expect("remove"));
    assert!(!catalog.remove_sandbox("a", at(104)).await.expect("remove"));
    let events = catalog.events(&all()).await.expect("events");
    let expected = [
        (EventKind::SandboxStarting, "starting", 100),
        (EventKind::SandboxRunning, "running", 101),
        (EventKind::SandboxCreated, "running", 101),
        (EventKind::SandboxDeleted, "running", 103),
    ];
    assert_eq!(events.len(), expected.len(), "{events:?}");
    for (Event { event, .. }, (kind, state, seconds)) in events.iter().zip(expected) {
        assert_eq!((event.kind, event.at), (kind, at(seconds)));
        assert_eq!((event.tenant, &*event.subject), (ALICE, "a"));
        assert_eq!(event.agent.as_deref(), Some(AGENT));
        let data = json!({"sandboxId": "a", "name": null, "state": state, "reason": null,
            "template": "base", "createdAt": 100_000_000, "expiresAt": 1_000_000_000});
        assert_eq!(event.data, data);
    }
}

/// For the sandbox that ends, and for the parked workspace that ends later.
pub async fn the_event_of_an_expiry_states_whether_the_workspace_is_parked(place: &impl Place) {
    let catalog = furnished(place).await;
    for (id, parked) in [("a", true), ("b", false)] {
        add(&catalog, &sandbox(ALICE, id)).await;
        let change = SandboxChange {
            removing: Some(true),
            keep_workspace: Some(parked),
            tells: vec![EventKind::SandboxExpired],
            ..SandboxChange::default()
        };
        let marked = catalog.change_sandbox(id, &change, at(1000)).await;
        marked.expect("it has expired");
    }
    let parked = Workspace {
        agent: Some(AGENT.into()),
        state: WorkspaceState::Parked,
        expires: Some(at(2000)),
        ..workspace(ALICE, "workspace of a", None)
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
    let events = catalog.events(&query).await.expect("events");
    let data = |n: usize| &events[n].event.data;
    assert_eq!(data(0)["parked"], true);
    assert_eq!(data(0)["workspaceId"], "workspace of a");
    assert_eq!(data(1)["parked"], false);
    let expected = json!({"workspaceId": "workspace of a", "projectId": null, "name": null,
        "createdAt": 100_000_000, "expiresAt": 2_000_000_000});
    assert_eq!(data(2), &expected);
    let last = &events[2].event;
    assert_eq!((&*last.subject, last.at), ("workspace of a", at(2000)));
    assert_eq!(last.agent.as_deref(), Some(AGENT));
}

/// The move of the head, and reviews that end and begin.
pub async fn a_landing_records_its_events(place: &impl Place) {
    let (catalog, one) = furnished_with_project(place).await;
    let before = catalog.last_event().await.expect("last");
    land(&catalog, &one, vec![full_step(&one)]).await;
    let query = EventQuery {
        after: before,
        ..all()
    };
    let events = catalog.events(&query).await.expect("events");
    let told: Vec<_> = events
        .iter()
        .map(|event| (event.event.kind, event.event.data.clone()))
        .collect();
    assert_eq!(
        told[0],
        (
            EventKind::ProjectLanded,
            json!({"projectId": "p", "sequence": 1})
        )
    );
    assert_eq!(told[1].0, EventKind::ReviewClosed);
    assert_eq!(told[1].1["reviewId"], "r");
    assert_eq!(told[2].0, EventKind::ReviewOpened);
    assert_eq!(told[2].1["reviewId"], "s");
    assert!(events.iter().all(|event| event.event.subject == "p"));
}

/// By tenant, agent, kind, subject and number.
pub async fn events_are_found_by_every_filter(place: &impl Place) {
    let catalog = furnished(place).await;
    assert_eq!(catalog.last_event().await.expect("last"), 0);
    let mine = |kind, agent: Option<&str>, subject: &str| NewEvent {
        kind,
        agent: agent.map(Into::into),
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
    let mut ids = Vec::new();
    for event in &made {
        ids.push(catalog.add_event(event).await.expect("added"));
    }
    assert!(ids.is_sorted_by(|one, next| one < next));
    assert_eq!(catalog.last_event().await.expect("last"), ids[4]);
    let found = catalog.events(&all()).await.expect("events");
    let found: Vec<_> = found.into_iter().map(|event| event.event).collect();
    assert_eq!(found, made);
    let of = async |query: EventQuery| {
        let found = catalog.events(&query).await.expect("events");
        let place = |id| ids.iter().position(|known| *known == id).expect("known");
        found
            .into_iter()
            .map(|event| place(event.id))
            .collect::<Vec<_>>()
    };
    let tenant = Some(ALICE);
    assert_eq!(of(EventQuery { tenant, ..all() }).await, [0, 1, 2, 3]);
    let agent = Some(AGENT.into());
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

/// A reader that continues from the last number misses nothing, with several
/// concurrent writers.
pub async fn events_are_seen_in_the_order_of_their_numbers(place: &impl Place) {
    let catalog = furnished(place).await;
    let other = place.open().await;
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

/// With all its fields; also the limit for a tenant.
pub async fn a_webhook_comes_back_as_it_was_added(place: &impl Place) {
    let catalog = furnished(place).await;
    let full = Webhook {
        agent: Some(AGENT.into()),
        kinds: vec![EventKind::SandboxError, EventKind::AgentConnected],
        ..webhook("a")
    };
    let server = Webhook {
        tenant: None,
        created: at(60),
        ..webhook("b")
    };
    for one in [&full, &server] {
        catalog.add_webhook(one).await.expect("added");
    }
    assert_exists(catalog.add_webhook(&full).await, Kind::Webhook);
    assert_eq!(
        catalog.webhook("a").await.expect("webhook"),
        Some(full.clone())
    );
    assert_eq!(catalog.webhook("x").await.expect("webhook"), None);
    let of_all = catalog.webhooks(None).await.expect("webhooks");
    assert_eq!(of_all, [full.clone(), server]);
    let of_alice = catalog.webhooks(Some(ALICE)).await.expect("webhooks");
    assert_eq!(of_alice, std::slice::from_ref(&full));
    assert_eq!(catalog.webhooks(Some(BOB)).await.expect("webhooks"), []);
    for n in 1..MAX_WEBHOOKS {
        let added = catalog.add_webhook(&webhook(&format!("n{n}"))).await;
        added.expect("there is room");
    }
    let beyond = catalog.add_webhook(&webhook("beyond")).await;
    assert!(
        matches!(beyond, Err(Error::LimitReached { .. })),
        "{beyond:?}"
    );
    let changed = catalog.set_webhook_secret("a", "another").await;
    assert!(changed.expect("changed"));
    let found = catalog.webhook("a").await.expect("webhook");
    let changed = Webhook {
        secret: "another".into(),
        ..full
    };
    assert_eq!(found, Some(changed));
    assert!(catalog.remove_webhook("a").await.expect("removed"));
    assert!(!catalog.remove_webhook("a").await.expect("gone"));
    let changed = catalog.set_webhook_secret("a", "another").await;
    assert!(!changed.expect("gone"));
}

/// From the time it was added, in order, each once; without events that it may
/// not see.
pub async fn a_webhook_gets_the_events_that_it_may_see(place: &impl Place) {
    let catalog = furnished(place).await;
    catalog.add_event(&note("before", 0)).await.expect("added");
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
    for event in [&others, &error, &note("a", 3)] {
        catalog.add_event(event).await.expect("added");
    }
    let queue = async |id: &str, limit| {
        let queued = catalog.queue_deliveries(id, limit, at(200)).await;
        queued.expect("queued")
    };
    assert_eq!(queue("a", 2).await, 2);
    assert_eq!(queue("a", 2).await, 1);
    assert_eq!(queue("a", 2).await, 0);
    assert_eq!(queue("some", 1000).await, 3);
    assert_eq!(queue("nobody", 1000).await, 0);
    let told = async |id: &str| {
        let pending = catalog.pending_deliveries(id, 10).await.expect("pending");
        pending
            .into_iter()
            .map(|one| one.event.event)
            .collect::<Vec<_>>()
    };
    assert_eq!(told("a").await, [error.clone(), note("a", 3)]);
    assert_eq!(told("some").await, [error]);
}

/// The outcomes of attempts, and a replay from the start.
pub async fn attempts_are_recorded_and_deliveries_replayed(place: &impl Place) {
    let catalog = furnished(place).await;
    catalog.add_webhook(&webhook("a")).await.expect("added");
    let mut ids = Vec::new();
    for n in 0..3 {
        ids.push(catalog.add_event(&note("s", n)).await.expect("added"));
    }
    catalog
        .queue_deliveries("a", 10, at(200))
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
        attempt(ids[2], DeliveryState::Pending, None, Some("nobody there")),
        attempt(u64::MAX, DeliveryState::Failed, None, None),
    ];
    catalog
        .note_attempts("a", &attempts, at(210))
        .await
        .expect("noted");
    let found = catalog.deliveries("a", None, None, 10).await.expect("list");
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
        .deliveries("a", Some(DeliveryState::Failed), None, 10)
        .await;
    assert_eq!(failed.expect("list").len(), 1);
    let before = catalog.deliveries("a", None, Some(ids[1]), 10).await;
    assert_eq!(before.expect("list")[0].event.id, ids[0]);
    assert!(
        catalog
            .replay("a", ids[1], at(220))
            .await
            .expect("replayed")
    );
    assert!(!catalog.replay("a", u64::MAX, at(220)).await.expect("none"));
    let pending = catalog.pending_deliveries("a", 10).await.expect("pending");
    assert_eq!(pending.len(), 2);
    let again = &pending[0];
    assert_eq!(
        (again.event.id, again.attempts, again.due),
        (ids[1], 0, at(220))
    );
    assert_eq!((again.status, &again.error), (None, &None));
}

/// Deletes only old events that were delivered; numbers are not reused.
pub async fn only_old_delivered_events_are_deleted(place: &impl Place) {
    let catalog = furnished(place).await;
    catalog.add_webhook(&webhook("a")).await.expect("added");
    let mut ids = Vec::new();
    for n in 0..4 {
        ids.push(catalog.add_event(&note("s", n)).await.expect("added"));
    }
    let forget = async |before| catalog.forget_events(at(before)).await.expect("forgotten");
    assert_eq!(forget(1000).await, 0, "nothing was queued");
    catalog
        .queue_deliveries("a", 10, at(200))
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
        .note_attempts("a", &attempts, at(201))
        .await
        .expect("noted");
    assert_eq!(forget(102).await, 2, "of before");
    assert_eq!(forget(1000).await, 1);
    assert_eq!(forget(1000).await, 0, "one is pending");
    assert!(catalog.remove_webhook("a").await.expect("removed"));
    assert_eq!(forget(1000).await, 1);
    assert_eq!(kinds(&catalog, &all()).await, []);
    assert_eq!(catalog.last_event().await.expect("last"), ids[3]);
    let next = catalog.add_event(&note("s", 9)).await.expect("added");
    assert!(next > ids[3], "no number is used twice");
}
