//! Checks of the limits on the number of sandboxes.

use futures::future::join_all;

use crate::catalog::*;
use crate::conformance::backend::Backend;
use crate::conformance::samples::{
    AGENT_KEYS, ALICE, BOB, KEY, add, at, furnished, id_of, list, of_tenant, removing, sandbox,
};
use crate::error::{Error, Limit, Result};
use crate::query::{AddLimits, SandboxQuery};
use crate::records::{Sandbox, TENANT_LIMITS, TenantLimits};

const PER_KEY: AddLimits = AddLimits {
    per_key: Some(2),
    total: None,
};

fn assert_limited(result: Result<()>, limited: Limit, at_most: u32) {
    match result {
        Err(Error::LimitReached { which, limit }) => {
            assert_eq!((which, limit), (limited, u64::from(at_most)));
        }
        other => panic!("expected `LimitReached`, got {other:?}"),
    }
}

fn with_key(id: &str, key: &str) -> Sandbox {
    let mut one = sandbox(ALICE, id);
    one.key = id_of(key);
    one
}

/// Checks promise 7 through two handles.
pub async fn limits_hold_under_concurrent_additions(backend: &impl Backend) {
    let handles = [furnished(backend).await, backend.open().await];
    let of_key = AddLimits {
        per_key: Some(10),
        total: Some(15),
    };
    for (tenant, room, limit) in [
        (ALICE, 10, Limit::SandboxesOfKey),
        (BOB, 5, Limit::Sandboxes),
    ] {
        let adds = (0..32).map(|n| {
            let one = sandbox(tenant, &format!("{tenant}-{n}"));
            let catalog = &handles[n % 2];
            async move { catalog.add_sandbox(&one, of_key).await }
        });
        let mut added = 0;
        for result in join_all(adds).await {
            match result {
                Ok(()) => added += 1,
                Err(Error::LimitReached { which, .. }) => assert_eq!(which, limit),
                Err(other) => panic!("{other:?}"),
            }
        }
        assert_eq!(added, room);
        let there = list(&handles[0], &of_tenant(tenant)).await;
        assert_eq!(there.len(), room);
    }
}

/// An agent gets no more sandboxes by having two keys; a key without an agent
/// counts alone.
pub async fn keys_of_one_agent_count_together(backend: &impl Backend) {
    let catalog = furnished(backend).await;
    for (n, key) in AGENT_KEYS.into_iter().enumerate() {
        let added = catalog
            .add_sandbox(&with_key(&format!("{n}"), key), PER_KEY)
            .await;
        added.expect("it is below the limit");
    }
    for key in AGENT_KEYS {
        let added = catalog.add_sandbox(&with_key("2", key), PER_KEY).await;
        assert_limited(added, Limit::SandboxesOfKey, 2);
    }
    for id in ["a", "b"] {
        let added = catalog.add_sandbox(&sandbox(ALICE, id), PER_KEY).await;
        added.expect("another key");
        let added = catalog
            .add_sandbox(&sandbox(BOB, &format!("bob-{id}")), PER_KEY)
            .await;
        added.expect("another tenant's key of the same id");
    }
    let added = catalog.add_sandbox(&sandbox(ALICE, "c"), PER_KEY).await;
    assert_limited(added, Limit::SandboxesOfKey, 2);
}

/// Deleted sandboxes do not count either.
pub async fn sandboxes_that_are_being_removed_do_not_count(backend: &impl Backend) {
    let catalog = furnished(backend).await;
    let limits = AddLimits {
        per_key: Some(2),
        total: Some(2),
    };
    for id in ["a", "b"] {
        add(&catalog, &sandbox(ALICE, id)).await;
    }
    let third = sandbox(ALICE, "c");
    let added = catalog.add_sandbox(&third, limits).await;
    assert_limited(added, Limit::Sandboxes, 2);
    let marked = catalog
        .change_sandbox(ALICE, &id_of("a"), &removing(), at(101))
        .await;
    marked.expect("mark it");
    let added = catalog.add_sandbox(&third, limits).await;
    added.expect("one of two is being removed");
    catalog
        .remove_sandbox(ALICE, &id_of("b"), at(900))
        .await
        .expect("remove");
    let added = catalog.add_sandbox(&sandbox(ALICE, "d"), limits).await;
    added.expect("one is gone");
    let none = AddLimits {
        per_key: Some(0),
        total: None,
    };
    let added = catalog.add_sandbox(&sandbox(BOB, "e"), none).await;
    assert_limited(added, Limit::SandboxesOfKey, 0);
}

/// Checks the limit of a key and the limit of all tenants together.
pub async fn a_batch_beyond_a_limit_adds_nothing(backend: &impl Backend) {
    let catalog = furnished(backend).await;
    let both = [
        with_key("a", AGENT_KEYS[0]),
        with_key("b", AGENT_KEYS[1]),
        with_key("c", AGENT_KEYS[0]),
    ];
    let added = catalog.add_sandboxes(&both, PER_KEY).await;
    assert_limited(added, Limit::SandboxesOfKey, 2);
    let total = AddLimits {
        per_key: None,
        total: Some(2),
    };
    let added = catalog.add_sandboxes(&both, total).await;
    assert_limited(added, Limit::Sandboxes, 2);
    let there = list(&catalog, &SandboxQuery::default()).await;
    assert!(there.is_empty(), "{there:?}");
    let added = catalog.add_sandboxes(&both[..2], PER_KEY).await;
    added.expect("exactly the limit");
}

/// Checks promise 7 for a tenant with its own limit and for one with the limit
/// of the setting.
pub async fn limits_of_tenants_hold_under_concurrent_additions(backend: &impl Backend) {
    let handles = [furnished(backend).await, backend.open().await];
    let catalog = &handles[0];
    let default = TenantLimits {
        sandboxes: Some(2),
        workspaces: Some(1),
        projects: Some(1),
        ..TenantLimits::default()
    };
    let default = serde_json::to_string(&default).expect("JSON");
    let set = catalog.set_setting(TENANT_LIMITS, &default).await;
    set.expect("setting");
    let mut alice = catalog.tenant(ALICE).await.expect("tenant").expect("Alice");
    alice.limits.sandboxes = Some(4);
    assert!(catalog.change_tenant(&alice).await.expect("changed"));
    assert_eq!(
        catalog.tenant(ALICE).await.expect("tenant"),
        Some(alice.clone())
    );
    for (tenant, room) in [(ALICE, 4), (BOB, 2)] {
        let adds = (0..16).map(|n| {
            let one = sandbox(tenant, &format!("{tenant}-{n}"));
            let catalog = &handles[n % 2];
            async move { catalog.add_sandbox(&one, AddLimits::default()).await }
        });
        let mut added = 0;
        for result in join_all(adds).await {
            match result {
                Ok(()) => added += 1,
                Err(Error::LimitReached { which, .. }) => {
                    assert_eq!(which, Limit::SandboxesOfTenant);
                }
                Err(other) => panic!("{other:?}"),
            }
        }
        assert_eq!(added, room);
    }
    // The memory of a sandbox is read from its specification.
    alice.limits.sandboxes = Some(100);
    let mut large = sandbox(ALICE, "large");
    large.spec = serde_json::json!({"memory": 1 << 30});
    for (limit, fits) in [(1 << 30, false), (1 << 40, true)] {
        alice.limits.memory = Some(limit);
        assert!(catalog.change_tenant(&alice).await.expect("changed"));
        match catalog.add_sandbox(&large, AddLimits::default()).await {
            Ok(()) => assert!(fits),
            Err(Error::LimitReached { which, .. }) => {
                assert!(!fits);
                assert_eq!(which, Limit::MemoryOfTenant);
            }
            Err(other) => panic!("{other:?}"),
        }
    }
}

/// Keys of an agent count together, and sandboxes that are being removed do not
/// count.
pub async fn sandboxes_are_counted_by_key(backend: &impl Backend) {
    let catalog = furnished(backend).await;
    let [first, second] = AGENT_KEYS;
    for one in [
        with_key("a", first),
        with_key("b", second),
        with_key("c", second),
        sandbox(ALICE, "d"),
        sandbox(BOB, "e"),
    ] {
        add(&catalog, &one).await;
    }
    let marked = catalog
        .change_sandbox(ALICE, &id_of("c"), &removing(), at(101))
        .await;
    marked.expect("mark it");
    for (key, expected) in [(first, 2), (second, 2), (KEY, 1), ("unknown", 0)] {
        let counted = catalog.count_of_key(ALICE, &id_of(key)).await;
        assert_eq!(counted.expect("a count"), expected, "{key}");
    }
}
