//! Checks of API keys.

use crate::catalog::*;
use crate::conformance::assertions::{assert_exists, assert_not_found};
use crate::conformance::backend::Backend;
use crate::conformance::samples::{
    AGENT, ALICE, BOB, KEY, add, add_project, add_workspace, at, furnished, get, id_of, key, pairs,
    project, sandbox, workspace,
};
use crate::error::Kind;
use crate::records::{Access, ApiKey, KeyLimits, Sandbox};

/// The key is found with all its fields.
pub async fn a_revoked_or_expired_key_is_found_by_its_hash(backend: &impl Backend) {
    let catalog = furnished(backend).await;
    let full = ApiKey {
        hash: [9; 32],
        scopes: vec![],
        limits: KeyLimits {
            creates_per_minute: Some(0),
            commands_per_minute: Some(1),
            requests_per_minute: Some(u32::MAX),
            sandboxes: None,
            ..KeyLimits::default()
        },
        expires: Some(at(-5)),
        revoked: Some(at(4)),
        ..key(BOB, "full", Some(AGENT))
    };
    catalog.add_key(&full).await.expect("a new key");
    let found = catalog.key_of_any_tenant(&[9; 32]).await.expect("key");
    assert_eq!(found.as_ref(), Some(&full));
    let keys = catalog.keys(BOB).await.expect("keys");
    assert_eq!(keys.len(), 4);
    assert!(keys.contains(&full));
    let found = catalog.key_of_any_tenant(&[8; 32]).await.expect("key");
    assert_eq!(found, None);
}

/// The id of a key is unique in its tenant, the hash in the whole catalog.
pub async fn a_key_is_added_once(backend: &impl Backend) {
    let catalog = furnished(backend).await;
    let mut same_id = key(ALICE, KEY, None);
    same_id.hash = [1; 32];
    let mut same_hash = key(BOB, "another-id", None);
    same_hash.hash = key(ALICE, KEY, None).hash;
    for taken in [same_id, same_hash] {
        assert_exists(catalog.add_key(&taken).await, Kind::Key);
    }
    let of_unknown_agent = key(ALICE, "another-id", Some("unknown"));
    assert_not_found(catalog.add_key(&of_unknown_agent).await, Kind::Owner);
    assert_eq!(catalog.keys(ALICE).await.expect("keys").len(), 3);
}

/// A second revocation does not change the time of the first.
pub async fn a_key_is_revoked_once(backend: &impl Backend) {
    let catalog = furnished(backend).await;
    let revoke = async |id, time| catalog.revoke_key(ALICE, &id_of(id), at(time)).await;
    assert!(revoke(KEY, 5).await.expect("revoke"));
    assert!(!revoke(KEY, 6).await.expect("revoke"));
    assert!(!revoke("nothing", 6).await.expect("revoke"));
    let hash = key(ALICE, KEY, None).hash;
    let found = catalog.key_of_any_tenant(&hash).await.expect("key");
    assert_eq!(found.and_then(|key| key.revoked), Some(at(5)));
    let by_id = async |tenant, id| catalog.key(tenant, &id_of(id)).await.expect("key");
    let found = by_id(ALICE, KEY).await;
    assert_eq!(found.and_then(|key| key.revoked), Some(at(5)));
    assert_eq!(by_id(ALICE, "nothing").await, None);
    let hash = key(BOB, KEY, None).hash;
    let found = catalog.key_of_any_tenant(&hash).await.expect("key");
    assert_eq!(found.and_then(|key| key.revoked), None);
    let found = by_id(BOB, KEY).await;
    assert_eq!(found.and_then(|key| key.revoked), None);
}

/// One call returns all fields of the key, its tenant and the sandbox.
pub async fn a_key_is_found_with_its_tenant_and_a_sandbox(backend: &impl Backend) {
    let catalog = furnished(backend).await;
    add_project(&catalog, &project(ALICE, "p")).await;
    add_workspace(&catalog, &workspace(ALICE, "w", Some("p"))).await;
    let one = Sandbox {
        agent: Some(id_of(AGENT)),
        workspace: id_of("w"),
        metadata: pairs(&[("a", "b")]),
        ..sandbox(ALICE, "a")
    };
    add(&catalog, &one).await;
    let mut alice = catalog.tenant(ALICE).await.expect("tenant").expect("Alice");
    alice.limits.sandboxes = Some(4);
    alice.suspended = Some(at(7));
    let changed = catalog.change_tenant(&alice).await;
    assert!(changed.expect("changed"));
    let full = ApiKey {
        hash: [9; 32],
        expires: Some(at(-5)),
        revoked: Some(at(4)),
        ..key(ALICE, "full", Some(AGENT))
    };
    catalog.add_key(&full).await.expect("a new key");
    let find = async |hash, id: Option<&str>| {
        let id = id.map(id_of);
        let found = catalog.access_of_any_tenant(hash, id.as_ref()).await;
        found.expect("access")
    };
    let of_alice = |key: &ApiKey, sandbox| Access {
        key: key.clone(),
        tenant: alice.clone(),
        sandbox,
    };
    let recorded = get(&catalog, "a").await.expect("it was added");
    assert_eq!(recorded.project, Some(id_of("p")));
    let plain = key(ALICE, KEY, None);
    for key in [&full, &plain] {
        let with = find(&key.hash, Some("a")).await;
        assert_eq!(with, Some(of_alice(key, Some(recorded.clone()))));
        for none in [None, Some("unknown")] {
            let without = find(&key.hash, none).await;
            assert_eq!(without, Some(of_alice(key, None)));
        }
    }
    for id in [None, Some("a")] {
        assert_eq!(find(&[8; 32], id).await, None, "no such key");
    }
}

/// Promise 4: the key of a tenant finds no sandbox of another.
pub async fn a_key_finds_no_sandbox_of_another_tenant(backend: &impl Backend) {
    let catalog = furnished(backend).await;
    add(&catalog, &sandbox(ALICE, "a")).await;
    for (tenant, finds) in [(ALICE, true), (BOB, false)] {
        let hash = key(tenant, KEY, None).hash;
        let found = catalog.access_of_any_tenant(&hash, Some(&id_of("a"))).await;
        let found = found.expect("access").expect("a known key");
        assert_eq!((found.key.tenant, found.tenant.id), (tenant, tenant));
        assert_eq!(found.sandbox.is_some(), finds);
    }
}
