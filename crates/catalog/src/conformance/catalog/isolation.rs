//! Promise 4: a call with the id of another tenant's record finds and changes
//! nothing.

use elevo_core::ProjectId;
use elevo_objects::SnapshotId;

use crate::catalog::*;
use crate::conformance::assertions::assert_not_found;
use crate::conformance::backend::Backend;
use crate::conformance::events::{add_events, note};
use crate::conformance::samples::{
    ALICE, BOB, KEY, add, at, first, full_step, furnished, furnished_with_project, get,
    get_project, id_of, land, of_state, path, removing, sandbox, snapshot, whole_log,
};
use crate::conformance::webhooks::webhook;
use crate::error::Kind;
use crate::records::{
    Attempt, DeliveryState, Project, ReviewChange, ReviewState, Tag, UnkeptQuery, Webhook,
    WebhookChange, WorkspaceChange,
};

/// Calls of the other tenant do not change the sandbox.
pub async fn a_sandbox_of_another_tenant_is_unknown(backend: &impl Backend) {
    let catalog = furnished(backend).await;
    let of_alice = sandbox(ALICE, "a");
    add(&catalog, &of_alice).await;
    for change in [removing(), of_state(elevo_core::SandboxState::Running)] {
        let changed = catalog
            .change_sandbox(BOB, &id_of("a"), &change, at(101))
            .await;
        assert_not_found(changed, Kind::Sandbox);
    }
    let removed = catalog.remove_sandbox(BOB, &id_of("a"), at(102)).await;
    assert!(!removed.expect("remove"));
    assert_eq!(
        catalog.sandbox(BOB, &id_of("a")).await.expect("sandbox"),
        None
    );
    assert_eq!(get(&catalog, "a").await, Some(of_alice));
}

/// Checks the log, the history, the tags and the versions of the project too.
pub async fn a_project_of_another_tenant_is_unknown(backend: &impl Backend) {
    let (catalog, project) = furnished_with_project(backend).await;
    land(&catalog, &project, vec![full_step(&project)]).await;
    let tag = Tag {
        project: project.id.clone(),
        name: "v1".into(),
        snapshot: snapshot(1),
        key: id_of(KEY),
        agent: None,
        message: String::new(),
        created: at(400),
    };
    catalog.set_tag(ALICE, &tag, false).await.expect("a tag");
    let before = get_project(&catalog, &project).await;
    assert_no_history(&catalog, &project.id).await;
    assert_no_tags(&catalog, &tag).await;
    let of_bob = Project {
        tenant: BOB,
        ..before.clone()
    };
    let query = UnkeptQuery {
        now: at(1000),
        since: at(1000),
        after: None,
        limit: 10,
    };
    let unkept = catalog.unkept_versions(&of_bob, &query).await;
    assert_eq!(unkept.expect("versions").snapshots, []);
    let needed = catalog.needed_versions(&of_bob).await;
    assert!(needed.expect("versions").is_empty());
    let dropped = catalog.drop_versions(&of_bob, &[first()], at(500)).await;
    assert_not_found(dropped, Kind::Project);
    let changed = catalog
        .change_workspace(BOB, &id_of("w"), &WorkspaceChange::default(), at(500))
        .await;
    assert_not_found(changed, Kind::Workspace);
    let begun = catalog.begin_removal(BOB, &id_of("p"), at(500)).await;
    assert_not_found(begun, Kind::Project);
    assert_eq!(get_project(&catalog, &project).await, before);
    let begun = catalog.begin_removal(ALICE, &id_of("p"), at(501)).await;
    begun.expect("the removal begins");
    assert!(
        !catalog
            .remove_project(BOB, &id_of("p"))
            .await
            .expect("remove")
    );
    assert_eq!(whole_log(&catalog, &project).await.len(), 1);
    assert!(
        catalog
            .remove_project(ALICE, &id_of("p"))
            .await
            .expect("remove")
    );
}

async fn assert_no_history(catalog: &impl Catalog, project: &ProjectId) {
    let landing = catalog.landing(BOB, project, 1).await;
    assert_eq!(landing.expect("landing"), None);
    let of_snapshot: SnapshotId = snapshot(1);
    let landing = catalog.landing_of_snapshot(BOB, project, of_snapshot).await;
    assert_eq!(landing.expect("landing"), None);
    let landing = catalog.landing_by_request(BOB, project, "request").await;
    assert_eq!(landing.expect("landing"), None);
    let log = catalog.log(BOB, project, None, 10).await;
    assert_eq!(log.expect("log"), []);
    let versions = catalog
        .versions_of(BOB, project, &path("a"), None, 10)
        .await;
    assert_eq!(versions.expect("versions"), []);
    let versions = catalog.versions_in(BOB, project, 1, None, 10).await;
    assert_eq!(versions.expect("versions"), []);
    let last = catalog.last_version(BOB, project, &path("a")).await;
    assert_eq!(last.expect("version"), None);
    let found = catalog.last_version(ALICE, project, &path("a")).await;
    assert!(found.expect("version").is_some(), "the owner finds it");
}

async fn assert_no_tags(catalog: &impl Catalog, tag: &Tag) {
    let project = &tag.project;
    let found = catalog.tag(BOB, project, &tag.name).await;
    assert_eq!(found.expect("tag"), None);
    let found = catalog.tags(BOB, project, None, 10).await;
    assert_eq!(found.expect("tags"), []);
    let removed = catalog.remove_tag(BOB, project, &tag.name).await;
    assert!(!removed.expect("remove"));
    assert_not_found(catalog.set_tag(BOB, tag, true).await, Kind::Project);
    let found = catalog.tag(ALICE, project, &tag.name).await;
    assert_eq!(found.expect("tag").as_ref(), Some(tag));
}

/// Calls of the other tenant do not close the review.
pub async fn a_review_of_another_tenant_is_unknown(backend: &impl Backend) {
    let (catalog, _) = furnished_with_project(backend).await;
    let open = catalog.open_reviews_of(BOB, &id_of("w"), None, 10).await;
    assert_eq!(open.expect("reviews"), []);
    let reject = ReviewChange::new(ReviewState::Open, ReviewState::Rejected);
    let changed = catalog
        .change_review(BOB, &id_of("r"), &reject, at(301))
        .await;
    assert_not_found(changed, Kind::Review);
    assert_eq!(
        catalog.review(BOB, &id_of("r")).await.expect("review"),
        None
    );
    let open = catalog.open_reviews_of(ALICE, &id_of("w"), None, 10).await;
    assert_eq!(open.expect("reviews").len(), 1);
}

/// The owner of a webhook is a tenant or the server.
pub async fn a_webhook_of_another_owner_is_unknown(backend: &impl Backend) {
    let catalog = furnished(backend).await;
    let server = Webhook {
        tenant: None,
        ..webhook("server")
    };
    let of_alice = webhook("a");
    for one in [&of_alice, &server] {
        catalog.add_webhook(one).await.expect("added");
    }
    let event = add_events(&catalog, &[note("s", 1)]).await[0];
    for (owner, id) in [(Some(ALICE), &of_alice.id), (None, &server.id)] {
        let queued = catalog.queue_deliveries(owner, id, 10, at(200)).await;
        queued.expect("queued");
    }
    let failed = Attempt {
        event,
        state: DeliveryState::Failed,
        attempts: 1,
        due: at(300),
        status: None,
        error: None,
    };
    for (owner, id) in [
        (Some(BOB), &of_alice.id),
        (None, &of_alice.id),
        (Some(ALICE), &server.id),
    ] {
        let found = catalog.webhook(owner, id).await.expect("webhook");
        assert_eq!(found, None);
        let sealed = catalog.seal_webhook_secrets(owner, id, "another", "").await;
        assert!(!sealed.expect("secret"));
        let rotated = catalog.rotate_webhook(owner, id, "another", None).await;
        assert_eq!(rotated.expect("secret"), None);
        let change = WebhookChange::default();
        let changed = catalog.change_webhook(owner, id, &change).await;
        assert_eq!(changed.expect("webhook"), None);
        let removed = catalog.remove_webhook(owner, id).await.expect("remove");
        assert!(!removed);
        let queued = catalog.queue_deliveries(owner, id, 10, at(200)).await;
        assert_eq!(queued.expect("queued"), 0);
        let pending = catalog.pending_deliveries(owner, id, 10).await;
        assert_eq!(pending.expect("deliveries"), []);
        let all = catalog.deliveries(owner, id, None, None, 10).await;
        assert_eq!(all.expect("deliveries"), []);
        let replayed = catalog.replay(owner, id, event, at(201)).await;
        assert!(!replayed.expect("replay"));
        let attempts = std::slice::from_ref(&failed);
        let noted = catalog.note_attempts(owner, id, attempts, at(202)).await;
        noted.expect("attempts of unknown deliveries are ignored");
    }
    for (owner, id) in [(Some(ALICE), &of_alice.id), (None, &server.id)] {
        let pending = catalog.pending_deliveries(owner, id, 10).await;
        assert_eq!(pending.expect("deliveries").len(), 1);
    }
}
