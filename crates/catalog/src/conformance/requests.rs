//! Requests that may come twice.

use elevo_core::TenantId;
use futures::future::join_all;

use super::{ALICE, BOB, Place, assert_not_found, assert_refused, at, furnished};
use crate::bounds::MAX_BODY_BYTES;
use crate::catalog::Catalog;
use crate::error::Kind;
use crate::request::{Begun, IdempotentRequest};

/// Kept from 10 to 20.
fn request(tenant: TenantId, key: &str) -> IdempotentRequest {
    IdempotentRequest {
        tenant,
        key: key.into(),
        route: "POST /sandboxes".into(),
        fingerprint: [5; 32],
        now: at(10),
        keep_until: at(20),
    }
}

async fn begin(catalog: &impl Catalog, request: &IdempotentRequest) -> Begun {
    catalog.begin(request).await.expect("begin")
}

/// Later ones are answered as the first was.
pub async fn a_request_is_carried_out_once(place: &impl Place) {
    let catalog = furnished(place).await;
    let request_a = request(ALICE, "a");
    assert_eq!(begin(&catalog, &request_a).await, Begun::New);
    assert_eq!(begin(&catalog, &request_a).await, Begun::Running);
    let too_long = vec![0; MAX_BODY_BYTES + 1];
    assert_refused(catalog.finish(ALICE, "a", 201, &too_long).await);
    let body = [0, 255, 10, 39];
    let finished = catalog.finish(ALICE, "a", 201, &body).await;
    finished.expect("it runs");
    let done = Begun::Done {
        status: 201,
        body: body.to_vec(),
    };
    for _ in 0..2 {
        assert_eq!(begin(&catalog, &request_a).await, done);
    }
    // Who is late, or never began, changes nothing.
    for (tenant, key) in [(ALICE, "a"), (ALICE, "b"), (BOB, "a")] {
        let finished = catalog.finish(tenant, key, 500, b"").await;
        assert_not_found(finished, Kind::Request);
    }
    catalog.abandon(ALICE, "a").await.expect("abandon");
    assert_eq!(begin(&catalog, &request_a).await, done);
    assert_eq!(begin(&catalog, &request(BOB, "a")).await, Begun::New);
}

/// While it runs, and when it is done.
pub async fn another_request_with_the_same_key_is_a_mismatch(place: &impl Place) {
    let catalog = furnished(place).await;
    assert_eq!(begin(&catalog, &request(ALICE, "a")).await, Begun::New);
    let mut other_route = request(ALICE, "a");
    other_route.route = "DELETE /sandboxes".into();
    let mut other_content = request(ALICE, "a");
    other_content.fingerprint = [6; 32];
    for _ in 0..2 {
        for other in [&other_route, &other_content] {
            assert_eq!(begin(&catalog, other).await, Begun::Mismatch);
        }
        let _ = catalog.finish(ALICE, "a", 200, b"").await;
    }
    let nobody = TenantId::new([3; 16]);
    let begun = catalog.begin(&request(nobody, "a")).await;
    assert_not_found(begun, Kind::Owner);
}

/// Before and after somebody cleans up.
pub async fn an_old_request_is_as_good_as_unknown(place: &impl Place) {
    let catalog = furnished(place).await;
    let first = request(ALICE, "a");
    begin(&catalog, &first).await;
    let finished = catalog.finish(ALICE, "a", 200, b"old").await;
    finished.expect("it runs");
    let later = IdempotentRequest {
        now: at(20),
        keep_until: at(30),
        fingerprint: [6; 32],
        ..first
    };
    assert_eq!(begin(&catalog, &later).await, Begun::New);
    assert_eq!(begin(&catalog, &later).await, Begun::Running);
    for n in 0..1100 {
        begin(&catalog, &request(BOB, &n.to_string())).await;
    }
    let forget = async |now| catalog.forget_idempotent(at(now)).await.expect("forget");
    assert_eq!(forget(19).await, 0);
    assert_eq!(forget(20).await, 1100);
    assert_eq!(begin(&catalog, &later).await, Begun::Running);
    assert_eq!(forget(30).await, 1);
    assert_eq!(forget(30).await, 0);
}

/// One, or all of them.
pub async fn an_abandoned_request_can_be_sent_again(place: &impl Place) {
    let catalog = furnished(place).await;
    let requests = ["a", "b", "c"].map(|key| request(ALICE, key));
    for request in &requests {
        begin(&catalog, request).await;
    }
    catalog.abandon(ALICE, "a").await.expect("abandon");
    catalog.abandon(ALICE, "a").await.expect("also twice");
    catalog.abandon(BOB, "b").await.expect("not theirs");
    assert_eq!(begin(&catalog, &requests[0]).await, Begun::New);
    assert_eq!(begin(&catalog, &requests[1]).await, Begun::Running);
    let finished = catalog.finish(ALICE, "c", 204, b"").await;
    finished.expect("it runs");
    let abandoned = catalog.abandon_all_running().await.expect("abandon");
    assert_eq!(abandoned, 2);
    assert_eq!(begin(&catalog, &requests[1]).await, Begun::New);
    let done = begin(&catalog, &requests[2]).await;
    assert!(matches!(done, Begun::Done { status: 204, .. }), "{done:?}");
}

/// From two handles.
pub async fn of_equal_requests_at_once_one_is_new(place: &impl Place) {
    let handles = [furnished(place).await, place.open().await];
    let request = request(ALICE, "a");
    let begun = join_all((0..32).map(|n| begin(&handles[n % 2], &request))).await;
    let new = begun.iter().filter(|begun| **begun == Begun::New).count();
    let running = begun.iter().filter(|begun| **begun == Begun::Running);
    assert_eq!((new, running.count()), (1, 31));
}
