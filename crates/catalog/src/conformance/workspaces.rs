//! Checks of workspaces.

use elevo_core::Timestamp;
use elevo_objects::Entry;
use futures::future::join_all;
use serde_json::json;

use crate::catalog::*;
use crate::conformance::assertions::{
    assert_being_removed, assert_changed, assert_exists, assert_not_found, assert_refused,
};
use crate::conformance::backend::Backend;
use crate::conformance::samples::{
    AGENT, AGENT_KEYS, ALICE, BOB, add_project, add_workspace, at, file, furnished, id_of, land,
    path, project, snapshot, step, workspace,
};
use crate::error::{Error, Kind};
use crate::limits::{MAX_PAGE, MAX_SYNC_BYTES};
use crate::nodes::NodeId;
use crate::records::{
    BaseMove, Step, Unsettled, Workspace, WorkspaceChange, WorkspaceFiles, WorkspaceQuery,
    WorkspaceState,
};

async fn get(catalog: &impl Catalog, id: &str) -> Option<Workspace> {
    let found = catalog.workspace(ALICE, &id_of(id)).await;
    found.expect("workspace")
}

/// The workspace is read back with all its fields, with and without a project.
pub async fn a_workspace_is_read_back_as_added(backend: &impl Backend) {
    let catalog = furnished(backend).await;
    add_project(&catalog, &project(ALICE, "p")).await;
    let full = Workspace {
        agent: Some(id_of(AGENT)),
        key: id_of(AGENT_KEYS[0]),
        name: Some("name".into()),
        base: snapshot(1),
        synced: snapshot(2),
        merges: i64::MAX as u64,
        sync: json!([null, "\u{0}", { "every": 1.5 }]),
        read_only: true,
        follows: true,
        state: WorkspaceState::Parked,
        node: NodeId(u32::MAX),
        generation: i64::MAX as u64,
        files: WorkspaceFiles {
            origin: Some(snapshot(3)),
            base: Some(snapshot(4)),
            home: Some(snapshot(5)),
            limit: Some(i64::MAX as u64),
        },
        last_merge: Some(Timestamp::new(-1, 999_999_000).expect("a time")),
        expires: Some(Timestamp::new(2, 1_000).expect("a time")),
        created: Timestamp::new(1, 1_000).expect("a time"),
        ..workspace(ALICE, "full", Some("p"))
    };
    for one in [&full, &workspace(ALICE, "bare", None)] {
        add_workspace(&catalog, one).await;
        assert_eq!(get(&catalog, &one.id).await.as_ref(), Some(one));
        let elsewhere = catalog.workspace(BOB, &one.id).await;
        assert_eq!(elsewhere.expect("workspace"), None);
    }
    let mut long = workspace(ALICE, "new", None);
    long.sync = "x".repeat(MAX_SYNC_BYTES).into();
    let mut many = workspace(ALICE, "new", None);
    many.merges = u64::MAX;
    let mut unnamed = workspace(ALICE, "new", None);
    unnamed.name = Some(String::new());
    for bad in [long, many, unnamed] {
        assert_refused(catalog.add_workspace(&bad).await);
    }
}

/// The owners are the tenant, the project, the agent and the key. The id must be
/// free.
pub async fn a_workspace_needs_its_owners(backend: &impl Backend) {
    let catalog = furnished(backend).await;
    add_project(&catalog, &project(BOB, "of-bob")).await;
    let of_unknown_tenant = workspace(elevo_core::TenantId::new([3; 16]), "a", None);
    let mut no_agent = workspace(ALICE, "a", None);
    no_agent.agent = Some(id_of("unknown"));
    let mut no_key = workspace(ALICE, "a", None);
    no_key.key = id_of("nothing");
    let no_project = workspace(ALICE, "a", Some("nothing"));
    let borrowed = workspace(ALICE, "a", Some("of-bob"));
    for orphan in [of_unknown_tenant, no_agent, no_key, no_project, borrowed] {
        let added = catalog.add_workspace(&orphan).await;
        assert_not_found(added, Kind::Owner);
    }
    add_workspace(&catalog, &workspace(ALICE, "a", None)).await;
    for tenant in [ALICE, BOB] {
        let again = catalog.add_workspace(&workspace(tenant, "a", None)).await;
        assert_exists(again, Kind::Workspace);
    }
}

/// The list is complete in pages of any length, and matches all filters.
pub async fn workspaces_are_listed_newest_first(backend: &impl Backend) {
    let catalog = furnished(backend).await;
    for id in ["p", "q"] {
        add_project(&catalog, &project(ALICE, id)).await;
    }
    for n in 0..8 {
        let of = if n & 1 == 0 { "p" } else { "q" };
        let mut one = workspace(ALICE, &format!("{n}"), Some(of));
        one.created = at(n / 3);
        one.agent = (n & 2 == 0).then(|| id_of(AGENT));
        if n & 4 != 0 {
            one.state = WorkspaceState::Parked;
        }
        add_workspace(&catalog, &one).await;
    }
    add_workspace(&catalog, &workspace(BOB, "other", None)).await;
    let all = WorkspaceQuery {
        tenant: Some(ALICE),
        ..WorkspaceQuery::default()
    };
    let of_p = WorkspaceQuery {
        project: Some(id_of("p")),
        ..all.clone()
    };
    let of_agent = WorkspaceQuery {
        agent: Some(id_of(AGENT)),
        ..of_p.clone()
    };
    let parked = WorkspaceQuery {
        state: Some(WorkspaceState::Parked),
        ..of_agent.clone()
    };
    let unknown = WorkspaceQuery {
        agent: Some(id_of("unknown")),
        ..all.clone()
    };
    for (query, expected) in [
        (all, "76543210"),
        (of_p, "6420"),
        (of_agent, "40"),
        (parked, "4"),
        (unknown, ""),
    ] {
        for limit in [1, 3, MAX_PAGE] {
            let mut query = WorkspaceQuery {
                limit,
                ..query.clone()
            };
            let mut seen = String::new();
            loop {
                let page = catalog.workspaces(&query).await.expect("workspaces");
                assert_eq!(page.total, expected.len() as u64);
                let Some(last) = page.items.last() else { break };
                query.after = Some(last.position());
                seen.extend(page.items.into_iter().map(|one| one.id.to_string()));
            }
            assert_eq!(seen, expected, "{query:?}");
        }
    }
    let of_all_tenants = catalog.workspaces(&WorkspaceQuery::default()).await;
    assert_eq!(of_all_tenants.expect("workspaces").total, 9);
    let none = WorkspaceQuery {
        limit: 0,
        ..WorkspaceQuery::default()
    };
    assert_refused(catalog.workspaces(&none).await);
}

/// Also checks that the call returns the changed workspace.
pub async fn a_workspace_changes_only_as_expected(backend: &impl Backend) {
    let catalog = furnished(backend).await;
    let before = workspace(ALICE, "a", None);
    add_workspace(&catalog, &before).await;
    let change = async |change: &WorkspaceChange| {
        catalog
            .change_workspace(ALICE, &id_of("a"), change, at(101))
            .await
    };
    let files = WorkspaceFiles {
        base: Some(snapshot(3)),
        limit: Some(7),
        ..WorkspaceFiles::default()
    };
    let everything = WorkspaceChange {
        expected: Some((before.base, before.merges)),
        name: Some(Some("new".into())),
        base: Some(snapshot(1)),
        synced: Some(snapshot(2)),
        sync: Some(json!({})),
        read_only: Some(true),
        follows: Some(true),
        state: Some(WorkspaceState::Parked),
        node: Some(NodeId(2)),
        files: Some(files),
        unsettled: None,
        expires: Some(Some(at(500))),
        from: Some(WorkspaceState::Live),
        generation: Some(1),
        expired_by: None,
        tells: Vec::new(),
    };
    let expected = Workspace {
        name: Some("new".into()),
        base: snapshot(1),
        synced: snapshot(2),
        sync: json!({}),
        read_only: true,
        follows: true,
        state: WorkspaceState::Parked,
        node: NodeId(2),
        generation: 2,
        files,
        expires: Some(at(500)),
        updated: at(101),
        ..before
    };
    assert_eq!(change(&everything).await.expect("changed"), expected);
    assert_changed(change(&everything).await, Kind::Workspace);
    let merged = WorkspaceChange {
        expected: Some((snapshot(1), 1)),
        ..everything
    };
    assert_changed(change(&merged).await, Kind::Workspace);
    let live = WorkspaceChange {
        from: Some(WorkspaceState::Live),
        ..WorkspaceChange::default()
    };
    assert_changed(change(&live).await, Kind::Workspace);
    let too_early = WorkspaceChange {
        expired_by: Some(at(499)),
        ..WorkspaceChange::default()
    };
    assert_changed(change(&too_early).await, Kind::Workspace);
    let long = WorkspaceChange {
        sync: Some("x".repeat(MAX_SYNC_BYTES).into()),
        ..WorkspaceChange::default()
    };
    assert_refused(change(&long).await);
    assert_eq!(get(&catalog, "a").await, Some(expected));
    for (tenant, id) in [(BOB, "a"), (ALICE, "b")] {
        let change = WorkspaceChange::default();
        let unknown = catalog
            .change_workspace(tenant, &id_of(id), &change, at(102))
            .await;
        assert_not_found(unknown, Kind::Workspace);
    }
    let of_state = |state| WorkspaceChange {
        state: Some(state),
        ..WorkspaceChange::default()
    };
    let expired = WorkspaceChange {
        expired_by: Some(at(500)),
        expires: Some(None),
        ..of_state(WorkspaceState::Live)
    };
    let live = change(&expired).await.expect("it is live again");
    assert_eq!(live.expires, None);
    assert_changed(change(&expired).await, Kind::Workspace);
    let live = of_state(WorkspaceState::Live);
    for _ in 0..2 {
        let marked = change(&of_state(WorkspaceState::Removing)).await;
        assert_eq!(marked.expect("marked").state, WorkspaceState::Removing);
    }
    assert_being_removed(change(&live).await, Kind::Workspace);
}

/// The list has the parked workspaces of a node that have expired at the given
/// time.
pub async fn expired_workspaces_are_found_oldest_first(backend: &impl Backend) {
    let catalog = furnished(backend).await;
    let parked = |id: &str, expires| Workspace {
        state: WorkspaceState::Parked,
        expires,
        ..workspace(ALICE, id, None)
    };
    for (id, expires) in [("c", 30), ("b", 20), ("a", 20), ("d", 40)] {
        add_workspace(&catalog, &parked(id, Some(at(expires)))).await;
    }
    add_workspace(&catalog, &parked("for-ever", None)).await;
    let live = Workspace {
        state: WorkspaceState::Live,
        ..parked("live", Some(at(1)))
    };
    add_workspace(&catalog, &live).await;
    let elsewhere = Workspace {
        node: NodeId(2),
        ..parked("elsewhere", Some(at(1)))
    };
    add_workspace(&catalog, &elsewhere).await;
    let expired = async |now, limit| {
        let found = catalog
            .expired_workspaces_of_all_tenants(NodeId::FIRST, at(now), limit)
            .await;
        let found = found.expect("expired").into_iter();
        found.map(|one| one.id).collect::<Vec<_>>()
    };
    assert!(expired(19, 10).await.is_empty());
    assert_eq!(expired(30, 10).await, ["a", "b", "c"]);
    assert_eq!(expired(99, 2).await, ["a", "b"]);
    for limit in [0, u32::MAX] {
        assert_refused(
            catalog
                .expired_workspaces_of_all_tenants(NodeId::FIRST, at(1), limit)
                .await,
        );
    }
}

/// Checks promise 5 through two handles.
pub async fn one_of_several_concurrent_workspace_changes_wins(backend: &impl Backend) {
    let handles = [furnished(backend).await, backend.open().await];
    add_workspace(&handles[0], &workspace(ALICE, "a", None)).await;
    for round in 0..4 {
        let tries = (0..8).map(|n| {
            let change = WorkspaceChange {
                expected: Some((snapshot(round), 0)),
                base: Some(snapshot(round + 1)),
                name: Some(Some(format!("{round}-{n}"))),
                ..WorkspaceChange::default()
            };
            let catalog = &handles[n % 2];
            async move {
                catalog
                    .change_workspace(ALICE, &id_of("a"), &change, at(101))
                    .await
            }
        });
        let mut won = Vec::new();
        for result in join_all(tries).await {
            match result {
                Ok(workspace) => won.push(workspace),
                Err(Error::Changed { .. }) => {}
                Err(other) => panic!("{other:?}"),
            }
        }
        assert_eq!(won.len(), 1, "one of them");
        assert_eq!(get(&handles[1], "a").await, won.pop());
    }
}

/// The id of a removed workspace can be added again.
pub async fn a_removed_workspace_is_gone(backend: &impl Backend) {
    let catalog = furnished(backend).await;
    let one = workspace(ALICE, "a", None);
    add_workspace(&catalog, &one).await;
    let remove = async |tenant| {
        catalog
            .remove_workspace(tenant, &id_of("a"))
            .await
            .expect("remove")
    };
    assert!(!remove(BOB).await);
    assert!(remove(ALICE).await);
    assert!(!remove(ALICE).await);
    assert_eq!(get(&catalog, "a").await, None);
    add_workspace(&catalog, &one).await;
}

pub(crate) fn unsettled(at: &str, seen: Option<Entry>, left: Option<Entry>) -> Unsettled {
    Unsettled {
        path: path(at),
        marked: left.is_some(),
        seen,
        left,
    }
}

pub(crate) fn with_unsettled(all: &[Unsettled]) -> WorkspaceChange {
    WorkspaceChange {
        unsettled: Some(all.to_vec()),
        ..WorkspaceChange::default()
    }
}

/// A change replaces all conflicts of a workspace or none. A landing deletes
/// the settled conflicts, and the deletion of the workspace deletes all of
/// them.
pub async fn unsettled_conflicts_are_kept_until_they_are_settled(backend: &impl Backend) {
    let catalog = furnished(backend).await;
    let project = project(ALICE, "p");
    add_project(&catalog, &project).await;
    let of = workspace(ALICE, "a", Some("p"));
    add_workspace(&catalog, &of).await;
    add_workspace(&catalog, &workspace(ALICE, "b", Some("p"))).await;
    let list = async |tenant, id| {
        let found = catalog.unsettled(tenant, &id_of(id)).await;
        found.expect("unsettled")
    };
    let change = async |all: &[Unsettled]| {
        let change = with_unsettled(all);
        catalog
            .change_workspace(ALICE, &id_of("a"), &change, at(101))
            .await
    };
    let (one, two, three) = (
        unsettled("d/x", Some(file(1)), None),
        unsettled("d-x", None, Some(file(2))),
        unsettled("z", Some(file(3)), Some(file(4))),
    );
    change(&[three.clone(), two.clone(), one.clone()])
        .await
        .expect("changed");
    let all = [one.clone(), two.clone(), three.clone()];
    assert_eq!(list(ALICE, "a").await, all);
    assert_eq!(list(BOB, "a").await, []);
    assert_eq!(list(ALICE, "b").await, []);
    assert_refused(change(&[one.clone(), one.clone()]).await);
    let other = WorkspaceChange {
        name: Some(Some("new".into())),
        ..WorkspaceChange::default()
    };
    let changed = catalog
        .change_workspace(ALICE, &id_of("a"), &other, at(102))
        .await;
    changed.expect("changed");
    assert_eq!(list(ALICE, "a").await, all);

    let step = Step {
        workspace: Some(id_of("a")),
        base: Some(BaseMove {
            expected: of.base,
            base: snapshot(7),
            synced: snapshot(7),
            settled: vec![two.path.clone(), path("other")],
        }),
        ..step(snapshot(7))
    };
    land(&catalog, &project, vec![step]).await;
    assert_eq!(list(ALICE, "a").await, [one.clone(), three]);
    change(std::slice::from_ref(&one)).await.expect("changed");
    assert_eq!(list(ALICE, "a").await, [one]);
    assert!(
        catalog
            .remove_workspace(ALICE, &id_of("a"))
            .await
            .expect("removed")
    );
    add_workspace(&catalog, &of).await;
    assert_eq!(list(ALICE, "a").await, []);
}
