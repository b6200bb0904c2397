//! Checks of landings.

mod refusals;

use std::pin::pin;

use futures::future::{join_all, poll_immediate};
use serde_json::json;

pub use self::refusals::*;
use crate::catalog::*;
use crate::conformance::assertions::assert_refused;
use crate::conformance::backend::Backend;
use crate::conformance::samples::{
    AGENT, ALICE, KEY, add_project, added, assert_chain, at, first, full_step, furnished,
    furnished_with_project, get_project, get_review, id_of, land, landing, move_base, path,
    project, requested, review, snapshot, step, whole_log, workspace,
};
use crate::error::Error;
use crate::limits::MAX_STEPS;
use crate::records::{
    Landed, LandedStep, LandingKind, LogEntry, Project, ReviewState, Step, Workspace,
};

/// Checks the head, the log, the versions, the reviews and the base of the
/// workspace.
pub async fn a_landing_changes_all_its_records(backend: &impl Backend) {
    let (catalog, one) = furnished_with_project(backend).await;
    let landed = land(&catalog, &one, vec![full_step(&one)]).await;
    let done = LandedStep {
        sequence: Some(1),
        head: snapshot(1),
    };
    let expected = Landed {
        head: snapshot(1),
        sequence: 1,
        steps: vec![done],
    };
    assert_eq!(landed, expected);
    let moved = Project {
        head: snapshot(1),
        sequence: 1,
        updated: at(200),
        ..one.clone()
    };
    assert_eq!(get_project(&catalog, &one).await, moved);
    let entry = LogEntry {
        project: id_of("p"),
        sequence: 1,
        snapshot: snapshot(1),
        parent: first(),
        kind: LandingKind::Resolve,
        agent: Some(id_of(AGENT)),
        workspace: Some(id_of("w")),
        key: id_of(KEY),
        message: "why\nnot".into(),
        request: Some("request".into()),
        counts: json!({ "added": 2 }),
        created: at(200),
        dropped: None,
    };
    let log = whole_log(&catalog, &one).await;
    assert_eq!(log, std::slice::from_ref(&entry));
    let found = catalog
        .landing(ALICE, &id_of("p"), 1)
        .await
        .expect("landing");
    assert_eq!(found.as_ref(), Some(&entry));
    let found = catalog
        .landing_of_snapshot(ALICE, &id_of("p"), snapshot(1))
        .await;
    assert_eq!(found.expect("landing"), Some(entry));
    let found = catalog
        .landing_by_request(ALICE, &id_of("p"), "request")
        .await;
    assert_eq!(found.expect("landing"), Some(done));
    assert_versions_and_reviews(&catalog, &one).await;
    let merged = Workspace {
        base: snapshot(9),
        synced: snapshot(9),
        merges: 1,
        last_merge: Some(at(200)),
        updated: at(200),
        ..workspace(ALICE, "w", Some("p"))
    };
    let found = catalog
        .workspace(ALICE, &id_of("w"))
        .await
        .expect("workspace");
    assert_eq!(found, Some(merged));
}

async fn assert_versions_and_reviews(catalog: &impl Catalog, one: &Project) {
    let versions = catalog.versions_in(ALICE, &id_of("p"), 1, None, 10).await;
    let versions = versions.expect("versions");
    let paths: Vec<_> = versions.iter().map(|it| it.change.path.clone()).collect();
    assert_eq!(paths, [path("a"), path("b")]);
    for version in versions {
        let of = (version.sequence, version.snapshot, version.created);
        assert_eq!(of, (1, snapshot(1), at(200)));
        let by = (version.agent.as_deref(), version.workspace.as_deref());
        assert_eq!(by, (Some(AGENT), Some("w")));
    }
    let old = review(one, "r", Some("w"), "a/b");
    let closed = get_review(catalog, &old).await;
    let ended = (closed.state, closed.closed, closed.successor.as_deref());
    assert_eq!(
        ended,
        (ReviewState::Superseded, Some(at(200)), Some("rev-s"))
    );
    let new = review(one, "s", Some("w"), "a/b");
    assert_eq!(get_review(catalog, &new).await, new);
}

/// Checks promise 11 for one landing with many steps.
pub async fn the_steps_of_a_landing_are_a_chain(backend: &impl Backend) {
    let (catalog, one) = furnished_with_project(backend).await;
    let mut steps: Vec<_> = (1..=MAX_STEPS as u64)
        .map(|n| Step {
            workspace: Some(id_of("w")),
            changes: vec![added("same", n as u8)],
            base: move_base(n - 1, n),
            ..requested(snapshot(n), &n.to_string())
        })
        .collect();
    // One of the steps is held for review entirely.
    steps[9].snapshot = snapshot(9);
    steps[9].changes.clear();
    let landed = land(&catalog, &one, steps).await;
    let last = MAX_STEPS as u64;
    assert_eq!((landed.head, landed.sequence), (snapshot(last), last - 1));
    let of_held = landed.steps[9];
    assert_eq!((of_held.sequence, of_held.head), (None, snapshot(9)));
    assert_chain(&catalog, &one).await;
    let workspace = catalog
        .workspace(ALICE, &id_of("w"))
        .await
        .expect("workspace");
    let workspace = workspace.expect("it exists");
    assert_eq!((workspace.base, workspace.merges), (snapshot(last), last));
    for (n, step) in (1..).zip(landed.steps) {
        let known = catalog
            .landing_by_request(ALICE, &id_of("p"), &n.to_string())
            .await;
        assert_eq!(known.expect("landing"), Some(step));
    }
    let pages = [(None, 2, vec![63, 62]), (Some(3), 9, vec![2, 1])];
    for (before, limit, expected) in pages {
        let page = catalog
            .log(ALICE, &id_of("p"), before, limit)
            .await
            .expect("log");
        let page: Vec<_> = page.into_iter().map(|entry| entry.sequence).collect();
        assert_eq!(page, expected);
    }
    for beyond in [0, 64, u64::MAX] {
        let found = catalog
            .landing(ALICE, &id_of("p"), beyond)
            .await
            .expect("landing");
        assert_eq!(found, None);
    }
    let all = catalog
        .log(ALICE, &id_of("p"), Some(u64::MAX), 100)
        .await
        .expect("log");
    assert_eq!(all.len(), 63);
    for limit in [0, u32::MAX] {
        assert_refused(catalog.log(ALICE, &id_of("p"), None, limit).await);
    }
}

/// Checks promises 11 and 12 through two handles: each writer continues from
/// the head that its error reports.
pub async fn concurrent_landings_are_a_chain(backend: &impl Backend) {
    const WRITERS: u64 = 8;
    const EACH: u64 = 6;
    let handles = [furnished(backend).await, backend.open().await];
    let one = project(ALICE, "p");
    add_project(&handles[0], &one).await;
    let writers = (0..WRITERS).map(|writer| {
        let (catalog, one) = (&handles[writer as usize % 2], &one);
        async move {
            let mut landed = Vec::new();
            let mut head = one.head;
            for n in 1..=EACH {
                let step = step(snapshot(writer * 100 + n));
                loop {
                    match catalog.land(&landing(one, head, vec![step.clone()])).await {
                        Ok(done) => {
                            landed.push((done.sequence, step.snapshot));
                            head = done.head;
                            break;
                        }
                        Err(Error::HeadMoved { head: now, .. }) => {
                            assert_ne!(now, head);
                            head = now;
                        }
                        Err(other) => panic!("{other:?}"),
                    }
                }
            }
            landed
        }
    });
    let mut acknowledged = join_all(writers).await.concat();
    acknowledged.sort_unstable();
    let log = assert_chain(&handles[0], &one).await;
    let log: Vec<_> = log.iter().map(|it| (it.sequence, it.snapshot)).collect();
    assert_eq!(log, acknowledged);
}

/// A step that is held for review changes only reviews and the base of the
/// workspace.
pub async fn a_held_step_does_not_move_the_head(backend: &impl Backend) {
    let (catalog, one) = furnished_with_project(backend).await;
    let held = Step {
        workspace: Some(id_of("w")),
        opens: vec![review(&one, "s", Some("w"), "c")],
        base: move_base(0, 4),
        ..step(first())
    };
    let landed = land(&catalog, &one, vec![held]).await;
    assert_eq!((landed.head, landed.sequence), (first(), 0));
    let expected = LandedStep {
        sequence: None,
        head: first(),
    };
    assert_eq!(landed.steps, [expected]);
    assert_eq!(get_project(&catalog, &one).await, one);
    assert!(whole_log(&catalog, &one).await.is_empty());
    let found = catalog.review(ALICE, &id_of("s")).await.expect("review");
    assert!(found.is_some());
    let workspace = catalog
        .workspace(ALICE, &id_of("w"))
        .await
        .expect("workspace");
    let workspace = workspace.expect("it exists");
    assert_eq!((workspace.base, workspace.merges), (snapshot(4), 1));
}

/// Checks promise 13 with a reader that has another handle.
pub async fn a_landing_becomes_visible_as_a_whole(backend: &impl Backend) {
    const LANDINGS: u64 = 30;
    let (writer, one) = furnished_with_project(backend).await;
    let reader = backend.open().await;
    let write = async {
        for n in 0..LANDINGS {
            let steps = [1, 2].map(|k| Step {
                workspace: Some(id_of("w")),
                changes: (0..10).map(|f| added(&format!("f{f}"), 1)).collect(),
                opens: vec![review(&one, &format!("{}", 2 * n + k), None, "x")],
                base: move_base(2 * n + k - 1, 2 * n + k),
                ..step(snapshot(2 * n + k))
            });
            land(&writer, &one, steps.into()).await;
        }
    };
    let read = async {
        loop {
            // Each of the reads below may see a newer state than the read
            // before it, never an older one.
            let seen = get_project(&reader, &one).await.sequence;
            assert_eq!(seen % 2, 0, "both steps or none");
            let now = reader
                .workspace(ALICE, &id_of("w"))
                .await
                .expect("workspace");
            assert!(now.expect("it exists").merges >= seen);
            if seen > 0 {
                let entry = reader
                    .landing(ALICE, &id_of("p"), seen)
                    .await
                    .expect("landing");
                assert_eq!(entry.expect("landed").snapshot, snapshot(seen));
                let versions = reader
                    .versions_in(ALICE, &id_of("p"), seen, None, 100)
                    .await;
                assert_eq!(versions.expect("versions").len(), 10);
                let review = reader.review(ALICE, &id_of(&seen.to_string())).await;
                assert!(review.expect("review").is_some());
            }
            let newest = reader
                .log(ALICE, &id_of("p"), None, 1)
                .await
                .expect("log")
                .pop();
            let newest = newest.map_or(0, |entry| entry.sequence);
            assert_eq!(newest % 2, 0, "both steps or none");
            assert!(get_project(&reader, &one).await.sequence >= newest);
            let versions = reader
                .versions_in(ALICE, &id_of("p"), newest + 1, None, 100)
                .await;
            let versions = versions.expect("versions").len();
            assert!([0, 10].contains(&versions), "{versions}");
            if seen == 2 * LANDINGS {
                return;
            }
        }
    };
    futures::future::join(write, read).await;
    assert_chain(&reader, &one).await;
}

/// Drops the futures of landings after different numbers of polls.
pub async fn a_dropped_landing_leaves_the_catalog_consistent(backend: &impl Backend) {
    let catalog = furnished(backend).await;
    let one = project(ALICE, "p");
    add_project(&catalog, &one).await;
    for polls in 0..40_u64 {
        let head = get_project(&catalog, &one).await.head;
        let steps = [1, 2].map(|k| Step {
            changes: vec![added("a", 1), added("b", 2)],
            ..requested(snapshot(10 * polls + k), &format!("{polls}-{k}"))
        });
        {
            let landing = landing(&one, head, steps.into());
            let mut call = pin!(catalog.land(&landing));
            for _ in 0..polls / 3 {
                if poll_immediate(&mut call).await.is_some() {
                    break;
                }
                // Gives the call about as much time as one read takes.
                catalog.setting("x").await.expect("setting");
            }
        }
        catalog.set_setting("x", "y").await.expect("set");
        let log = assert_chain(&catalog, &one).await;
        assert_eq!(log.len() % 2, 0, "both or none");
        for entry in &log {
            let versions = catalog.versions_in(ALICE, &one.id, entry.sequence, None, 10);
            assert_eq!(versions.await.expect("versions").len(), 2);
        }
    }
    catalog.check().await.expect("the catalog works");
}
