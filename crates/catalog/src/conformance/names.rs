//! Checks of unique names of sandboxes and workspaces.

use crate::catalog::*;
use crate::change::SandboxChange;
use crate::conformance::backend::Backend;
use crate::conformance::samples::{
    ALICE, BOB, add, add_project, add_workspace, at, furnished, id_of, project, removing, sandbox,
    workspace,
};
use crate::error::{Error, Kind};
use crate::query::AddLimits;
use crate::records::{Sandbox, Workspace, WorkspaceChange, WorkspaceState};

fn named(id: &str, name: &str) -> Sandbox {
    Sandbox {
        name: Some(name.into()),
        ..sandbox(ALICE, id)
    }
}

fn assert_taken<T: std::fmt::Debug>(result: crate::Result<T>, kind: Kind) {
    match result {
        Err(Error::NameTaken { what }) => assert_eq!(what, kind),
        other => panic!("expected `NameTaken`, got {other:?}"),
    }
}

/// A sandbox is found by its name, which no other sandbox of the tenant gets
/// until the sandbox is being removed.
pub async fn the_name_of_a_sandbox_is_unique_in_its_tenant(backend: &impl Backend) {
    let catalog = furnished(backend).await;
    add(&catalog, &named("a", "try")).await;
    let found = catalog.sandbox_by_name(ALICE, "try").await;
    assert_eq!(found.expect("sandbox"), Some(named("a", "try")));
    for (tenant, name) in [(BOB, "try"), (ALICE, "tr"), (ALICE, "Try")] {
        let found = catalog.sandbox_by_name(tenant, name).await;
        assert_eq!(found.expect("sandbox"), None, "{name}");
    }
    let limits = AddLimits::default();
    let added = catalog.add_sandbox(&named("b", "try"), limits).await;
    assert_taken(added, Kind::Sandbox);
    add(&catalog, &named("c", "other")).await;
    let rename = SandboxChange {
        name: Some(Some("try".into())),
        ..SandboxChange::default()
    };
    let renamed = catalog
        .change_sandbox(ALICE, &id_of("c"), &rename, at(101))
        .await;
    assert_taken(renamed, Kind::Sandbox);
    let theirs = Sandbox {
        name: Some("try".into()),
        ..sandbox(BOB, "d")
    };
    add(&catalog, &theirs).await;

    let removed = catalog
        .change_sandbox(ALICE, &id_of("a"), &removing(), at(102))
        .await;
    removed.expect("it is there");
    let found = catalog.sandbox_by_name(ALICE, "try").await;
    assert_eq!(found.expect("sandbox"), None);
    add(&catalog, &named("b", "try")).await;
}

/// Workspaces are found by their name, which no other workspace of the project
/// gets until the workspace is being removed.
pub async fn the_name_of_a_workspace_is_unique_in_its_project(backend: &impl Backend) {
    let catalog = furnished(backend).await;
    let named = |id: &str, project: Option<&str>| Workspace {
        name: Some("fix".into()),
        ..workspace(ALICE, id, project)
    };
    for one in ["p", "q"] {
        add_project(&catalog, &project(ALICE, one)).await;
    }
    let each = [
        named("a", Some("p")),
        named("b", Some("q")),
        named("c", None),
    ];
    for one in &each {
        add_workspace(&catalog, one).await;
        let again = Workspace {
            id: id_of("again"),
            ..one.clone()
        };
        assert_taken(catalog.add_workspace(&again).await, Kind::Workspace);
    }
    let found = catalog.workspaces_by_name(ALICE, "fix").await;
    assert_eq!(found.expect("workspaces"), each);
    let found = catalog.workspaces_by_name(BOB, "fix").await;
    assert_eq!(found.expect("workspaces"), []);
    let change = WorkspaceChange {
        state: Some(WorkspaceState::Removing),
        ..WorkspaceChange::default()
    };
    let removed = catalog
        .change_workspace(ALICE, &id_of("a"), &change, at(101))
        .await;
    removed.expect("it is there");
    let found = catalog.workspaces_by_name(ALICE, "fix").await;
    assert_eq!(found.expect("workspaces"), each[1..]);
    add_workspace(&catalog, &named("d", Some("p"))).await;
}
