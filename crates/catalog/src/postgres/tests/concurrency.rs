//! Readers beside writers of other processes.

use std::sync::atomic::{AtomicUsize, Ordering};

use futures::future::join_all;
use serde_json::json;

use super::Temporary;
use crate::catalog::{Events, Sandboxes};
use crate::conformance::Backend;
use crate::conformance::samples::{ALICE, NO_LIMITS, at, furnished, sandbox};
use crate::postgres::PostgresCatalog;
use crate::query::SandboxQuery;
use crate::records::{EventKind, EventQuery, NewEvent};

const WRITERS: usize = 8;
const EVENTS: usize = 25;

/// Records events of which each has the number of its writer and its own.
async fn write(catalog: &PostgresCatalog, writer: usize) {
    for n in 0..EVENTS {
        let event = NewEvent {
            tenant: ALICE,
            agent: None,
            kind: EventKind::ProjectLanded,
            subject: writer.to_string(),
            at: at(300),
            data: json!(n),
        };
        catalog.add_event(&event).await.unwrap();
    }
}

/// Follows events until all have been seen; returns them.
async fn follow(catalog: &PostgresCatalog) -> Vec<(String, u64)> {
    let mut query = EventQuery {
        tenant: Some(ALICE),
        limit: 7,
        ..EventQuery::default()
    };
    let mut seen = Vec::new();
    while seen.len() < WRITERS * EVENTS {
        for one in catalog.events(&query).await.unwrap() {
            assert!(one.id > query.after, "the numbers grow");
            query.after = one.id;
            seen.push((one.event.subject, one.event.data.as_u64().unwrap()));
        }
    }
    seen
}

/// Every follower sees each event once, and those of a writer in their order.
#[tokio::test(flavor = "multi_thread")]
async fn followers_miss_no_event_of_concurrent_writers() {
    let temporary = Temporary::new();
    let handles = [furnished(&temporary).await, temporary.open().await];
    let writers = (0..WRITERS).map(|writer| write(&handles[writer % 2], writer));
    let followers = (0..4).map(|n| follow(&handles[n % 2]));
    let (_, seen) = tokio::join!(join_all(writers), join_all(followers));
    for seen in &seen {
        assert_eq!(seen.len(), WRITERS * EVENTS, "no event twice");
        for writer in 0..WRITERS {
            let own = seen
                .iter()
                .filter(|(subject, _)| *subject == writer.to_string());
            let numbers: Vec<u64> = own.map(|(_, n)| *n).collect();
            assert_eq!(numbers, (0..EVENTS as u64).collect::<Vec<_>>());
        }
    }
    assert!(seen.iter().all(|one| *one == seen[0]), "one order for all");
}

/// A page with all sandboxes has as many as it counts, at every moment.
#[tokio::test(flavor = "multi_thread")]
async fn a_list_and_its_total_are_of_the_same_moment() {
    let temporary = Temporary::new();
    let handles = [furnished(&temporary).await, temporary.open().await];
    let left = AtomicUsize::new(4);
    let add = async |writer: usize| {
        for n in 0..20 {
            let one = sandbox(ALICE, &format!("{writer}-{n}"));
            handles[writer % 2]
                .add_sandbox(&one, NO_LIMITS)
                .await
                .unwrap();
        }
        left.fetch_sub(1, Ordering::Relaxed);
    };
    let list = async |reader: usize| {
        let query = SandboxQuery {
            tenant: Some(ALICE),
            ..SandboxQuery::default()
        };
        while left.load(Ordering::Relaxed) > 0 {
            let page = handles[reader % 2].sandboxes(&query).await.unwrap();
            assert_eq!(page.items.len() as u64, page.total);
        }
    };
    tokio::join!(join_all((0..4).map(&add)), join_all((0..4).map(&list)));
}
