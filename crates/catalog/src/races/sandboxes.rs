//! Additions and changes of sandboxes.

use elevo_core::SandboxState;
use futures::future::join_all;

use super::Race;
use crate::catalog::Catalog;
use crate::change::SandboxChange;
use crate::conformance::samples::{
    ALICE, NO_LIMITS, add, at, get, id_of, list, of_state, of_tenant, sandbox,
};
use crate::error::Error;

/// Promise 7: a tenant gets as many sandboxes as it may have.
pub(crate) struct Limits;

/// Number of sandboxes that fit in a round.
const ROOM: usize = 5;

impl Race for Limits {
    /// Whether each sandbox was added.
    type Outcome = Vec<bool>;

    async fn prepare<C: Catalog>(catalog: &C, round: u64) {
        let mut alice = catalog.tenant(ALICE).await.unwrap().unwrap();
        let limit = ROOM as u32 * (round as u32 + 1);
        alice.limits.sandboxes = Some(limit);
        assert!(catalog.change_tenant(&alice).await.unwrap());
    }

    async fn compete<C: Catalog>(catalog: &C, round: u64, side: usize) -> Vec<bool> {
        let adds = (0..ROOM).map(|n| async move {
            let one = sandbox(ALICE, &format!("{round}-{side}-{n}"));
            match catalog.add_sandbox(&one, NO_LIMITS).await {
                Ok(()) => true,
                Err(Error::LimitReached { .. }) => false,
                Err(other) => panic!("{other:?}"),
            }
        });
        join_all(adds).await
    }

    async fn judge<C: Catalog>(catalog: &C, round: u64, outcomes: [Vec<bool>; 2]) {
        let added = outcomes.concat().into_iter().filter(|added| *added).count();
        assert_eq!(added, ROOM);
        let there = list(catalog, &of_tenant(ALICE)).await;
        assert_eq!(there.len(), ROOM * (round as usize + 1));
    }
}

/// Promise 5: one of the changes that expect the same state succeeds.
pub(crate) struct Changes;

impl Race for Changes {
    /// The containers of the changes that succeeded.
    type Outcome = Vec<String>;

    async fn prepare<C: Catalog>(catalog: &C, round: u64) {
        add(catalog, &sandbox(ALICE, &round.to_string())).await;
    }

    async fn compete<C: Catalog>(catalog: &C, round: u64, side: usize) -> Vec<String> {
        let id = id_of(&round.to_string());
        let changes = (0..8).map(|n| {
            let (id, container) = (&id, format!("{side}-{n}"));
            let change = SandboxChange {
                from: Some(vec![SandboxState::Starting]),
                container: Some(Some(container.clone())),
                ..of_state(SandboxState::Running)
            };
            async move {
                match catalog.change_sandbox(ALICE, id, &change, at(101)).await {
                    Ok(_) => Some(container),
                    Err(Error::WrongState { .. }) => None,
                    Err(other) => panic!("{other:?}"),
                }
            }
        });
        join_all(changes).await.into_iter().flatten().collect()
    }

    async fn judge<C: Catalog>(catalog: &C, round: u64, outcomes: [Vec<String>; 2]) {
        let mut won = outcomes.concat();
        assert_eq!(won.len(), 1, "{won:?}");
        let found = get(catalog, &round.to_string()).await.unwrap();
        assert_eq!(found.container, won.pop());
    }
}
