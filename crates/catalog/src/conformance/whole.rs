//! Several handles, and calls that are dropped.

use std::pin::pin;

use elevo_core::SandboxState;
use futures::future::{join_all, poll_immediate};

use super::{ALICE, Place, add, at, furnished, get, list, of_state, of_tenant, sandbox, tenant};
use crate::catalog::*;
use crate::query::AddLimits;

/// Promise 3.
pub async fn every_handle_reads_the_writes_of_the_others(place: &impl Place) {
    let (one, two) = (furnished(place).await, place.open().await);
    for n in 0..20 {
        let id = n.to_string();
        add(&one, &sandbox(ALICE, &id)).await;
        assert_eq!(list(&two, &of_tenant(ALICE)).await.len(), n + 1);
        let running = of_state(SandboxState::Running);
        let changed = two.change_sandbox(&id, &running, at(101)).await;
        let changed = changed.expect("it was starting");
        assert_eq!(get(&one, &id).await, Some(changed));
    }
}

/// Dropped before it begins, or after any number of polls: it happened completely
/// or not at all, and does not block the next call.
pub async fn a_dropped_call_leaves_the_catalog_whole(place: &impl Place) {
    let catalog = furnished(place).await;
    let limits = AddLimits {
        per_key: Some(1000),
        total: Some(1000),
    };
    for steps in 0..40 {
        let batch = ["a", "b"].map(|id| sandbox(ALICE, &format!("{steps}-{id}")));
        {
            let mut call = pin!(catalog.add_sandboxes(&batch, limits));
            for _ in 0..steps / 4 {
                if poll_immediate(&mut call).await.is_some() {
                    break;
                }
                // Gives the call about as much time as one read takes.
                catalog.setting("x").await.expect("setting");
            }
        }
        let id = format!("{steps}-after");
        add(&catalog, &sandbox(ALICE, &id)).await;
        assert!(get(&catalog, &id).await.is_some());
        let first = get(&catalog, &batch[0].id).await;
        let second = get(&catalog, &batch[1].id).await;
        assert_eq!(first.is_some(), second.is_some(), "all or none");
        if steps < 4 {
            assert_eq!(first, None, "it never began");
        }
    }
    catalog.check().await.expect("all is well");
}

/// The first handle creates the catalog, and all of them can use it.
pub async fn a_new_catalog_is_opened_by_many_at_once(place: &impl Place) {
    let handles = join_all((0..8).map(|_| place.open())).await;
    let added = handles[0].add_tenant(&tenant(ALICE, "alice")).await;
    added.expect("a new tenant");
    for handle in &handles {
        handle.check().await.expect("all is well");
        assert_eq!(handle.tenants().await.expect("tenants").len(), 1);
    }
}
