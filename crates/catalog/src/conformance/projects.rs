//! Checks of projects.

use elevo_core::Timestamp;
use serde_json::json;

use crate::catalog::*;
use crate::change::SandboxChange;
use crate::conformance::assertions::{
    assert_being_removed, assert_exists, assert_not_found, assert_refused,
};
use crate::conformance::backend::Backend;
use crate::conformance::samples::{
    ALICE, BOB, add, add_project, add_workspace, added, at, first, furnished, get_project, id_of,
    land, landing, open, project, review, sandbox, short, snapshot, step, whole_log, workspace,
};
use crate::conformance::tags::tag;
use crate::error::{Error, Kind};
use crate::limits::{MAX_PAGE, MAX_POLICY_BYTES};
use crate::records::{
    Project, ProjectChange, ProjectPolicy, ProjectQuery, Retention, ReviewQuery, Sandbox, Step,
    Workspace, WorkspaceChange, WorkspaceQuery, WorkspaceState,
};

/// The project is read back with all its fields. Also checks promises 4 and 10.
pub async fn a_project_is_read_back_as_added(backend: &impl Backend) {
    let catalog = furnished(backend).await;
    let full = Project {
        description: Some("words".into()),
        head: snapshot(7),
        policy_version: 9,
        retention: Retention::Daily(u32::MAX),
        created: Timestamp::new(-1, 999_999_000).expect("a time"),
        updated: Timestamp::new(1, 1_000).expect("a time"),
        removing: true,
        ..project(ALICE, "full")
    };
    let rules = json!({ "rules": [null, "ä\u{0}", { "": 1.5 }] });
    for (one, policy) in [(&full, &rules), (&project(BOB, "bare"), &json!(null))] {
        catalog.add_project(one, policy).await.expect("a new one");
        assert_eq!(get_project(&catalog, one).await, *one);
        let found = catalog.project_by_name(one.tenant, &one.name).await;
        assert_eq!(found.expect("project").as_ref(), Some(one));
        let found = catalog.policy(one.tenant, &one.id).await.expect("policy");
        let kept = ProjectPolicy {
            version: one.policy_version,
            policy: policy.clone(),
        };
        assert_eq!(found, Some(kept));
    }
    assert_eq!(
        catalog.project(BOB, &id_of("full")).await.expect("project"),
        None
    );
    let found = catalog.project_by_name(BOB, &full.name).await;
    assert_eq!(found.expect("project"), None);
    assert_eq!(
        catalog.policy(BOB, &id_of("full")).await.expect("policy"),
        None
    );
}

/// The id of a project is unique in the catalog, the name in its tenant. A new
/// project with landings is refused.
pub async fn a_project_is_added_once(backend: &impl Backend) {
    let catalog = furnished(backend).await;
    let one = project(ALICE, "a");
    add_project(&catalog, &one).await;
    let mut same_id = project(BOB, "a");
    same_id.name = "another".into();
    let mut same_name = project(ALICE, "b");
    same_name.name.clone_from(&one.name);
    for taken in [&same_id, &same_name] {
        let added = catalog.add_project(taken, &json!({})).await;
        assert_exists(added, Kind::Project);
    }
    let mut elsewhere = project(BOB, "b");
    elsewhere.name.clone_from(&one.name);
    add_project(&catalog, &elsewhere).await;
    let of_unknown_tenant = project(elevo_core::TenantId::new([3; 16]), "c");
    let added = catalog.add_project(&of_unknown_tenant, &json!({})).await;
    assert_not_found(added, Kind::Owner);
    let mut landed = project(ALICE, "c");
    landed.sequence = 1;
    assert_refused(catalog.add_project(&landed, &json!({})).await);
    let long = json!("x".repeat(MAX_POLICY_BYTES));
    assert_refused(catalog.add_project(&project(ALICE, "c"), &long).await);
    assert_eq!(
        catalog.project(ALICE, &id_of("c")).await.expect("project"),
        None
    );
}

/// Projects are in the order of creation time and id, and a walk returns each once.
pub async fn projects_are_listed_newest_first(backend: &impl Backend) {
    let catalog = furnished(backend).await;
    for n in 0..10 {
        let mut one = project(ALICE, &format!("{n}"));
        one.created = at(n / 3);
        one.removing = n % 2 == 0;
        add_project(&catalog, &one).await;
    }
    add_project(&catalog, &project(BOB, "other")).await;
    let of_alice = ProjectQuery {
        tenant: Some(ALICE),
        ..ProjectQuery::default()
    };
    for limit in [1, 4, MAX_PAGE] {
        let mut query = ProjectQuery {
            limit,
            ..of_alice.clone()
        };
        let mut seen = Vec::new();
        loop {
            let page = catalog.projects(&query).await.expect("projects");
            assert_eq!(page.total, 10);
            assert!(page.items.len() <= limit as usize);
            let Some(last) = page.items.last() else { break };
            query.after = Some(last.position());
            seen.extend(page.items.iter().map(|one| short(&one.id)));
        }
        assert_eq!(seen.concat(), "9876543210", "in pages of {limit}");
    }
    let leaving = ProjectQuery {
        removing: Some(true),
        ..ProjectQuery::default()
    };
    let page = catalog.projects(&leaving).await.expect("projects");
    let ids: Vec<_> = page.items.iter().map(|one| short(&one.id)).collect();
    assert_eq!((page.total, ids.concat().as_str()), (5, "86420"));
    let of_all_tenants = catalog.projects(&ProjectQuery::default()).await;
    assert_eq!(of_all_tenants.expect("projects").total, 11);
    for limit in [0, MAX_PAGE + 1] {
        let query = ProjectQuery {
            limit,
            ..of_alice.clone()
        };
        assert_refused(catalog.projects(&query).await);
    }
}

/// A change sets the name or the description, and no other field.
pub async fn a_project_is_renamed_and_described(backend: &impl Backend) {
    let catalog = furnished(backend).await;
    let one = project(ALICE, "a");
    add_project(&catalog, &one).await;
    add_project(&catalog, &project(ALICE, "b")).await;
    let change = async |tenant, id: &str, name: Option<&str>, description| {
        let change = ProjectChange {
            name: name.map(Into::into),
            description,
            ..ProjectChange::default()
        };
        let id = id_of(id);
        catalog.change_project(tenant, &id, &change, at(101)).await
    };
    let words = Some(Some("words".to_owned()));
    let changed = change(ALICE, "a", Some("new"), words).await;
    let expected = Project {
        name: "new".into(),
        description: Some("words".into()),
        updated: at(101),
        ..one.clone()
    };
    assert_eq!(changed.expect("changed"), expected);
    assert_eq!(get_project(&catalog, &one).await, expected);
    let changed = change(ALICE, "a", None, Some(None)).await.expect("changed");
    assert_eq!((changed.name.as_str(), changed.description), ("new", None));
    let old = catalog.project_by_name(ALICE, &one.name).await;
    assert_eq!(old.expect("project"), None);
    let taken = change(ALICE, "a", Some("name of b"), None).await;
    assert_exists(taken, Kind::Project);
    assert_refused(change(ALICE, "a", Some(""), None).await);
    for (tenant, id) in [(BOB, "a"), (ALICE, "x")] {
        let unknown = change(tenant, id, Some("y"), None).await;
        assert_not_found(unknown, Kind::Project);
    }
}

/// A sandbox with a workspace of the project prevents its removal.
pub async fn a_project_with_a_sandbox_is_not_removed(backend: &impl Backend) {
    let catalog = furnished(backend).await;
    add_project(&catalog, &project(ALICE, "a")).await;
    add_workspace(&catalog, &workspace(ALICE, "w", Some("a"))).await;
    let one = Sandbox {
        workspace: id_of("w"),
        ..sandbox(ALICE, "s")
    };
    add(&catalog, &one).await;
    match catalog.begin_removal(ALICE, &id_of("a"), at(101)).await {
        Err(Error::InUse { what, sandbox }) => {
            assert_eq!((what, sandbox.as_str()), (Kind::Project, "sbx-s"));
        }
        other => panic!("{other:?}"),
    }
    let mark = SandboxChange {
        removing: Some(true),
        ..SandboxChange::default()
    };
    let marked = catalog
        .change_sandbox(ALICE, &id_of("s"), &mark, at(102))
        .await;
    marked.expect("marked");
    let removing = catalog.begin_removal(ALICE, &id_of("a"), at(103)).await;
    assert!(removing.expect("no sandbox is left").removing);
}

/// Landings, changes, policies and workspaces are rejected while a project is
/// being removed.
pub async fn a_project_that_is_being_removed_gets_no_new_records(backend: &impl Backend) {
    let catalog = furnished(backend).await;
    let one = project(ALICE, "a");
    add_project(&catalog, &one).await;
    assert_refused(catalog.remove_project(ALICE, &id_of("a")).await);
    let parked = Workspace {
        state: WorkspaceState::Parked,
        ..workspace(ALICE, "parked", Some("a"))
    };
    add_workspace(&catalog, &parked).await;
    for tenant in [BOB, ALICE] {
        let unknown = catalog.begin_removal(tenant, &id_of("b"), at(101)).await;
        assert_not_found(unknown, Kind::Project);
    }
    for now in [101, 102] {
        let marked = catalog.begin_removal(ALICE, &id_of("a"), at(now)).await;
        let expected = Project {
            removing: true,
            updated: at(now),
            ..one.clone()
        };
        assert_eq!(marked.expect("marked, also twice"), expected);
    }
    let landed = landing(&one, first(), vec![step(snapshot(1))]);
    assert_being_removed(catalog.land(&landed).await, Kind::Project);
    let change = ProjectChange::default();
    let changed = catalog
        .change_project(ALICE, &id_of("a"), &change, at(103))
        .await;
    assert_being_removed(changed, Kind::Project);
    let set = catalog
        .set_policy(ALICE, &id_of("a"), 0, &json!({}), at(103))
        .await;
    assert_being_removed(set, Kind::Project);
    let added = catalog
        .add_workspace(&workspace(ALICE, "w", Some("a")))
        .await;
    assert_being_removed(added, Kind::Project);
    let live = WorkspaceChange {
        state: Some(WorkspaceState::Live),
        ..WorkspaceChange::default()
    };
    let resumed = catalog
        .change_workspace(ALICE, &id_of("parked"), &live, at(103))
        .await;
    assert_being_removed(resumed, Kind::Project);
    assert_eq!(get_project(&catalog, &one).await.sequence, 0);
}

/// The project has more versions than one transaction deletes.
pub async fn a_removed_project_leaves_no_records(backend: &impl Backend) {
    let catalog = furnished(backend).await;
    let (gone, other) = (project(ALICE, "gone"), project(ALICE, "other"));
    for one in [&gone, &other] {
        add_project(&catalog, one).await;
        let name = |n| format!("{}-{n}", one.id);
        add_workspace(&catalog, &workspace(ALICE, &name(0), Some(&one.id))).await;
        let many = Step {
            changes: (0..1200).map(|n| added(&format!("f{n}"), 1)).collect(),
            request: Some("many".into()),
            ..step(snapshot(1))
        };
        let held = Step {
            opens: vec![review(one, &name(1), None, "f")],
            request: Some("held".into()),
            ..step(snapshot(1))
        };
        land(&catalog, one, vec![many, held]).await;
        let named = tag(&one.id, "v", 1);
        catalog.set_tag(ALICE, &named, false).await.expect("set");
        let now = get_project(&catalog, one).await;
        let dropped = catalog.drop_versions(&now, &[snapshot(9)], at(101)).await;
        assert_eq!(dropped.expect("dropped"), [snapshot(9)]);
        open(&catalog, one, vec![review(one, &name(2), None, "g")]).await;
    }
    let marked = catalog.begin_removal(ALICE, &id_of("gone"), at(101)).await;
    marked.expect("marked");
    assert!(
        catalog
            .remove_project(ALICE, &id_of("gone"))
            .await
            .expect("remove")
    );
    assert!(
        !catalog
            .remove_project(ALICE, &id_of("gone"))
            .await
            .expect("remove")
    );
    for (one, count) in [(&gone, 0), (&other, 1)] {
        assert_eq!(whole_log(&catalog, one).await.len(), count);
        let versions = catalog.versions_in(ALICE, &one.id, 1, None, MAX_PAGE).await;
        assert_eq!(versions.expect("versions").len(), 1000 * count);
        let workspaces = WorkspaceQuery {
            project: Some(one.id.clone()),
            ..WorkspaceQuery::default()
        };
        let workspaces = catalog.workspaces(&workspaces).await;
        assert_eq!(workspaces.expect("workspaces").items.len(), count);
        let reviews = ReviewQuery {
            project: Some(one.id.clone()),
            ..ReviewQuery::of(ALICE)
        };
        let reviews = catalog.reviews(&reviews).await.expect("reviews");
        assert_eq!(reviews.items.len(), 2 * count);
        for request in ["many", "held"] {
            let known = catalog.landing_by_request(ALICE, &one.id, request).await;
            assert_eq!(known.expect("landing").is_some(), count == 1);
        }
    }
    assert_eq!(
        catalog.policy(ALICE, &id_of("gone")).await.expect("policy"),
        None
    );
    assert_eq!(
        catalog.tag(ALICE, &id_of("gone"), "v").await.expect("tag"),
        None
    );
    let dropped = catalog.dropped_from(ALICE, snapshot(9)).await;
    assert_eq!(dropped.expect("projects"), ["prj-other"]);
    add_project(&catalog, &gone).await;
    assert!(whole_log(&catalog, &gone).await.is_empty());
}
