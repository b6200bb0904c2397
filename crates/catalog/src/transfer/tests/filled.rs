//! A catalog with rows in all of its tables.

use std::time::Duration;

use crate::catalog::*;
use crate::conformance::Backend;
use crate::conformance::samples::{
    AGENT, ALICE, add, at, full_step, furnished_with_project, id_of, land, pairs, requested,
    sandbox, snapshot,
};
use crate::conformance::{
    add_events, note, request, tag, taken, unsettled, webhook, with_unsettled,
};
use crate::found::{GENERATION, INSTALLATION};
use crate::records::{ClientSnapshot, CommandClaim, Project, Sandbox, Template};

/// Opens the catalog of a new backend and adds records of every kind.
pub(super) async fn filled<B: Backend>(backend: &B) -> B::Catalog {
    let (catalog, project) = furnished_with_project(backend).await;
    for (name, value) in [(INSTALLATION, "ins-1"), (GENERATION, "7")] {
        catalog.set_setting(name, value).await.unwrap();
    }
    add_history(&catalog, &project).await;
    add_work(&catalog).await;
    add_servers(&catalog).await;
    catalog
}

/// Adds landings, held requests, versions, tags and dropped versions.
async fn add_history(catalog: &impl Catalog, project: &Project) {
    let full = full_step(project);
    let head = full.snapshot;
    let held = requested(head, "held");
    land(catalog, project, vec![full, held]).await;
    let tag = tag("p", "v1", 1);
    catalog.set_tag(ALICE, &tag, false).await.unwrap();
    let now = catalog.project(ALICE, &project.id).await.unwrap().unwrap();
    let unneeded = [snapshot(77)];
    let dropped = catalog.drop_versions(&now, &unneeded, at(400)).await;
    assert_eq!(dropped.unwrap(), unneeded);
}

/// Adds a sandbox, commands, conflicts, requests and snapshots.
async fn add_work(catalog: &impl Catalog) {
    let one = Sandbox {
        agent: Some(id_of(AGENT)),
        metadata: pairs(&[("key", "value"), ("é", "\u{1f511}")]),
        ..sandbox(ALICE, "one")
    };
    add(catalog, &one).await;
    let claim = CommandClaim {
        sandbox: one.id,
        id: "build-1".into(),
        fingerprint: [3; 32],
    };
    catalog.claim_command(ALICE, &claim).await.unwrap();
    let conflicts = with_unsettled(&[unsettled("a/b", None, None)]);
    let workspace = id_of("w");
    let changed = catalog.change_workspace(ALICE, &workspace, &conflicts, at(300));
    changed.await.unwrap();
    let (running, answered) = (request(ALICE, 1), request(ALICE, 2));
    for request in [&running, &answered] {
        catalog.begin(request).await.unwrap();
    }
    let finished = catalog.finish(&answered.run, 200, Some(b"{}")).await;
    finished.unwrap();
    let named = ClientSnapshot {
        name: Some("good".into()),
        ..taken(ALICE, 1)
    };
    for snapshot in [named, taken(ALICE, 2)] {
        catalog.record_snapshot(&snapshot).await.unwrap();
    }
}

/// Adds templates, events, webhooks, deliveries, nodes and leases.
async fn add_servers(catalog: &impl Catalog) {
    let template = Template {
        name: "base".into(),
        image: "docker.io/library/debian:12".into(),
        description: None,
        tags: vec!["one".into()],
        size: i64::MAX as u64,
        writable_root: true,
        created: at(1),
    };
    catalog.put_template(&template).await.unwrap();
    catalog.add_webhook(&webhook("a")).await.unwrap();
    add_events(catalog, &[note("a", 1), note("b", 2)]).await;
    let hook = id_of("a");
    let queued = catalog.queue_deliveries(Some(ALICE), &hook, 10, at(200));
    assert_eq!(queued.await.unwrap(), 2);
    let long = Duration::from_secs(60);
    for node in ["one", "two", "one"] {
        catalog.begin_session(node, long, at(100)).await.unwrap();
    }
    let session = catalog.sessions().await.unwrap()[0].session;
    let taken = catalog.take_lease("job", session, long, at(100)).await;
    taken.unwrap().unwrap();
}

/// Returns SQL that adds extreme values to a catalog in SQLite. The keys have
/// another order if they are not compared by their bytes.
pub(super) fn add_edges() -> String {
    let (least, most) = (i64::MIN, i64::MAX);
    let tenant = format!("x'{}'", "00".repeat(16));
    let hash = |byte: &str| format!("x'{}'", byte.repeat(32));
    let (low, high) = (hash("00"), hash("ff"));
    let settings = [
        "",
        " ",
        "A",
        "Z",
        "a",
        "é",
        "e\u{301}",
        "\u{ffff}",
        "🦀",
        "''\"\\$1?%_\r\n\t\u{1}",
    ];
    let settings = settings.map(|text| format!("('{text}', '{text}{text}')"));
    format!(
        "INSERT INTO settings VALUES {};
         INSERT INTO tenants (id, name, created, limits, suspended, events_forgotten)
             VALUES ({tenant}, 'edge', {least}, '{{\"a\": [1.0, \"\\u0000\"] }}', 0, {most});
         INSERT INTO requests (tenant, name, fingerprint, id, keep_until, status, body) VALUES
             ({tenant}, {high}, {low}, '', {least}, {most}, x''),
             ({tenant}, {low}, {high}, '', {most}, {least}, NULL),
             ({tenant}, {hash80}, {high}, '🦀', -1, 0, x'00ff00');
         INSERT INTO dropped_versions SELECT id, {low}, -1 FROM projects;
         INSERT INTO dropped_versions SELECT id, {high}, 0 FROM projects;
         INSERT INTO unsettled SELECT id, x'', NULL, x'', 0 FROM workspaces;
         INSERT INTO unsettled SELECT id, x'00', x'00', NULL, 1 FROM workspaces;
         INSERT INTO unsettled SELECT id, x'ff', x'', x'', 1 FROM workspaces;
         INSERT INTO nodes VALUES ({least}, 'least', 0, {least}, {least}),
             ({most}, 'most', {most}, {most}, -1);
         INSERT INTO events VALUES (9007199254740993, {tenant}, NULL, 'é', '', -1, 'no JSON');
        ",
        settings.join(", "),
        hash80 = hash("80"),
    )
}
