//! Checks of leases. They also pass for a database that uses its own clock: they
//! wait for short leases to expire, and also move the time that they pass.

use std::time::Duration;

use elevo_core::Timestamp;
use futures::future::join_all;
use tokio::time::sleep;

use crate::catalog::*;
use crate::conformance::assertions::assert_refused;
use crate::conformance::backend::Backend;
use crate::conformance::samples::at;
use crate::limits::MAX_NAME_BYTES;
use crate::nodes::{Lease, ServerSession};

const ONE: ServerSession = ServerSession(1);
const TWO: ServerSession = ServerSession(2);

/// Longer than any check runs.
const LONG: Duration = Duration::from_secs(3600);

const SHORT: Duration = Duration::from_millis(20);

const NOW: i64 = 1000;

async fn take(
    catalog: &impl Catalog,
    session: ServerSession,
    duration: Duration,
    now: Timestamp,
) -> Option<Lease> {
    let taken = catalog.take_lease("job", session, duration, now).await;
    taken.expect("take")
}

async fn is_current(catalog: &impl Catalog, token: u64, now: Timestamp) -> bool {
    let checked = catalog.check_lease("job", token, now).await;
    checked.expect("check")
}

/// Takes the lease as soon as it has expired.
async fn take_later(catalog: &impl Catalog, session: ServerSession) -> (Lease, Timestamp) {
    for second in NOW.. {
        if let Some(lease) = take(catalog, session, LONG, at(second)).await {
            return (lease, at(second));
        }
        sleep(SHORT).await;
    }
    unreachable!("the loop has no end")
}

/// Checks promise 25 through two handles.
pub async fn one_of_several_concurrent_takers_gets_a_lease(backend: &impl Backend) {
    let handles = [backend.open().await, backend.open().await];
    let takers = (1..=32).map(|n| take(&handles[n % 2], ServerSession(n as u64), LONG, at(NOW)));
    let taken = join_all(takers).await;
    let outcomes = (1..).map(ServerSession).zip(&taken);
    let holders: Vec<_> = outcomes
        .filter_map(|(session, lease)| Some((session, lease.as_ref()?)))
        .collect();
    assert_eq!(holders.len(), 1, "{taken:?}");
    let (holder, lease) = holders[0];
    assert_eq!((&*lease.name, lease.token), ("job", 1));
    let renewed = take(&handles[0], holder, LONG, at(NOW)).await;
    assert_eq!(renewed.expect("it is the holder").token, 1);
}

/// Another lease does not matter, and neither does a renewal to the token.
pub async fn a_lease_is_renewed_by_its_holder_alone(backend: &impl Backend) {
    let catalog = backend.open().await;
    let first = take(&catalog, ONE, LONG, at(NOW)).await.expect("free");
    assert!(is_current(&catalog, first.token, at(NOW)).await);
    assert_eq!(take(&catalog, TWO, LONG, at(NOW)).await, None);
    let other = catalog.take_lease("other", TWO, LONG, at(NOW)).await;
    assert_eq!(other.expect("take").expect("free").name, "other");
    let renewed = take(&catalog, ONE, 2 * LONG, at(NOW)).await;
    let renewed = renewed.expect("it is the holder");
    assert_eq!(renewed.token, first.token);
    assert!(renewed.expires > first.expires);
    assert!(is_current(&catalog, first.token, at(NOW)).await);
}

/// Promise 26: the token of the earlier holder is rejected from then on.
pub async fn an_expired_lease_passes_to_another_session(backend: &impl Backend) {
    let catalog = backend.open().await;
    let first = take(&catalog, ONE, SHORT, at(NOW)).await.expect("free");
    let (second, now) = take_later(&catalog, TWO).await;
    assert_eq!(second.token, first.token + 1);
    assert!(second.expires > first.expires);
    assert!(!is_current(&catalog, first.token, now).await);
    assert!(is_current(&catalog, second.token, now).await);
    assert_eq!(take(&catalog, ONE, LONG, now).await, None);
    let released = catalog.release_lease("job", ONE, first.token).await;
    assert!(!released.expect("release"), "it is not the holder");
    assert!(is_current(&catalog, second.token, now).await);
}

/// The holder itself can take an expired lease again, with the same token.
pub async fn the_token_of_an_expired_lease_is_rejected(backend: &impl Backend) {
    let catalog = backend.open().await;
    let first = take(&catalog, ONE, SHORT, at(NOW)).await.expect("free");
    let mut later = NOW;
    while is_current(&catalog, first.token, at(later)).await {
        later += 1;
        sleep(SHORT).await;
    }
    let again = take(&catalog, ONE, LONG, at(later)).await;
    assert_eq!(again.expect("not held").token, first.token);
    assert!(is_current(&catalog, first.token, at(later)).await);
    for wrong in [0, first.token + 1] {
        assert!(!is_current(&catalog, wrong, at(later)).await);
    }
}

/// A lease is released by its holder alone, and the token grows all the same.
pub async fn a_released_lease_can_be_taken_at_once(backend: &impl Backend) {
    let catalog = backend.open().await;
    let release = async |session, token| {
        let released = catalog.release_lease("job", session, token).await;
        released.expect("release")
    };
    assert!(!release(ONE, 1).await, "there is no such lease");
    let first = take(&catalog, ONE, LONG, at(NOW)).await.expect("free");
    assert!(!release(TWO, first.token).await);
    assert!(!release(ONE, first.token + 1).await);
    assert!(is_current(&catalog, first.token, at(NOW)).await);
    assert!(release(ONE, first.token).await);
    assert!(!release(ONE, first.token).await, "it is released already");
    assert!(!is_current(&catalog, first.token, at(NOW)).await);
    let second = take(&catalog, TWO, LONG, at(NOW)).await.expect("free");
    assert_eq!(second.token, first.token + 1);
    for name in ["", &"x".repeat(MAX_NAME_BYTES + 1)] {
        assert_refused(catalog.take_lease(name, ONE, LONG, at(NOW)).await);
    }
}
