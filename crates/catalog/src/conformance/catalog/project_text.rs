//! Checks of untrusted text in projects and their records.

use elevo_core::{Timestamp, WorkspaceId};
use serde_json::json;

use crate::catalog::*;
use crate::conformance::assertions::assert_refused;
use crate::conformance::backend::Backend;
use crate::conformance::catalog::text::HOSTILE;
use crate::conformance::samples::{
    AGENT, ALICE, KEY, add_project, add_workspace, added, agent, furnished, get_project,
    get_review, id_of, key, land, path, project, requested, review, short, snapshot, whole_log,
    workspace,
};
use crate::limits::{MAX_NAME_BYTES, MAX_TEXT_BYTES};
use crate::records::{PathChange, Project, Review, Step, Workspace};

/// Checks promise 9 for names and all other text.
pub async fn any_text_of_a_project_is_read_back_unchanged(backend: &impl Backend) {
    let catalog = furnished(backend).await;
    let longest = "x".repeat(MAX_NAME_BYTES);
    for (n, text) in HOSTILE.into_iter().chain([longest.as_str()]).enumerate() {
        let mut named = agent(ALICE, &n.to_string());
        named.name = text.into();
        catalog.add_agent(&named).await.expect("a new agent");
        let mut bound = key(ALICE, &n.to_string(), Some(&named.id));
        bound.hash = [n as u8; 32];
        catalog.add_key(&bound).await.expect("a new key");
        let one = Project {
            name: text.into(),
            description: Some(text.into()),
            ..project(ALICE, &n.to_string())
        };
        catalog.add_project(&one, &json!(text)).await.expect("new");
        assert_eq!(get_project(&catalog, &one).await, one);
        let found = catalog.project_by_name(ALICE, text).await;
        assert_eq!(found.expect("project").as_ref(), Some(&one));
        let branch = Workspace {
            agent: bound.agent,
            key: bound.id,
            name: Some(text.into()),
            sync: text.into(),
            ..workspace(ALICE, &n.to_string(), Some(&one.id))
        };
        add_workspace(&catalog, &branch).await;
        let found = catalog.workspace(ALICE, &branch.id).await;
        assert_eq!(found.expect("workspace"), Some(branch));
        assert_lands(&catalog, &one, text).await;
    }
}

async fn assert_lands(catalog: &impl Catalog, one: &Project, text: &str) {
    let workspace: WorkspaceId = id_of(&short(&one.id));
    let opened = Review {
        agent: Some(id_of(AGENT)),
        kind: text.into(),
        algorithm: text.into(),
        detail: text.into(),
        ..review(one, &workspace, Some(&workspace), "a")
    };
    let change = PathChange {
        algorithm: text.into(),
        ..added("a", 1)
    };
    let step = Step {
        agent: Some(id_of(AGENT)),
        workspace: Some(workspace.clone()),
        key: id_of(KEY),
        message: text.into(),
        counts: text.into(),
        changes: vec![change.clone()],
        opens: vec![opened.clone()],
        ..requested(snapshot(1), text)
    };
    let landed = land(catalog, one, vec![step]).await;
    assert_eq!(get_review(catalog, &opened).await, opened);
    let of_workspace = catalog.open_reviews_of(ALICE, &workspace, None, 10).await;
    assert_eq!(of_workspace.expect("reviews"), [opened]);
    let known = catalog.landing_by_request(ALICE, &one.id, text).await;
    assert_eq!(known.expect("landing"), landed.steps.last().copied());
    let entry = whole_log(catalog, one).await.pop().expect("it landed");
    assert_eq!(entry.message, text);
    assert_eq!(entry.agent.as_deref(), Some(AGENT));
    assert_eq!(entry.request.as_deref(), Some(text));
    assert_eq!(entry.project, one.id);
    assert_eq!(entry.workspace.as_ref(), Some(&workspace));
    assert_eq!(entry.counts, text);
    let last = catalog.last_version(ALICE, &one.id, &path("a")).await;
    let last = last.expect("version").expect("it landed");
    assert_eq!(last.change, change);
    assert_eq!(last.agent.as_deref(), Some(AGENT));
    assert_eq!(last.workspace, Some(workspace));
}

/// Checks names, a description and a time out of bounds. Nothing is added.
pub async fn text_of_a_project_out_of_bounds_is_refused(backend: &impl Backend) {
    let catalog = furnished(backend).await;
    let long = "x".repeat(MAX_NAME_BYTES + 1);
    for bad in ["", "a\0b", &long] {
        let mut named = project(ALICE, "new");
        named.name = bad.into();
        assert_refused(catalog.add_project(&named, &json!({})).await);
        let mut named = workspace(ALICE, "new", None);
        named.name = Some(bad.into());
        assert_refused(catalog.add_workspace(&named).await);
    }
    let mut described = project(ALICE, "new");
    described.description = Some("x".repeat(MAX_TEXT_BYTES + 1));
    let mut timeless = project(ALICE, "new");
    timeless.updated = Timestamp::new(i64::MAX, 0).expect("a time");
    for one in [described, timeless] {
        assert_refused(catalog.add_project(&one, &json!({})).await);
    }
    let found = catalog
        .project(ALICE, &id_of("new"))
        .await
        .expect("project");
    assert_eq!(found, None);
}

/// Some of the texts cannot be stored, so no record can have them.
pub async fn unknown_text_finds_no_project(backend: &impl Backend) {
    let catalog = furnished(backend).await;
    let one = project(ALICE, "a");
    add_project(&catalog, &one).await;
    add_workspace(&catalog, &workspace(ALICE, "a", Some("a"))).await;
    let step = Step {
        changes: vec![added("a", 1)],
        opens: vec![review(&one, "a", Some("a"), "a")],
        ..requested(snapshot(1), "a")
    };
    land(&catalog, &one, vec![step]).await;
    let long = "a".repeat(1 << 20);
    for unknown in ["", "A", "a\0", "a\0b", "%", " a", "a ", &long] {
        let project = catalog.project_by_name(ALICE, unknown).await;
        assert_eq!(project.expect("project"), None);
        let known = catalog
            .landing_by_request(ALICE, &id_of("a"), unknown)
            .await;
        assert_eq!(known.expect("landing"), None);
    }
}
