//! Checks of sandboxes.

mod changes;
mod limits;
mod lists;

use elevo_core::{SandboxState, Timestamp};
use serde_json::json;

pub use self::changes::*;
pub use self::limits::*;
pub use self::lists::*;
use crate::catalog::*;
use crate::conformance::assertions::{assert_exists, assert_not_found, assert_refused};
use crate::conformance::backend::Backend;
use crate::conformance::samples::{
    AGENT, AGENT_KEYS, ALICE, BOB, NO_LIMITS, add, at, furnished, get, id_of, list, of_tenant,
    pairs, removing, sandbox, short,
};
use crate::error::Kind;
use crate::limits::{MAX_BATCH, MAX_REASON_BYTES};
use crate::nodes::NodeId;
use crate::records::{Sandbox, SandboxFailure};

/// The sandbox is read back with all its fields. Also checks promise 10.
pub async fn a_sandbox_is_read_back_as_added(backend: &impl Backend) {
    let catalog = furnished(backend).await;
    let full = Sandbox {
        agent: Some(id_of(AGENT)),
        key: id_of(AGENT_KEYS[0]),
        name: Some("name".into()),
        state: SandboxState::Error,
        reason: Some("x".repeat(MAX_REASON_BYTES)),
        failure: Some(SandboxFailure::ContainerEnded),
        container: Some("c0ffee".into()),
        token_hash: std::array::from_fn(|n| n as u8),
        created: Timestamp::new(-1, 999_999_000).expect("a time"),
        expires: at(253_402_300_799),
        updated: Timestamp::new(1, 1_000).expect("a time"),
        keep_workspace: true,
        started_before: true,
        removing: true,
        node: NodeId(u32::MAX),
        generation: i64::MAX as u64,
        spec: json!([null, true, -1, 1.5, "ä\u{0}\n", { "": [] }]),
        metadata: pairs(&[("run", "7"), ("team/owner", "ä \"quoted\"")]),
        ..sandbox(ALICE, "full")
    };
    for sandbox in [&full, &sandbox(BOB, "bare")] {
        add(&catalog, sandbox).await;
        assert_eq!(get(&catalog, &sandbox.id).await.as_ref(), Some(sandbox));
        let found = catalog.sandbox(sandbox.tenant, &sandbox.id).await;
        assert_eq!(found.expect("sandbox").as_ref(), Some(sandbox));
    }
    let mut finer = sandbox(ALICE, "finer");
    finer.created = Timestamp::new(1, 999).expect("a time");
    finer.reason = Some(format!("\0{}", "x".repeat(MAX_REASON_BYTES)));
    add(&catalog, &finer).await;
    let found = get(&catalog, "finer").await.expect("it was added");
    assert_eq!(found.created, at(1));
    let kept = found.reason.expect("it had one");
    assert_eq!((kept.len(), kept.contains('\0')), (MAX_REASON_BYTES, false));
}

/// The owners are the tenant, the agent and the key.
pub async fn a_sandbox_needs_its_owners(backend: &impl Backend) {
    let catalog = furnished(backend).await;
    let of_unknown_tenant = sandbox(elevo_core::TenantId::new([3; 16]), "a");
    let mut no_agent = sandbox(ALICE, "a");
    no_agent.agent = Some(id_of("unknown"));
    let mut no_key = sandbox(ALICE, "a");
    no_key.key = id_of("nothing");
    for orphan in [of_unknown_tenant, no_agent, no_key] {
        let added = catalog.add_sandbox(&orphan, NO_LIMITS).await;
        assert_not_found(added, Kind::Owner);
    }
    assert_eq!(get(&catalog, "a").await, None);
}

/// Checks promise 2 for a batch. The id of a sandbox is unique among all
/// tenants.
pub async fn sandboxes_are_added_all_or_none(backend: &impl Backend) {
    let catalog = furnished(backend).await;
    let ids = ["a", "b", "c"];
    let batch = ids.map(|id| sandbox(ALICE, id));
    let added = catalog.add_sandboxes(&batch, NO_LIMITS).await;
    added.expect("all are new");
    assert_eq!(list(&catalog, &of_tenant(ALICE)).await, ["c", "b", "a"]);
    let overlapping = ["d", "e", "a"].map(|id| sandbox(BOB, id));
    let twice = ["d", "d"].map(|id| sandbox(BOB, id));
    for batch in [&overlapping[..], &twice[..]] {
        let added = catalog.add_sandboxes(batch, NO_LIMITS).await;
        assert_exists(added, Kind::Sandbox);
    }
    let again = catalog.add_sandbox(&batch[0], NO_LIMITS).await;
    assert_exists(again, Kind::Sandbox);
    assert!(list(&catalog, &of_tenant(BOB)).await.is_empty());
    let nothing = catalog.add_sandboxes(&[], NO_LIMITS).await;
    nothing.expect("nothing to do");
    let many: Vec<_> = (0..=MAX_BATCH)
        .map(|n| sandbox(BOB, &format!("many-{n}")))
        .collect();
    assert_refused(catalog.add_sandboxes(&many, NO_LIMITS).await);
    let added = catalog.add_sandboxes(&many[1..], NO_LIMITS).await;
    added.expect("exactly the maximum");
}

/// The id of a removed sandbox can be added again.
pub async fn a_removed_sandbox_is_gone(backend: &impl Backend) {
    let catalog = furnished(backend).await;
    let sandbox = sandbox(ALICE, "a");
    add(&catalog, &sandbox).await;
    assert!(
        catalog
            .remove_sandbox(ALICE, &id_of("a"), at(900))
            .await
            .expect("remove")
    );
    assert!(
        !catalog
            .remove_sandbox(ALICE, &id_of("a"), at(900))
            .await
            .expect("remove")
    );
    assert_eq!(get(&catalog, "a").await, None);
    assert!(list(&catalog, &of_tenant(ALICE)).await.is_empty());
    add(&catalog, &sandbox).await;
}

/// Sandboxes that are being removed do not count; every state has an entry.
pub async fn sandboxes_are_counted_by_state(backend: &impl Backend) {
    let catalog = furnished(backend).await;
    for (n, state) in SandboxState::ALL.into_iter().enumerate() {
        for m in 0..n {
            let mut one = sandbox(ALICE, &format!("{n}-{m}"));
            one.state = state;
            add(&catalog, &one).await;
        }
    }
    let mut other = sandbox(BOB, "other");
    other.state = SandboxState::Running;
    add(&catalog, &other).await;
    let changed = catalog
        .change_sandbox(ALICE, &id_of("4-0"), &removing(), at(101))
        .await;
    changed.expect("mark it");
    let of_alice = catalog.count_by_state(Some(ALICE)).await.expect("counts");
    let counts: Vec<_> = of_alice.into_values().collect();
    assert_eq!(counts, [0, 1, 2, 3, 3]);
    let of_all = catalog.count_by_state(None).await.expect("counts");
    assert_eq!(of_all[&SandboxState::Running], 2);
    assert_eq!(of_all[&SandboxState::Starting], 0);
}

/// The list has the sandboxes of a node that have expired at the given time, without
/// those that are being removed.
pub async fn expired_sandboxes_are_found_oldest_first(backend: &impl Backend) {
    let catalog = furnished(backend).await;
    for (id, expires) in [("d", 40), ("b", 20), ("a", 20), ("c", 30), ("x", 5)] {
        let mut one = sandbox(ALICE, id);
        one.expires = at(expires);
        add(&catalog, &one).await;
    }
    let elsewhere = Sandbox {
        node: NodeId(2),
        expires: at(5),
        ..sandbox(ALICE, "elsewhere")
    };
    add(&catalog, &elsewhere).await;
    let changed = catalog
        .change_sandbox(ALICE, &id_of("x"), &removing(), at(101))
        .await;
    changed.expect("mark it");
    let expired = async |now, limit| {
        let found = catalog
            .expired_sandboxes_of_all_tenants(NodeId::FIRST, at(now), limit)
            .await
            .expect("expired");
        found.iter().map(|one| short(&one.id)).collect::<Vec<_>>()
    };
    assert!(expired(19, 10).await.is_empty());
    assert_eq!(expired(30, 10).await, ["a", "b", "c"]);
    assert_eq!(expired(99, 2).await, ["a", "b"]);
    for limit in [0, u32::MAX] {
        let expired = catalog.expired_sandboxes_of_all_tenants(NodeId::FIRST, at(1), limit);
        assert_refused(expired.await);
    }
}

/// A sandbox that is being removed still has its workspace.
pub async fn a_workspace_is_in_one_sandbox(backend: &impl Backend) {
    let catalog = furnished(backend).await;
    let in_it = |tenant, id: &str| Sandbox {
        workspace: id_of("w"),
        ..sandbox(tenant, id)
    };
    let holder = async |tenant| {
        let found = catalog.sandbox_of_workspace(tenant, &id_of("w")).await;
        found.expect("sandbox").map(|sandbox| short(&sandbox.id))
    };
    assert_eq!(holder(ALICE).await, None);
    add(&catalog, &in_it(ALICE, "a")).await;
    let second = catalog.add_sandbox(&in_it(ALICE, "b"), NO_LIMITS).await;
    assert_exists(second, Kind::Sandbox);
    let marked = catalog
        .change_sandbox(ALICE, &id_of("a"), &removing(), at(101))
        .await;
    marked.expect("mark it");
    let third = catalog.add_sandbox(&in_it(ALICE, "b"), NO_LIMITS).await;
    assert_exists(third, Kind::Sandbox);
    assert_eq!(holder(ALICE).await.as_deref(), Some("a"));
    assert_eq!(holder(BOB).await, None);
    add(&catalog, &in_it(BOB, "of-bob")).await;
    catalog
        .remove_sandbox(ALICE, &id_of("a"), at(102))
        .await
        .expect("remove");
    add(&catalog, &in_it(ALICE, "b")).await;
    assert_eq!(holder(ALICE).await.as_deref(), Some("b"));
}
