//! Checks of nodes and the sessions of servers.

use std::collections::BTreeSet;
use std::time::Duration;

use futures::future::join_all;

use crate::catalog::*;
use crate::conformance::assertions::assert_refused;
use crate::conformance::backend::Backend;
use crate::conformance::samples::at;
use crate::limits::MAX_NAME_BYTES;
use crate::records::{Node, NodeId, ServerSession};

const LEASE: Duration = Duration::from_secs(10);

async fn begin(catalog: &impl Catalog, name: &str) -> Node {
    let begun = catalog.begin_session(name, LEASE, at(100)).await;
    begun.expect("a session")
}

/// A node keeps its id. A new session replaces the earlier one of its node and of
/// no other.
pub async fn a_node_has_one_session_at_a_time(backend: &impl Backend) {
    let catalog = backend.open().await;
    assert_eq!(catalog.sessions().await.expect("sessions"), []);
    let first = begin(&catalog, "one").await;
    assert_eq!((&*first.name, first.id), ("one", NodeId::FIRST));
    assert!(first.expires > first.started);
    let other = begin(&catalog, "two").await;
    assert_ne!(other.id, first.id);
    let second = begin(&catalog, "one").await;
    assert_eq!(second.id, first.id);
    assert!(first.session < other.session && other.session < second.session);
    let sessions = catalog.sessions().await.expect("sessions");
    assert_eq!(sessions, [second, other]);
    for name in ["", &"x".repeat(MAX_NAME_BYTES + 1)] {
        assert_refused(catalog.begin_session(name, LEASE, at(100)).await);
    }
}

/// A session that was replaced is not renewed.
pub async fn the_newest_session_of_a_node_is_renewed(backend: &impl Backend) {
    let catalog = backend.open().await;
    let first = begin(&catalog, "one").await;
    let renew = async |session: ServerSession| {
        let renewed = catalog.renew_session(session, 2 * LEASE, at(105)).await;
        renewed.expect("renew")
    };
    assert!(renew(first.session).await);
    let renewed = &catalog.sessions().await.expect("sessions")[0];
    assert!(renewed.expires > first.expires);
    assert_eq!(renewed.started, first.started);
    let second = begin(&catalog, "one").await;
    assert!(!renew(first.session).await);
    assert!(renew(second.session).await);
}

/// Checks promise 27 through two handles.
pub async fn concurrent_sessions_have_different_numbers(backend: &impl Backend) {
    let handles = [backend.open().await, backend.open().await];
    let names: Vec<_> = (0..16).map(|n| format!("node-{}", n % 8)).collect();
    let each = names.iter().zip(handles.iter().cycle());
    let begun = join_all(each.map(|(name, handle)| begin(handle, name))).await;
    let sessions: BTreeSet<_> = begun.iter().map(|node| node.session).collect();
    assert_eq!(sessions.len(), 16);
    let nodes: BTreeSet<_> = begun.iter().map(|node| (&node.name, node.id)).collect();
    assert_eq!(nodes.len(), 8);
}
