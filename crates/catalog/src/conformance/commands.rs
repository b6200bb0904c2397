//! Checks of commands with an id that a client has chosen.

use futures::future::join_all;

use crate::catalog::*;
use crate::conformance::assertions::{assert_not_found, assert_refused};
use crate::conformance::backend::Backend;
use crate::conformance::samples::{ALICE, BOB, add, at, furnished, id_of, sandbox};
use crate::error::Kind;
use crate::records::{Claimed, CommandClaim};

fn claim(sandbox: &str, fingerprint: u8) -> CommandClaim {
    CommandClaim {
        sandbox: id_of(sandbox),
        id: "build-1".into(),
        fingerprint: [fingerprint; 32],
    }
}

async fn claimed(catalog: &impl Catalog, claim: &CommandClaim) -> Claimed {
    catalog.claim_command(ALICE, claim).await.expect("claim")
}

/// The same id in another sandbox is another command.
pub async fn the_id_of_a_command_is_claimed_once(backend: &impl Backend) {
    let catalog = furnished(backend).await;
    add(&catalog, &sandbox(ALICE, "one")).await;
    add(&catalog, &sandbox(ALICE, "two")).await;
    assert_eq!(claimed(&catalog, &claim("one", 1)).await, Claimed::New);
    assert_eq!(claimed(&catalog, &claim("one", 1)).await, Claimed::Again);
    assert_eq!(claimed(&catalog, &claim("one", 2)).await, Claimed::Taken);
    assert_eq!(claimed(&catalog, &claim("two", 2)).await, Claimed::New);
    let other_tenant = catalog.claim_command(BOB, &claim("one", 1)).await;
    assert_not_found(other_tenant, Kind::Sandbox);
    let missing = catalog.claim_command(ALICE, &claim("none", 1)).await;
    assert_not_found(missing, Kind::Sandbox);
    let unnamed = CommandClaim {
        id: String::new(),
        ..claim("one", 1)
    };
    assert_refused(catalog.claim_command(ALICE, &unnamed).await);
}

/// Another tenant cannot release a claim.
pub async fn a_claim_lasts_until_it_is_released_or_its_sandbox_removed(backend: &impl Backend) {
    let catalog = furnished(backend).await;
    add(&catalog, &sandbox(ALICE, "one")).await;
    let one = claim("one", 1);
    assert_eq!(claimed(&catalog, &one).await, Claimed::New);
    let release = async |tenant| {
        let released = catalog.release_command(tenant, &one.sandbox, &one.id).await;
        released.expect("release");
    };
    release(BOB).await;
    assert_eq!(claimed(&catalog, &one).await, Claimed::Again);
    release(ALICE).await;
    release(ALICE).await;
    assert_eq!(claimed(&catalog, &claim("one", 2)).await, Claimed::New);
    let removed = catalog.remove_sandbox(ALICE, &one.sandbox, at(1)).await;
    assert!(removed.expect("remove"));
    add(&catalog, &sandbox(ALICE, "one")).await;
    assert_eq!(claimed(&catalog, &one).await, Claimed::New);
}

/// Checks promise 24 through two handles.
pub async fn one_of_several_concurrent_claims_is_new(backend: &impl Backend) {
    let handles = [furnished(backend).await, backend.open().await];
    add(&handles[0], &sandbox(ALICE, "one")).await;
    let one = claim("one", 1);
    let each = (0..16).map(|n| claimed(&handles[n % 2], &one));
    let outcomes = join_all(each).await;
    let new = outcomes.iter().filter(|outcome| **outcome == Claimed::New);
    assert_eq!(new.count(), 1);
    assert!(!outcomes.contains(&Claimed::Taken));
}
