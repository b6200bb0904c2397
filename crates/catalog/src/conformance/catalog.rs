//! Promises that concern all areas: several handles, dropped calls, tenants, times.

mod isolation;
mod project_text;
pub(crate) mod text;

use std::pin::pin;

use elevo_core::SandboxState;
use futures::future::{join_all, poll_immediate};

pub use self::isolation::*;
pub use self::project_text::*;
pub use self::text::*;
use crate::catalog::*;
use crate::conformance::assertions::assert_not_found;
use crate::conformance::backend::Backend;
use crate::conformance::requests::request;
use crate::conformance::samples::{
    ALICE, BOB, NO_LIMITS, add, add_project, add_workspace, at, furnished, get, get_review, id_of,
    key, list, of_state, of_tenant, open, project, review, sandbox, tenant, workspace,
};
use crate::error::Kind;
use crate::query::AddLimits;
use crate::records::{Review, Workspace, WorkspaceState};

/// Promise 4: a tenant neither reads nor changes records of another, and cannot use
/// its keys.
pub async fn nothing_crosses_tenants(backend: &impl Backend) {
    let catalog = furnished(backend).await;
    let extra = key(ALICE, "extra", None);
    catalog.add_key(&extra).await.expect("a new key");
    add(&catalog, &sandbox(ALICE, "a")).await;
    let found = async |tenant, id| {
        let found = catalog.sandbox(tenant, &id_of(id)).await;
        found.expect("sandbox")
    };
    assert!(found(ALICE, "a").await.is_some());
    assert!(found(BOB, "a").await.is_none());
    assert!(list(&catalog, &of_tenant(BOB)).await.is_empty());
    let total = catalog.sandboxes(&of_tenant(BOB)).await.expect("sandboxes");
    assert_eq!(total.total, 0);
    let counts = catalog.count_by_state(Some(BOB)).await.expect("counts");
    assert!(counts.values().all(|count| *count == 0));
    let revoked = catalog.revoke_key(BOB, &extra.id, at(9)).await;
    assert!(!revoked.expect("revoke"));
    // A sandbox cannot be added with a key of another tenant.
    let mut borrowed = sandbox(BOB, "b");
    borrowed.key = id_of("extra");
    let added = catalog.add_sandbox(&borrowed, NO_LIMITS).await;
    assert_not_found(added, Kind::Owner);
}

/// Checks promise 3.
pub async fn every_handle_reads_the_writes_of_the_others(backend: &impl Backend) {
    let (one, two) = (furnished(backend).await, backend.open().await);
    for n in 0..20 {
        let id = n.to_string();
        add(&one, &sandbox(ALICE, &id)).await;
        assert_eq!(list(&two, &of_tenant(ALICE)).await.len(), n + 1);
        let running = of_state(SandboxState::Running);
        let changed = two
            .change_sandbox(ALICE, &id_of(&id), &running, at(101))
            .await;
        let changed = changed.expect("it was starting");
        assert_eq!(get(&one, &id).await, Some(changed));
    }
}

/// A call that is dropped before it begins, or after any number of polls, has made
/// all of its changes or none, and does not block the next call.
pub async fn a_dropped_call_leaves_the_catalog_consistent(backend: &impl Backend) {
    let catalog = furnished(backend).await;
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
    catalog.check().await.expect("the catalog works");
}

/// The first handle creates the catalog, and all handles can use it.
pub async fn a_new_catalog_is_opened_by_many_handles_at_once(backend: &impl Backend) {
    let handles = join_all((0..8).map(|_| backend.open())).await;
    let added = handles[0].add_tenant(&tenant(ALICE, "alice")).await;
    added.expect("a new tenant");
    for handle in &handles {
        handle.check().await.expect("the catalog works");
        assert_eq!(handle.tenants().await.expect("tenants").len(), 1);
    }
}

/// One call moves the expiries of sandboxes, parked workspaces, open reviews
/// and requests, and sets a setting.
pub async fn every_expiry_moves_together(backend: &impl Backend) {
    let catalog = furnished(backend).await;
    let project = project(ALICE, "p");
    add_project(&catalog, &project).await;
    add(&catalog, &sandbox(ALICE, "a")).await;
    let parked = Workspace {
        state: WorkspaceState::Parked,
        expires: Some(at(1000)),
        ..workspace(ALICE, "w", Some("p"))
    };
    let live = workspace(ALICE, "live", Some("p"));
    for one in [&parked, &live] {
        add_workspace(&catalog, one).await;
    }
    let held = Review {
        expires: Some(at(1000)),
        ..review(&project, "r", Some("w"), "path")
    };
    open(&catalog, &project, vec![held.clone()]).await;
    // Kept until 20.
    let begun = catalog.begin(&request(ALICE, 1)).await;
    begun.expect("a request");
    let workspace_by_id = async |id| {
        let found = catalog.workspace(ALICE, &id_of(id)).await;
        found.expect("workspace")
    };
    for (by, end) in [(86_400_000_000, 87_400), (-86_400_000_000, 1000)] {
        let moved = catalog.move_expiry(by, "clock", &end.to_string()).await;
        moved.expect("moved");
        let found = get(&catalog, "a").await.expect("it exists");
        assert_eq!(found.expires, at(end));
        let found = workspace_by_id("w").await.expect("it exists");
        assert_eq!(found.expires, Some(at(end)));
        assert_eq!(get_review(&catalog, &held).await.expires, Some(at(end)));
        let forgotten = catalog.forget_idempotent(at(20)).await;
        assert_eq!(forgotten.expect("forget"), u64::from(by < 0));
        let setting = catalog.setting("clock").await.expect("setting");
        assert_eq!(setting, Some(end.to_string()));
    }
    let found = workspace_by_id("live").await.expect("it exists");
    assert_eq!(found.expires, None);
}
