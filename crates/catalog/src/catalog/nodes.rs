use std::time::Duration;

use async_trait::async_trait;
use elevo_core::Timestamp;

use crate::error::Result;
use crate::nodes::{Node, ServerSession};

/// Nodes, and the sessions of the servers on them.
///
/// In addition to the promises of [`Catalog`](crate::Catalog), every
/// implementation keeps this one:
///
/// 27. *Each session has a different number*: a session has a greater number than
///     every session of any node that began before it.
///
/// `now` is the time of the caller; a database may use its own clock instead, as
/// for [`Leases`](crate::Leases).
#[async_trait]
pub trait Nodes {
    /// Begins a session on the node with this name, in place of its earlier one.
    /// Adds the node if there is none. The session expires after `duration` unless
    /// it is renewed.
    async fn begin_session(&self, node: &str, duration: Duration, now: Timestamp) -> Result<Node>;

    /// Moves the expiry of a session to `duration` from now; returns `false` if its
    /// node has begun another session.
    async fn renew_session(
        &self,
        session: ServerSession,
        duration: Duration,
        now: Timestamp,
    ) -> Result<bool>;

    /// Returns all nodes with their newest sessions, including expired ones, by id.
    async fn sessions(&self) -> Result<Vec<Node>>;

    /// Returns whether a session has not expired, so a server uses the catalog.
    async fn is_in_use(&self, now: Timestamp) -> Result<bool>;

    /// Gives the catalog to an installation unless a session has not expired;
    /// returns whether it did. No session begins during the call, so a server
    /// that begins one finds the new id in the setting [`INSTALLATION`].
    ///
    /// [`INSTALLATION`]: crate::INSTALLATION
    async fn give_to(&self, installation: &str, now: Timestamp) -> Result<bool>;
}
