//! Checks of tenants and their erasure.

use elevo_core::TenantId;
use serde_json::json;

use crate::catalog::*;
use crate::conformance::assertions::{assert_exists, assert_not_found, assert_refused};
use crate::conformance::backend::Backend;
use crate::conformance::events::{add_events, note};
use crate::conformance::requests::request;
use crate::conformance::samples::{
    AGENT, ALICE, BOB, KEY, NO_LIMITS, add, add_project, add_workspace, added, at, furnished,
    id_of, key, land, list, of_tenant, open, project, review, sandbox, snapshot, step, tenant,
    workspace,
};
use crate::conformance::snapshots::taken;
use crate::conformance::webhooks::webhook;
use crate::conformance::workspaces::{unsettled, with_unsettled};
use crate::error::{Error, Kind};
use crate::limits::MAX_PAGE;
use crate::records::{EventQuery, NewEvent, ReviewQuery, Step, Tenant, Webhook, WorkspaceQuery};

/// The id and the name of a tenant are unique.
pub async fn a_tenant_is_added_once(backend: &impl Backend) {
    let catalog = backend.open().await;
    let (alice, bob) = (tenant(ALICE, "alice"), tenant(BOB, "bob"));
    catalog.add_tenant(&alice).await.expect("the first");
    for taken in [tenant(ALICE, "other"), tenant(BOB, "alice")] {
        assert_exists(catalog.add_tenant(&taken).await, Kind::Tenant);
    }
    catalog.add_tenant(&bob).await.expect("the second");
    let tenants = catalog.tenants().await.expect("tenants");
    assert_eq!(tenants, [alice, bob]);
}

/// Renaming a tenant to the name of another one fails and changes nothing.
pub async fn a_tenant_is_not_renamed_to_the_name_of_another(backend: &impl Backend) {
    let catalog = furnished(backend).await;
    let renamed = catalog.change_tenant(&tenant(ALICE, "bob")).await;
    assert_exists(renamed, Kind::Tenant);
    let found = catalog.tenant(ALICE).await.expect("tenant");
    assert_eq!(found, Some(tenant(ALICE, "alice")));
    let renamed = catalog.change_tenant(&tenant(ALICE, "carol")).await;
    assert!(renamed.expect("the name is free"));
    let found = catalog.tenant(ALICE).await.expect("tenant");
    assert_eq!(found, Some(tenant(ALICE, "carol")));
}

/// Promise 21: a later change of the tenant does nothing.
pub async fn a_tenant_that_is_being_erased_stays_suspended(backend: &impl Backend) {
    let catalog = furnished(backend).await;
    let unknown = catalog.begin_erasure(TenantId::new([3; 16]), at(5)).await;
    assert_eq!(unknown.expect("erasure"), None);
    let marked = Tenant {
        suspended: Some(at(5)),
        erasing: Some(at(5)),
        ..tenant(ALICE, "alice")
    };
    for now in [5, 6] {
        let begun = catalog.begin_erasure(ALICE, at(now)).await;
        assert_eq!(begun.expect("erasure").as_ref(), Some(&marked));
    }
    let back = Tenant {
        suspended: None,
        erasing: None,
        ..marked.clone()
    };
    assert!(!catalog.change_tenant(&back).await.expect("change"));
    let found = catalog.tenant(ALICE).await.expect("tenant");
    assert_eq!(found, Some(marked));
    // A tenant that was already suspended keeps the time of its suspension.
    let before = Tenant {
        suspended: Some(at(4)),
        ..tenant(BOB, "bob")
    };
    assert!(catalog.change_tenant(&before).await.expect("change"));
    let begun = catalog.begin_erasure(BOB, at(7)).await.expect("erasure");
    let begun = begun.expect("a tenant");
    assert_eq!((begun.suspended, begun.erasing), (Some(at(4)), Some(at(7))));
}

/// Promise 21: projects, workspaces and sandboxes are rejected.
pub async fn a_tenant_that_is_being_erased_gets_no_new_records(backend: &impl Backend) {
    let catalog = furnished(backend).await;
    let begun = catalog.begin_erasure(ALICE, at(5)).await;
    begun.expect("erasure");
    let added = catalog.add_project(&project(ALICE, "a"), &json!({})).await;
    assert_not_found(added, Kind::Owner);
    let added = catalog.add_workspace(&workspace(ALICE, "w", None)).await;
    assert_not_found(added, Kind::Owner);
    let added = catalog.add_sandbox(&sandbox(ALICE, "s"), NO_LIMITS).await;
    assert_not_found(added, Kind::Owner);
    add(&catalog, &sandbox(BOB, "s")).await;
}

/// Adds records of most kinds that a tenant can have; of some kinds, more
/// records than one transaction deletes.
async fn fill(catalog: &impl Catalog, id: TenantId) {
    let name = |text: &str| format!("{text}-{id}");
    let of = project(id, &name("project"));
    add_project(catalog, &of).await;
    add_workspace(catalog, &workspace(id, &name("on"), Some(&of.id))).await;
    let many = Step {
        changes: (0..1200).map(|n| added(&format!("f{n}"), 1)).collect(),
        ..step(snapshot(1))
    };
    land(catalog, &of, vec![many]).await;
    open(catalog, &of, vec![review(&of, &name("r"), None, "g")]).await;
    let alone = workspace(id, &name("alone"), None);
    add_workspace(catalog, &alone).await;
    let conflicts: Vec<_> = (0..600)
        .map(|n| unsettled(&format!("f{n}"), None, None))
        .collect();
    let conflicts = with_unsettled(&conflicts);
    let changed = catalog.change_workspace(id, &alone.id, &conflicts, at(60));
    changed.await.expect("conflicts");
    let hook = Webhook {
        tenant: Some(id),
        ..webhook(&name("hook"))
    };
    catalog.add_webhook(&hook).await.expect("a webhook");
    let events = (0..600).map(|n| NewEvent {
        tenant: id,
        subject: name("subject"),
        ..note("", n)
    });
    add_events(catalog, &events.collect::<Vec<_>>()).await;
    let queued = catalog
        .queue_deliveries(Some(id), &hook.id, MAX_PAGE, at(70))
        .await;
    assert!(queued.expect("deliveries") >= 600);
    catalog.begin(&request(id, 1)).await.expect("a request");
    for n in 1..=600 {
        let recorded = catalog.record_snapshot(&taken(id, n)).await;
        recorded.expect("a snapshot");
    }
}

/// Returns the number of records of each kind.
async fn count(catalog: &impl Catalog, id: TenantId) -> [usize; 9] {
    let name = |text: &str| format!("{text}-{id}");
    let events = EventQuery {
        tenant: Some(id),
        limit: MAX_PAGE,
        ..EventQuery::default()
    };
    let workspaces = WorkspaceQuery {
        tenant: Some(id),
        ..WorkspaceQuery::default()
    };
    let (project, alone) = (id_of(&name("project")), id_of(&name("alone")));
    let reviews = ReviewQuery::of(id);
    let versions = catalog.versions_in(id, &project, 1, None, MAX_PAGE);
    let conflicts = catalog.unsettled(id, &alone);
    let reviews = catalog.reviews(&reviews);
    let snapshots = catalog.unnamed_snapshots(id, None, MAX_PAGE);
    [
        snapshots.await.expect("snapshots").len(),
        catalog.agents(id).await.expect("agents").len(),
        catalog.keys(id).await.expect("keys").len(),
        catalog.webhooks(Some(id)).await.expect("webhooks").len(),
        catalog.events(&events).await.expect("events").len(),
        catalog
            .workspaces(&workspaces)
            .await
            .expect("rows")
            .items
            .len(),
        versions.await.expect("versions").len(),
        conflicts.await.expect("conflicts").len(),
        reviews.await.expect("reviews").items.len(),
    ]
}

/// The records of other tenants stay.
pub async fn an_erased_tenant_leaves_no_records(backend: &impl Backend) {
    let catalog = furnished(backend).await;
    // The server's own webhook has deliveries of events of both tenants.
    let own = Webhook {
        tenant: None,
        ..webhook("own")
    };
    catalog.add_webhook(&own).await.expect("a webhook");
    for id in [ALICE, BOB] {
        fill(&catalog, id).await;
    }
    while catalog
        .queue_deliveries(None, &own.id, MAX_PAGE, at(71))
        .await
        .expect("deliveries")
        > 0
    {}
    let before = count(&catalog, BOB).await;
    assert_eq!(count(&catalog, ALICE).await, before);
    assert!(before.iter().all(|count| *count > 0), "{before:?}");
    assert_refused(catalog.clear_tenant(ALICE).await);
    assert_refused(catalog.remove_tenant(ALICE).await);
    add(&catalog, &sandbox(ALICE, "s")).await;
    let begun = catalog.begin_erasure(ALICE, at(80)).await;
    begun.expect("erasure");
    let used = catalog.clear_tenant(ALICE).await;
    assert!(
        matches!(&used, Err(Error::InUse { what: Kind::Tenant, sandbox }) if *sandbox == "sbx-s"),
        "{used:?}"
    );
    let removed = catalog.remove_sandbox(ALICE, &id_of("s"), at(81)).await;
    assert!(removed.expect("removed"));
    let early = catalog.remove_tenant(ALICE).await;
    let is_early = matches!(early, Err(Error::Changed { what: Kind::Tenant }));
    assert!(is_early, "{early:?}");
    for _ in 0..2 {
        assert!(catalog.clear_tenant(ALICE).await.expect("cleared"));
    }
    assert_eq!(count(&catalog, ALICE).await, [0; 9]);
    assert!(list(&catalog, &of_tenant(ALICE)).await.is_empty());
    assert!(catalog.remove_tenant(ALICE).await.expect("removed"));
    assert!(!catalog.remove_tenant(ALICE).await.expect("removed"));
    assert!(!catalog.clear_tenant(ALICE).await.expect("cleared"));
    let tenants = catalog.tenants().await.expect("tenants");
    assert_eq!(tenants, [tenant(BOB, "bob")]);
    assert_eq!(count(&catalog, BOB).await, before);
    let pending = catalog.pending_deliveries(None, &own.id, MAX_PAGE).await;
    let pending = pending.expect("deliveries");
    assert!(
        pending
            .iter()
            .all(|delivery| delivery.event.event.tenant == BOB)
    );
    // The names are free again.
    let again = catalog.add_tenant(&tenant(ALICE, "alice")).await;
    again.expect("a new tenant");
    let added = catalog.add_key(&key(ALICE, KEY, None)).await;
    added.expect("a new key");
    assert!(
        catalog
            .agent(ALICE, &id_of(AGENT))
            .await
            .expect("agent")
            .is_none()
    );
}
