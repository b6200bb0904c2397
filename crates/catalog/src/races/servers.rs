//! Events, and the order between servers: leases, requests and sessions.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures::future::{join, join_all};
use serde_json::json;

use super::Race;
use crate::catalog::Catalog;
use crate::conformance::samples::{ALICE, at};
use crate::conformance::{note, request};
use crate::nodes::ServerSession;
use crate::records::{Begun, EventQuery, NewEvent};

/// Longer than any test runs.
const LONG: Duration = Duration::from_secs(3600);

/// Promise 19: followers in both processes see the events of both, each once and
/// in the same order.
pub(crate) struct EventOrder;

/// Number of events that a process records in a round.
const EVENTS: usize = 10;

impl Race for EventOrder {
    /// The number, the process and the place of each event, as a follower has
    /// seen them.
    type Outcome = Vec<(u64, u64, u64)>;

    async fn compete<C: Catalog>(catalog: &C, round: u64, side: usize) -> Self::Outcome {
        let write = async {
            for n in 0..EVENTS {
                let event = NewEvent {
                    data: json!([side, n]),
                    ..note(&round.to_string(), n as u64)
                };
                catalog.add_event(&event).await.unwrap();
            }
        };
        let follow = async {
            let mut query = EventQuery {
                subject: Some(round.to_string()),
                limit: 3,
                ..EventQuery::default()
            };
            let mut seen = Vec::new();
            while seen.len() < 2 * EVENTS {
                for one in catalog.events(&query).await.unwrap() {
                    query.after = one.id;
                    let (side, n) = serde_json::from_value(one.event.data).unwrap();
                    seen.push((one.id, side, n));
                }
            }
            seen
        };
        join(write, follow).await.1
    }

    async fn judge<C: Catalog>(_: &C, _: u64, [seen, others]: [Self::Outcome; 2]) {
        assert_eq!(seen, others, "one order for all");
        assert!(seen.is_sorted_by(|one, next| one.0 < next.0), "{seen:?}");
        for side in 0..2 {
            let own = seen.iter().filter(|one| one.1 == side).map(|one| one.2);
            let all: Vec<_> = (0..EVENTS as u64).collect();
            assert_eq!(own.collect::<Vec<_>>(), all, "each once");
        }
    }
}

/// Promise 25: one of many sessions gets a lease.
pub(crate) struct Leases;

impl Race for Leases {
    /// The sessions that got the lease, with their tokens.
    type Outcome = Vec<(u64, u64)>;

    async fn compete<C: Catalog>(catalog: &C, round: u64, side: usize) -> Vec<(u64, u64)> {
        let name = &round.to_string();
        let takers = (0..8).map(|n| async move {
            let session = 1 + 8 * side as u64 + n;
            let lease = catalog.take_lease(name, ServerSession(session), LONG, at(1000));
            Some((session, lease.await.unwrap()?.token))
        });
        join_all(takers).await.into_iter().flatten().collect()
    }

    async fn judge<C: Catalog>(catalog: &C, round: u64, outcomes: [Vec<(u64, u64)>; 2]) {
        let holders = outcomes.concat();
        assert_eq!(holders.len(), 1, "{holders:?}");
        let (session, token) = holders[0];
        let (name, session) = (round.to_string(), ServerSession(session));
        let released = catalog.release_lease(&name, session, token).await;
        assert!(released.unwrap(), "it is the holder");
    }
}

/// Promise 22: one of many equal requests is new.
pub(crate) struct Requests;

impl Race for Requests {
    /// Whether each request is new. The others run elsewhere.
    type Outcome = Vec<bool>;

    async fn compete<C: Catalog>(catalog: &C, round: u64, side: usize) -> Vec<bool> {
        let begins = (0..8).map(|n| async move {
            let mut request = request(ALICE, round as u8);
            request.run.process = format!("{side}-{n}");
            match catalog.begin(&request).await.unwrap() {
                Begun::New => true,
                Begun::Running => false,
                other => panic!("{other:?}"),
            }
        });
        join_all(begins).await
    }

    async fn judge<C: Catalog>(_: &C, _: u64, outcomes: [Vec<bool>; 2]) {
        let new = outcomes.concat().into_iter().filter(|is_new| *is_new);
        assert_eq!(new.count(), 1);
    }
}

/// Promise 27: sessions have different numbers, and a node keeps its id.
pub(crate) struct Sessions;

impl Race for Sessions {
    /// The name and the id of each node, and the number of its session.
    type Outcome = Vec<(String, u32, u64)>;

    async fn compete<C: Catalog>(catalog: &C, round: u64, _side: usize) -> Self::Outcome {
        let begins = (0..4).map(|n| async move {
            let name = format!("{round}-{n}");
            let node = catalog.begin_session(&name, LONG, at(100)).await.unwrap();
            (name, node.id.0, node.session.0)
        });
        join_all(begins).await
    }

    async fn judge<C: Catalog>(_: &C, _: u64, [one, other]: [Self::Outcome; 2]) {
        let both = [one, other].concat();
        let sessions: BTreeSet<_> = both.iter().map(|(_, _, session)| session).collect();
        assert_eq!(sessions.len(), 8, "{both:?}");
        let nodes: BTreeSet<_> = both.iter().map(|(name, id, _)| (name, id)).collect();
        let ids: BTreeMap<_, _> = nodes.iter().map(|(name, id)| (id, name)).collect();
        assert_eq!((nodes.len(), ids.len()), (4, 4), "{both:?}");
    }
}
