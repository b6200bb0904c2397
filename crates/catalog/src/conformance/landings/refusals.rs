//! Checks of landings that fail.

use futures::future::join_all;

use crate::catalog::*;
use crate::conformance::assertions::{
    assert_changed, assert_exists, assert_not_found, assert_refused,
};
use crate::conformance::backend::Backend;
use crate::conformance::samples::{
    ALICE, BOB, add_project, add_workspace, added, assert_chain, at, first, full_step, furnished,
    furnished_with_project, get_project, get_review, id_of, land, landing, move_base, open, path,
    project, requested, review, snapshot, step, supersede, whole_log, workspace,
};
use crate::error::{Error, Kind};
use crate::limits::{MAX_CHANGES, MAX_COUNTS_BYTES, MAX_REVIEWS, MAX_STEPS, MAX_TEXT_BYTES};
use crate::records::{Landing, ReviewState, Step};

/// Checks promise 2 for every expectation that can fail.
pub async fn an_unexpected_landing_changes_nothing(backend: &impl Backend) {
    let (catalog, one) = furnished_with_project(backend).await;
    let other = project(ALICE, "q");
    add_project(&catalog, &other).await;
    add_workspace(&catalog, &workspace(ALICE, "of-q", Some("q"))).await;
    open(&catalog, &other, vec![review(&other, "r-of-q", None, "x")]).await;
    let fine = || full_step(&one);
    let land = async |bad: Step| {
        // A valid step comes first, and is rolled back too.
        let steps = vec![step(snapshot(50)), bad];
        catalog.land(&landing(&one, first(), steps)).await
    };
    let elsewhere = landing(&one, snapshot(7), vec![fine()]);
    match catalog.land(&elsewhere).await {
        Err(Error::HeadMoved { head, sequence }) => assert_eq!((head, sequence), (first(), 0)),
        other => panic!("{other:?}"),
    }
    let outdated = Landing {
        expected_policy: one.policy_version + 1,
        ..landing(&one, first(), vec![fine()])
    };
    match catalog.land(&outdated).await {
        Err(Error::PolicyMoved { version }) => assert_eq!(version, one.policy_version),
        other => panic!("{other:?}"),
    }
    for stranger in [project(BOB, "p"), project(ALICE, "x")] {
        let landed = landing(&stranger, first(), vec![step(snapshot(1))]);
        assert_not_found(catalog.land(&landed).await, Kind::Project);
    }
    let with_review = |id: &str| Step {
        reviews: vec![supersede(id, "s")],
        ..fine()
    };
    for id in ["unknown", "r-of-q"] {
        assert_not_found(land(with_review(id)).await, Kind::Review);
    }
    let twice = vec![supersede("r", "s"), supersede("r", "s")];
    let twice = Step {
        reviews: twice,
        ..fine()
    };
    assert_changed(land(twice).await, Kind::Review);
    let second = Step {
        reviews: vec![],
        ..fine()
    };
    assert_exists(land(second).await, Kind::Review);
    let from_elsewhere = Step {
        base: move_base(1, 9),
        ..fine()
    };
    assert_changed(land(from_elsewhere).await, Kind::Workspace);
    for id in ["unknown", "of-q"] {
        let of_another = Step {
            workspace: Some(id_of(id)),
            ..fine()
        };
        assert_not_found(land(of_another).await, Kind::Workspace);
    }
    assert!(whole_log(&catalog, &one).await.is_empty());
    assert_eq!(get_project(&catalog, &one).await, one);
    let kept = review(&one, "r", Some("w"), "a/b");
    assert_eq!(get_review(&catalog, &kept).await, kept);
    assert_eq!(
        catalog.review(ALICE, &id_of("s")).await.expect("review"),
        None
    );
    let versions = catalog
        .versions_of(ALICE, &id_of("p"), &path("a"), None, 10)
        .await;
    assert!(versions.expect("versions").is_empty());
    let workspace = catalog
        .workspace(ALICE, &id_of("w"))
        .await
        .expect("workspace");
    assert_eq!(workspace.expect("it exists").merges, 0);
    let known = catalog
        .landing_by_request(ALICE, &id_of("p"), "request")
        .await;
    assert_eq!(known.expect("landing"), None);
    land(fine()).await.expect("all is as expected");
}

/// Checks promise 14 for a step that moved the head and a step that was held.
pub async fn a_landing_is_carried_out_once(backend: &impl Backend) {
    let handles = [furnished(backend).await, backend.open().await];
    let one = project(ALICE, "p");
    let other = project(ALICE, "q");
    for project in [&one, &other] {
        add_project(&handles[0], project).await;
    }
    let landed = landing(&one, first(), vec![requested(snapshot(1), "lands")]);
    let held = Step {
        opens: vec![review(&one, "r", None, "x")],
        ..requested(snapshot(1), "held")
    };
    let held = landing(&one, snapshot(1), vec![held]);
    for (landing, sequence) in [(&landed, Some(1)), (&held, None)] {
        let request = landing.steps[0].request.as_deref();
        let tries = (0..8).map(|n| handles[n % 2].land(landing));
        let mut won = 0;
        for result in join_all(tries).await {
            match result {
                Ok(done) => {
                    won += 1;
                    assert_eq!(done.steps[0].sequence, sequence);
                }
                Err(Error::Repeated {
                    request: of,
                    landed,
                }) => {
                    assert_eq!(Some(of.as_str()), request);
                    let step = (landed.sequence, landed.head);
                    assert_eq!(step, (sequence, snapshot(1)));
                }
                Err(other) => panic!("{other:?}"),
            }
        }
        assert_eq!(won, 1, "one of them");
    }
    // A landing with a repeated request changes nothing, also if it has another
    // step or expects another head.
    for request in ["lands", "held"] {
        let steps = vec![step(snapshot(2)), requested(snapshot(3), request)];
        for expected in [snapshot(1), snapshot(99)] {
            let again = landing(&one, expected, steps.clone());
            let again = handles[0].land(&again).await;
            assert!(matches!(again, Err(Error::Repeated { .. })), "{again:?}");
        }
        // The request is unknown in another project.
        let known = handles[0]
            .landing_by_request(ALICE, &id_of("q"), request)
            .await;
        assert_eq!(known.expect("landing"), None);
    }
    land(&handles[0], &other, vec![requested(snapshot(5), "lands")]).await;
    let stranger = landing(&project(BOB, "p"), first(), landed.steps);
    assert_not_found(handles[0].land(&stranger).await, Kind::Project);
    assert_eq!(assert_chain(&handles[1], &one).await.len(), 1);
}

/// Checks many values of a landing out of bounds. Nothing lands.
pub async fn a_landing_out_of_bounds_is_refused(backend: &impl Backend) {
    let (catalog, one) = furnished_with_project(backend).await;
    let long = "x".repeat(MAX_TEXT_BYTES + 1);
    let many: Vec<_> = (0..=MAX_CHANGES)
        .map(|n| added(&n.to_string(), 1))
        .collect();
    let reviews = (0..=MAX_REVIEWS).map(|_| supersede("r", "s")).collect();
    let mut unnamed = added("a", 1);
    unnamed.algorithm.clear();
    let mut closed = review(&one, "s", None, "b");
    closed.state = ReviewState::Rejected;
    let mut detailed = review(&one, "s", None, "b");
    detailed.detail = "x".repeat(crate::limits::MAX_DETAIL_BYTES).into();
    let elsewhere = review(&project(ALICE, "q"), "s", None, "b");
    let good = || step(snapshot(1));
    let bad = |change: fn(&mut Step)| {
        let mut step = step(snapshot(1));
        change(&mut step);
        step
    };
    let with_opened = |opened| Step {
        opens: vec![opened],
        ..good()
    };
    let steps = [
        bad(|step| step.request = Some("a\0b".into())),
        bad(|step| step.counts = "x".repeat(MAX_COUNTS_BYTES).into()),
        bad(|step| step.base = move_base(0, 1)),
        bad(|step| step.changes = vec![added("a", 1), added("a", 2)]),
        bad(|step| (step.snapshot, step.changes) = (first(), vec![added("a", 1)])),
        Step {
            message: long,
            ..good()
        },
        Step {
            changes: many,
            ..good()
        },
        Step { reviews, ..good() },
        Step {
            changes: vec![unnamed],
            ..good()
        },
        with_opened(closed),
        with_opened(detailed),
        with_opened(elsewhere),
    ];
    for step in steps {
        let landing = landing(&one, first(), vec![step]);
        assert_refused(catalog.land(&landing).await);
    }
    let too_many = (1..=MAX_STEPS as u64 + 1).map(|n| step(snapshot(n)));
    let alike = vec![requested(snapshot(1), "a"), requested(snapshot(2), "a")];
    for steps in [vec![], too_many.collect(), alike] {
        let landing = landing(&one, first(), steps);
        assert_refused(catalog.land(&landing).await);
    }
    assert!(whole_log(&catalog, &one).await.is_empty());
}

/// A landing that was computed with an older policy must be computed again.
pub async fn a_landing_with_an_older_policy_changes_nothing(backend: &impl Backend) {
    let (catalog, before) = furnished_with_project(backend).await;
    let version = before.policy_version;
    let policy = serde_json::json!({"default": "r"});
    let set = catalog.set_policy(ALICE, &before.id, version, &policy, at(150));
    let after = set.await.expect("set");
    let steps = vec![step(snapshot(60))];
    match catalog
        .land(&landing(&before, first(), steps.clone()))
        .await
    {
        Err(Error::PolicyMoved { version }) => assert_eq!(version, after.policy_version),
        other => panic!("{other:?}"),
    }
    assert_eq!(get_project(&catalog, &before).await.head, first());
    let landed = catalog.land(&landing(&after, first(), steps)).await;
    assert_eq!(landed.expect("landed").head, snapshot(60));
}
