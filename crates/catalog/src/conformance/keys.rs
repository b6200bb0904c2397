//! Checks of API keys.

use crate::catalog::*;
use crate::conformance::assertions::{assert_exists, assert_not_found};
use crate::conformance::backend::Backend;
use crate::conformance::samples::{AGENT, ALICE, BOB, KEY, at, furnished, id_of, key};
use crate::error::Kind;
use crate::records::{ApiKey, KeyLimits};

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
