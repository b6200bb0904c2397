//! Checks of nodes and the sessions of servers.

use std::collections::BTreeSet;
use std::time::Duration;

use elevo_core::SandboxId;
use futures::future::join_all;

use crate::catalog::*;
use crate::change::SandboxChange;
use crate::conformance::assertions::{assert_changed, assert_refused};
use crate::conformance::backend::Backend;
use crate::conformance::samples::{
    ALICE, add, add_workspace, at, furnished, get, id_of, sandbox, snapshot, workspace,
};
use crate::error::Kind;
use crate::found::INSTALLATION;
use crate::limits::MAX_NAME_BYTES;
use crate::nodes::{Node, NodeId, ServerSession};
use crate::query::SandboxQuery;
use crate::records::{WorkspaceChange, WorkspaceFiles, WorkspaceQuery};

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

/// The catalog is in use until the last session expires.
pub async fn a_catalog_that_is_in_use_is_not_given_to_an_installation(backend: &impl Backend) {
    let catalog = backend.open().await;
    let is_in_use = async || catalog.is_in_use(at(105)).await.expect("is in use");
    let give = async |id| catalog.give_to(id, at(105)).await.expect("give");
    let installation = async || catalog.setting(INSTALLATION).await.expect("setting");
    assert!(!is_in_use().await && give("one").await);
    assert_eq!(installation().await.as_deref(), Some("one"));
    let sessions = [begin(&catalog, "a").await, begin(&catalog, "b").await];
    for node in sessions {
        assert!(is_in_use().await && !give("two").await);
        let ended = catalog.renew_session(node.session, Duration::ZERO, at(105));
        assert!(ended.await.expect("ended"));
    }
    assert!(!is_in_use().await && give("two").await);
    assert_eq!(installation().await.as_deref(), Some("two"));
    assert_refused(catalog.give_to(&"x".repeat(1 << 20), at(105)).await);
}

/// A sandbox that has moved to another node is changed only by a caller that knows
/// so.
pub async fn a_sandbox_of_another_generation_is_not_changed(backend: &impl Backend) {
    let catalog = furnished(backend).await;
    add(&catalog, &sandbox(ALICE, "a")).await;
    add(&catalog, &sandbox(ALICE, "b")).await;
    let change = async |generation, node| {
        let change = SandboxChange {
            generation,
            node,
            ..SandboxChange::default()
        };
        catalog
            .change_sandbox(ALICE, &id_of("a"), &change, at(101))
            .await
    };
    assert_changed(change(Some(2), None).await, Kind::Sandbox);
    let moved = change(Some(1), Some(NodeId(7))).await.expect("moved");
    assert_eq!((moved.node, moved.generation), (NodeId(7), 2));
    assert_eq!(get(&catalog, "a").await, Some(moved));
    assert_changed(change(Some(1), None).await, Kind::Sandbox);
    assert_changed(change(Some(1), Some(NodeId(8))).await, Kind::Sandbox);
    let same = change(Some(2), None).await.expect("changed");
    assert_eq!((same.node, same.generation), (NodeId(7), 2));
    for (node, expected) in [(NodeId::FIRST, "b"), (NodeId(7), "a")] {
        let query = SandboxQuery {
            node: Some(node),
            ..SandboxQuery::default()
        };
        let found = catalog.sandboxes(&query).await.expect("sandboxes");
        assert_eq!(found.total, 1);
        assert_eq!(found.items[0].id, id_of::<SandboxId>(expected));
    }
}

/// The same for a workspace, which also leaves its files in the store.
pub async fn a_workspace_of_another_generation_is_not_changed(backend: &impl Backend) {
    let catalog = furnished(backend).await;
    add_workspace(&catalog, &workspace(ALICE, "a", None)).await;
    add_workspace(&catalog, &workspace(ALICE, "b", None)).await;
    let files = WorkspaceFiles {
        base: Some(snapshot(5)),
        limit: Some(7),
        ..WorkspaceFiles::default()
    };
    let change = async |generation, node, files| {
        let change = WorkspaceChange {
            generation,
            node,
            files,
            ..WorkspaceChange::default()
        };
        catalog
            .change_workspace(ALICE, &id_of("a"), &change, at(101))
            .await
    };
    assert_changed(change(Some(2), None, None).await, Kind::Workspace);
    let parked = change(Some(1), None, Some(files)).await.expect("parked");
    assert_eq!((parked.generation, parked.files), (1, files));
    let moved = change(Some(1), Some(NodeId(7)), None).await.expect("moved");
    assert_eq!((moved.node, moved.generation), (NodeId(7), 2));
    assert_eq!(moved.files, files);
    let found = catalog.workspace(ALICE, &moved.id).await;
    assert_eq!(found.expect("workspace"), Some(moved));
    assert_changed(change(Some(1), None, None).await, Kind::Workspace);
    let none = WorkspaceFiles::default();
    let live = change(Some(2), None, Some(none)).await.expect("changed");
    assert_eq!(live.files, none);
    for (node, expected) in [(NodeId::FIRST, "b"), (NodeId(7), "a")] {
        let query = WorkspaceQuery {
            node: Some(node),
            ..WorkspaceQuery::default()
        };
        let found = catalog.workspaces(&query).await.expect("workspaces");
        assert_eq!(found.total, 1);
        assert_eq!(&*found.items[0].id, expected);
    }
}
