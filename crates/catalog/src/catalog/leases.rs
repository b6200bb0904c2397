use std::time::Duration;

use async_trait::async_trait;
use elevo_core::Timestamp;

use crate::error::Result;
use crate::nodes::{Lease, ServerSession};

/// Leases: work that one server at a time does for all servers.
///
/// A lease is held by one session of a server until it expires or is released. The
/// holder renews it by taking it again. A holder that stalls can lose its lease
/// without noticing, so it gives the token of the lease with each change that
/// depends on the lease, and a token that is no longer current is rejected.
///
/// In addition to the promises of [`Catalog`](crate::Catalog), every
/// implementation keeps these:
///
/// 25. *A lease has one holder*: while a lease is held, no other session gets it.
/// 26. *A token never returns*: the token of a lease grows with each change of its
///     holder, also after a release, and stays the same while the holder does.
///
/// A lease that expires at a time is no longer held at that time. `now` is the time
/// of the caller; a database may use its own clock instead, so that the clocks of
/// several servers do not matter. It then also sets `expires` by its own clock.
#[async_trait]
pub trait Leases {
    /// Takes a lease that is not held, or renews the caller's own one, for
    /// `duration` from now. Returns `None` if another session holds the lease.
    async fn take_lease(
        &self,
        name: &str,
        session: ServerSession,
        duration: Duration,
        now: Timestamp,
    ) -> Result<Option<Lease>>;

    /// Ends a lease, so that another session can take it at once; returns `false`
    /// if this session does not hold it with this token.
    async fn release_lease(&self, name: &str, session: ServerSession, token: u64) -> Result<bool>;

    /// Returns whether a lease is held with this token.
    async fn check_lease(&self, name: &str, token: u64, now: Timestamp) -> Result<bool>;
}
