//! Nodes, the sessions of servers on them, and leases.

use std::fmt;

use elevo_core::Timestamp;

use crate::columns::{Column, stored};

/// Number of a node: a machine on which a server runs sandboxes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub u32);

impl NodeId {
    /// The first node, which is the only one unless several servers share a
    /// catalog.
    pub const FIRST: Self = Self(1);
}

impl fmt::Display for NodeId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", self.0)
    }
}

/// Number of a session: one run of a server on a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServerSession(pub u64);

impl fmt::Display for ServerSession {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "session-{}", self.0)
    }
}

/// A node, and the newest session of the server on it.
#[derive(Clone, Debug, PartialEq, Eq, sqlx::FromRow)]
pub struct Node {
    /// Unique id.
    #[sqlx(try_from = "Column<NodeId>")]
    pub id: NodeId,
    /// Name, unique among nodes.
    pub name: String,
    /// The newest session.
    #[sqlx(try_from = "Column<ServerSession>")]
    pub session: ServerSession,
    /// Time at which the session began.
    #[sqlx(try_from = "Column<Timestamp>")]
    pub started: Timestamp,
    /// Time at which the session expires unless it is renewed.
    #[sqlx(try_from = "Column<Timestamp>")]
    pub expires: Timestamp,
}

/// A lease that a session holds.
#[derive(Clone, Debug, PartialEq, Eq, sqlx::FromRow)]
pub struct Lease {
    /// Name, unique among leases.
    pub name: String,
    /// Number that grows with each change of the holder.
    #[sqlx(try_from = "Column<u64>")]
    pub token: u64,
    /// Time from which another session can take it.
    #[sqlx(try_from = "Column<Timestamp>")]
    pub expires: Timestamp,
}

stored!(integer NodeId, |form: i64| form.try_into().ok().map(NodeId));
stored!(integer ServerSession, |form: i64| form.try_into().ok().map(ServerSession));
