//! Tenants, agents, keys.

use super::{
    AGENT, ALICE, BOB, KEY, Place, add, agent, assert_exists, assert_not_found, at, furnished, key,
    list, of_tenant, sandbox, tenant,
};
use crate::catalog::*;
use crate::error::Kind;
use crate::records::{ApiKey, KeyLimits};

/// Neither its id nor its name can be taken twice.
pub async fn a_tenant_is_added_once(place: &impl Place) {
    let catalog = place.open().await;
    let (alice, bob) = (tenant(ALICE, "alice"), tenant(BOB, "bob"));
    catalog.add_tenant(&alice).await.expect("the first");
    for taken in [tenant(ALICE, "other"), tenant(BOB, "alice")] {
        assert_exists(catalog.add_tenant(&taken).await, Kind::Tenant);
    }
    catalog.add_tenant(&bob).await.expect("the second");
    let tenants = catalog.tenants().await.expect("tenants");
    assert_eq!(tenants, [alice, bob]);
}

/// Neither its id nor its name can be taken twice in a tenant; another tenant may
/// use both.
pub async fn an_agent_is_added_once_to_its_tenant(place: &impl Place) {
    let catalog = furnished(place).await;
    let mut same_name = agent(ALICE, "another id");
    same_name.name = agent(ALICE, AGENT).name;
    for taken in [agent(ALICE, AGENT), same_name] {
        assert_exists(catalog.add_agent(&taken).await, Kind::Agent);
    }
    let nobody = super::TenantId::new([3; 16]);
    assert_not_found(catalog.add_agent(&agent(nobody, "x")).await, Kind::Owner);
    for id in [ALICE, BOB] {
        let agents = catalog.agents(id).await.expect("agents");
        assert_eq!(agents, [agent(id, AGENT)]);
        let found = catalog.agent(id, AGENT).await.expect("agent");
        assert_eq!(found, Some(agent(id, AGENT)));
    }
    let found = catalog.agent(ALICE, "another id").await.expect("agent");
    assert_eq!(found, None);
}

/// Also if it is revoked or expired.
pub async fn a_revoked_or_expired_key_is_found_by_its_hash(place: &impl Place) {
    let catalog = furnished(place).await;
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
    let found = catalog.key_by_hash(&[9; 32]).await.expect("key");
    assert_eq!(found.as_ref(), Some(&full));
    let keys = catalog.keys(BOB).await.expect("keys");
    assert_eq!(keys.len(), 4);
    assert!(keys.contains(&full));
    let found = catalog.key_by_hash(&[8; 32]).await.expect("key");
    assert_eq!(found, None);
}

/// Unique by id in its tenant, by hash in the catalog.
pub async fn a_key_is_added_once(place: &impl Place) {
    let catalog = furnished(place).await;
    let mut same_id = key(ALICE, KEY, None);
    same_id.hash = [1; 32];
    let mut same_hash = key(BOB, "another id", None);
    same_hash.hash = key(ALICE, KEY, None).hash;
    for taken in [same_id, same_hash] {
        assert_exists(catalog.add_key(&taken).await, Kind::Key);
    }
    let of_nobody = key(ALICE, "another id", Some("nobody"));
    assert_not_found(catalog.add_key(&of_nobody).await, Kind::Owner);
    assert_eq!(catalog.keys(ALICE).await.expect("keys").len(), 3);
}

/// The time of the first revocation stays.
pub async fn a_key_is_revoked_once(place: &impl Place) {
    let catalog = furnished(place).await;
    let revoke = async |id, time| catalog.revoke_key(ALICE, id, at(time)).await;
    assert!(revoke(KEY, 5).await.expect("revoke"));
    assert!(!revoke(KEY, 6).await.expect("revoke"));
    assert!(!revoke("nothing", 6).await.expect("revoke"));
    let hash = key(ALICE, KEY, None).hash;
    let found = catalog.key_by_hash(&hash).await.expect("key");
    assert_eq!(found.and_then(|key| key.revoked), Some(at(5)));
    let by_id = async |tenant, id| catalog.key(tenant, id).await.expect("key");
    let found = by_id(ALICE, KEY).await;
    assert_eq!(found.and_then(|key| key.revoked), Some(at(5)));
    assert_eq!(by_id(ALICE, "nothing").await, None);
    let hash = key(BOB, KEY, None).hash;
    let found = catalog.key_by_hash(&hash).await.expect("key");
    assert_eq!(found.and_then(|key| key.revoked), None);
    let found = by_id(BOB, KEY).await;
    assert_eq!(found.and_then(|key| key.revoked), None);
}

/// Promise 4.
pub async fn nothing_crosses_tenants(place: &impl Place) {
    let catalog = furnished(place).await;
    let extra = key(ALICE, "extra", None);
    catalog.add_key(&extra).await.expect("a new key");
    add(&catalog, &sandbox(ALICE, "a")).await;
    let found = async |tenant, id| catalog.sandbox(tenant, id).await.expect("sandbox");
    assert!(found(ALICE, "a").await.is_some());
    assert!(found(BOB, "a").await.is_none());
    assert!(list(&catalog, &of_tenant(BOB)).await.is_empty());
    let total = catalog.sandboxes(&of_tenant(BOB)).await.expect("sandboxes");
    assert_eq!(total.total, 0);
    let counts = catalog.count_by_state(Some(BOB)).await.expect("counts");
    assert!(counts.values().all(|count| *count == 0));
    let revoked = catalog.revoke_key(BOB, "extra", at(9)).await;
    assert!(!revoked.expect("revoke"));
    // A key of another tenant creates nothing here, though it exists.
    let mut borrowed = sandbox(BOB, "b");
    borrowed.key = "extra".into();
    let added = catalog.add_sandbox(&borrowed, super::NO_LIMITS).await;
    assert_not_found(added, Kind::Owner);
}
