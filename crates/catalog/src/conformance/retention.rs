//! Checks of versions whose content is dropped, and of versions that keep it.

use std::collections::BTreeSet;

use elevo_core::Timestamp;
use elevo_objects::SnapshotId;
use futures::future::join_all;

use crate::catalog::*;
use crate::conformance::assertions::{
    assert_being_removed, assert_changed, assert_not_found, assert_refused,
};
use crate::conformance::backend::Backend;
use crate::conformance::roots::all_roots;
use crate::conformance::samples::{
    ALICE, BOB, add_project, add_workspace, at, first, furnished, get_project, id_of, land,
    landing, move_base, open, project, review, snapshot, step, whole_log, workspace,
};
use crate::conformance::tags::tag;
use crate::error::{Error, Kind};
use crate::limits::MAX_PAGE;
use crate::records::{
    Landing, Project, ProjectChange, Retention, ReviewChange, ReviewState, Step, UnkeptQuery,
    WorkspaceChange,
};

const DAY: i64 = 24 * 3600;

/// A time after all landings.
const LATE: Timestamp = match Timestamp::new(100 * DAY, 0) {
    Some(time) => time,
    None => unreachable!(),
};

/// Lands a version at each of these times: snapshot 1, 2 and so on.
async fn land_at(catalog: &impl Catalog, project: &Project, times: &[i64]) {
    for time in times {
        let now = get_project(catalog, project).await;
        let next = Landing {
            now: at(*time),
            ..landing(project, now.head, vec![step(snapshot(now.sequence + 1))])
        };
        catalog.land(&next).await.expect("landed");
    }
}

async fn keep(catalog: &impl Catalog, project: &Project, retention: Retention) -> Project {
    let change = ProjectChange {
        retention: Some(retention),
        ..ProjectChange::default()
    };
    let changed = catalog.change_project(project.tenant, &project.id, &change, at(300));
    changed.await.expect("changed")
}

async fn unkept(
    catalog: &impl Catalog,
    project: &Project,
    since: Timestamp,
    limit: u32,
) -> Vec<SnapshotId> {
    let (mut found, mut after) = (Vec::new(), None);
    loop {
        let query = UnkeptQuery {
            now: LATE,
            since,
            after,
            limit,
        };
        let page = catalog.unkept_versions(project, &query).await;
        let page = page.expect("versions");
        assert!(page.snapshots.len() <= limit as usize);
        found.extend(page.snapshots);
        after = page.next;
        if after.is_none() {
            return found;
        }
    }
}

/// Drops all versions that retention does not keep.
async fn drop_unkept(catalog: &impl Catalog, project: &Project) -> Vec<SnapshotId> {
    let project = get_project(catalog, project).await;
    let found = unkept(catalog, &project, LATE, MAX_PAGE).await;
    let dropped = catalog.drop_versions(&project, &found, at(400)).await;
    dropped.expect("dropped")
}

fn snapshots(numbers: impl IntoIterator<Item = u64>) -> Vec<SnapshotId> {
    numbers.into_iter().map(snapshot).collect()
}

fn assert_dropped<T: std::fmt::Debug>(result: crate::Result<T>, which: u64) {
    match result {
        Err(Error::Dropped { snapshot: is }) => assert_eq!(is, snapshot(which)),
        other => panic!("expected `Dropped` for version {which}, got {other:?}"),
    }
}

/// Checks every kind of retention, in pages of several lengths.
pub async fn versions_outside_the_retention_are_found(backend: &impl Backend) {
    let catalog = furnished(backend).await;
    let one = project(ALICE, "p");
    add_project(&catalog, &one).await;
    // Three versions on day 90, one on day 97, two on day 99.
    let times = [90 * DAY, 90 * DAY + 1, 91 * DAY - 1, 97 * DAY];
    land_at(&catalog, &one, &times).await;
    land_at(&catalog, &one, &[99 * DAY, 99 * DAY + 9]).await;
    for (retention, expected) in [
        (Retention::All, vec![]),
        (Retention::Last(1), snapshots(0..6)),
        (Retention::Last(3), snapshots(0..4)),
        (Retention::Last(7), vec![]),
        // Version 0 is from day 0, like the project, so only 101 days or more
        // include it.
        (Retention::Daily(101), snapshots([1, 2, 5])),
        (Retention::Daily(100), snapshots([0, 1, 2, 5])),
        (Retention::Daily(4), snapshots([0, 1, 2, 3, 5])),
        (Retention::Named, snapshots(0..6)),
    ] {
        let kept = keep(&catalog, &one, retention).await;
        assert_eq!(kept.retention, retention);
        assert_eq!(get_project(&catalog, &one).await, kept);
        for limit in [1, 2, MAX_PAGE] {
            let found = unkept(&catalog, &kept, LATE, limit).await;
            assert_eq!(found, expected, "{retention:?} in pages of {limit}");
        }
    }
    let named = keep(&catalog, &one, Retention::Named).await;
    let young = unkept(&catalog, &named, at(91 * DAY - 1), 10).await;
    assert_eq!(young, snapshots(0..3), "those that are younger stay");
    for zero in [Retention::Last(0), Retention::Daily(0)] {
        let change = ProjectChange {
            retention: Some(zero),
            ..ProjectChange::default()
        };
        let changed = catalog
            .change_project(ALICE, &id_of("p"), &change, at(1))
            .await;
        assert_refused(changed);
        let mut bad = project(ALICE, "q");
        bad.retention = zero;
        assert_refused(catalog.add_project(&bad, &().into()).await);
    }
}

/// Promise 17. A dropped version stays dropped when the retention changes.
pub async fn a_dropped_version_stays_in_the_log(backend: &impl Backend) {
    let catalog = furnished(backend).await;
    let (one, other) = (project(ALICE, "p"), project(ALICE, "q"));
    for each in [&one, &other] {
        add_project(&catalog, each).await;
        land_at(&catalog, each, &[1, 2, 3]).await;
    }
    let before = whole_log(&catalog, &one).await;
    keep(&catalog, &one, Retention::Last(2)).await;
    assert_eq!(drop_unkept(&catalog, &one).await, snapshots([0, 1]));
    assert_eq!(drop_unkept(&catalog, &one).await, []);
    let mut expected = before;
    expected[2].dropped = Some(at(400));
    assert_eq!(whole_log(&catalog, &one).await, expected);
    let found = catalog
        .landing(ALICE, &id_of("p"), 1)
        .await
        .expect("landing");
    assert_eq!(found.as_ref(), expected.last());
    let found = catalog
        .landing_of_snapshot(ALICE, &id_of("p"), snapshot(1))
        .await;
    assert_eq!(found.expect("landing").as_ref(), expected.last());
    let all = keep(&catalog, &one, Retention::All).await;
    assert_eq!(unkept(&catalog, &all, LATE, 10).await, []);
    for (tenant, which, expected) in [
        (ALICE, 0, vec!["prj-p"]),
        (ALICE, 1, vec!["prj-p"]),
        (ALICE, 2, vec![]),
        (BOB, 1, vec![]),
    ] {
        let found = catalog.dropped_from(tenant, snapshot(which)).await;
        assert_eq!(found.expect("projects"), expected);
    }
    let log = whole_log(&catalog, &other).await;
    assert!(log.iter().all(|entry| entry.dropped.is_none()));
}

/// Promise 16: a version that a record needs is kept.
pub async fn a_needed_version_is_not_dropped(backend: &impl Backend) {
    let catalog = furnished(backend).await;
    let (one, other) = (project(ALICE, "p"), project(ALICE, "q"));
    for each in [&one, &other] {
        add_project(&catalog, each).await;
        land_at(&catalog, each, &[1, 2, 3, 4, 5, 6, 7, 8, 9]).await;
    }
    let mut branch = workspace(ALICE, "w", Some("p"));
    (branch.base, branch.synced) = (snapshot(1), snapshot(2));
    add_workspace(&catalog, &branch).await;
    let mut held = review(&one, "r", None, "a");
    held.sides.base_snapshot = snapshot(3);
    held.sides.ours_snapshot = snapshot(4);
    held.sides.theirs_snapshot = snapshot(5);
    open(&catalog, &one, vec![held]).await;
    // This workspace is of another project, so it does not keep version 6 of
    // the first one.
    let mut elsewhere = workspace(ALICE, "x", Some("q"));
    (elsewhere.base, elsewhere.synced) = (snapshot(6), snapshot(6));
    add_workspace(&catalog, &elsewhere).await;
    let named = tag("p", "named", 7);
    catalog.set_tag(ALICE, &named, false).await.expect("set");
    keep(&catalog, &one, Retention::Named).await;
    let needed = catalog.needed_versions(&one).await.expect("versions");
    let expected = snapshots([1, 2, 3, 4, 5, 7, 9]);
    assert_eq!(needed, expected.into_iter().collect());
    assert_eq!(drop_unkept(&catalog, &one).await, snapshots([0, 6, 8]));

    assert!(
        catalog
            .remove_workspace(ALICE, &id_of("w"))
            .await
            .expect("removed")
    );
    assert_eq!(drop_unkept(&catalog, &one).await, snapshots([1, 2]));
    let end = ReviewChange::new(ReviewState::Open, ReviewState::Rejected);
    let ended = catalog
        .change_review(ALICE, &id_of("r"), &end, at(301))
        .await;
    ended.expect("ended");
    assert_eq!(drop_unkept(&catalog, &one).await, snapshots([3, 4, 5]));
    assert!(
        catalog
            .remove_tag(ALICE, &id_of("p"), "named")
            .await
            .expect("removed")
    );
    assert_eq!(drop_unkept(&catalog, &one).await, snapshots([7]));
    // The head is not dropped even if the caller names it.
    let now = get_project(&catalog, &one).await;
    let head = catalog.drop_versions(&now, &[now.head], at(400)).await;
    assert_eq!(head.expect("nothing"), []);
}

/// Checks promise 16 for every record that can need a version.
pub async fn no_record_comes_to_need_a_dropped_version(backend: &impl Backend) {
    let catalog = furnished(backend).await;
    let one = project(ALICE, "p");
    add_project(&catalog, &one).await;
    add_project(&catalog, &project(ALICE, "q")).await;
    land_at(&catalog, &one, &[1, 2]).await;
    let mut stays = workspace(ALICE, "w", Some("p"));
    (stays.base, stays.synced) = (snapshot(2), snapshot(2));
    add_workspace(&catalog, &stays).await;
    keep(&catalog, &one, Retention::Last(1)).await;
    assert_eq!(drop_unkept(&catalog, &one).await, snapshots([0, 1]));

    for (base, synced) in [(1, 2), (2, 1)] {
        let mut late = workspace(ALICE, "late", Some("p"));
        (late.base, late.synced) = (snapshot(base), snapshot(synced));
        assert_dropped(catalog.add_workspace(&late).await, 1);
        let change = WorkspaceChange {
            base: Some(snapshot(base)),
            synced: Some(snapshot(synced)),
            ..WorkspaceChange::default()
        };
        let changed = catalog
            .change_workspace(ALICE, &id_of("w"), &change, at(500))
            .await;
        assert_dropped(changed, 1);
    }
    let late = tag("p", "late", 1);
    assert_dropped(catalog.set_tag(ALICE, &late, true).await, 1);
    assert_eq!(
        catalog
            .tags(ALICE, &id_of("p"), None, 10)
            .await
            .expect("tags"),
        []
    );
    let mut of_side = review(&one, "r", None, "a");
    of_side.sides.base_snapshot = snapshot(2);
    of_side.sides.ours_snapshot = snapshot(2);
    of_side.sides.theirs_snapshot = snapshot(1);
    for bad in [
        step(snapshot(1)),
        Step {
            workspace: Some(id_of("w")),
            base: move_base(2, 1),
            ..step(snapshot(3))
        },
        Step {
            opens: vec![of_side],
            ..step(snapshot(3))
        },
    ] {
        let late = landing(&one, snapshot(2), vec![bad]);
        assert_dropped(catalog.land(&late).await, 1);
    }
    let now = get_project(&catalog, &one).await;
    assert_eq!((now.head, now.sequence), (snapshot(2), 2));
    let kept = catalog
        .workspace(ALICE, &id_of("w"))
        .await
        .expect("workspace");
    assert_eq!(kept, Some(stays));
    // The version is dropped from this project alone.
    let mut elsewhere = workspace(ALICE, "x", Some("q"));
    (elsewhere.base, elsewhere.synced) = (snapshot(1), snapshot(1));
    add_workspace(&catalog, &elsewhere).await;
}

/// Rejects a drop with an outdated retention, and a drop in a project that is
/// being removed.
pub async fn versions_are_dropped_only_as_expected(backend: &impl Backend) {
    let catalog = furnished(backend).await;
    let one = project(ALICE, "p");
    add_project(&catalog, &one).await;
    land_at(&catalog, &one, &[1, 2, 3]).await;
    let strict = keep(&catalog, &one, Retention::Last(1)).await;
    let found = unkept(&catalog, &strict, LATE, 10).await;
    assert_eq!(found.len(), 3);
    keep(&catalog, &one, Retention::Last(2)).await;
    let late = catalog.drop_versions(&strict, &found, at(400)).await;
    assert_changed(late, Kind::Project);
    for unknown in [project(BOB, "p"), project(ALICE, "x")] {
        let dropped = catalog.drop_versions(&unknown, &found, at(400)).await;
        assert_not_found(dropped, Kind::Project);
    }
    let many = vec![snapshot(1); MAX_PAGE as usize + 1];
    assert_refused(catalog.drop_versions(&strict, &many, at(400)).await);
    for limit in [0, MAX_PAGE + 1] {
        let query = UnkeptQuery {
            now: LATE,
            since: LATE,
            after: None,
            limit,
        };
        assert_refused(catalog.unkept_versions(&strict, &query).await);
    }
    let leaving = catalog.begin_removal(ALICE, &id_of("p"), at(401)).await;
    let leaving = leaving.expect("marked");
    let dropped = catalog.drop_versions(&leaving, &found, at(402)).await;
    assert_being_removed(dropped, Kind::Project);
    let log = whole_log(&catalog, &one).await;
    assert!(log.iter().all(|entry| entry.dropped.is_none()));
}

/// For a version that was the head twice, only the second landing counts.
pub async fn a_version_that_is_the_head_again_is_as_old_as_its_last_landing(
    backend: &impl Backend,
) {
    let catalog = furnished(backend).await;
    let one = project(ALICE, "p");
    add_project(&catalog, &one).await;
    for next in [1, 2, 1, 3] {
        land(&catalog, &one, vec![step(snapshot(next))]).await;
    }
    let kept = keep(&catalog, &one, Retention::Last(2)).await;
    assert_eq!(unkept(&catalog, &kept, LATE, 10).await, snapshots([0, 2]));
    let kept = keep(&catalog, &one, Retention::Last(1)).await;
    assert_eq!(
        unkept(&catalog, &kept, LATE, 10).await,
        snapshots([0, 2, 1])
    );
}

/// Checks promise 16 through two handles.
pub async fn either_a_drop_or_a_concurrent_workspace_wins(backend: &impl Backend) {
    let handles = [furnished(backend).await, backend.open().await];
    let one = project(ALICE, "p");
    add_project(&handles[0], &one).await;
    let times: Vec<_> = (1..=40).collect();
    land_at(&handles[0], &one, &times).await;
    let named = keep(&handles[0], &one, Retention::Named).await;
    let adding = (0..40_u64).map(|n| {
        let catalog = &handles[0];
        async move {
            let mut branch = workspace(ALICE, &format!("w{n}"), Some("p"));
            (branch.base, branch.synced) = (snapshot(n), snapshot(n));
            match catalog.add_workspace(&branch).await {
                Ok(()) => true,
                Err(Error::Dropped { .. }) => false,
                Err(other) => panic!("{other:?}"),
            }
        }
    });
    // Drops the versions in the opposite order, so that drops and additions
    // meet.
    let dropping = (0..40_u64).rev().map(|n| {
        let (catalog, named) = (&handles[1], &named);
        async move {
            let dropped = catalog.drop_versions(named, &[snapshot(n)], at(400)).await;
            !dropped.expect("dropped or not").is_empty()
        }
    });
    let (added, dropped) = futures::future::join(join_all(adding), join_all(dropping)).await;
    let dropped = dropped.into_iter().rev();
    for (n, (added, dropped)) in added.into_iter().zip(dropped).enumerate() {
        assert_ne!(added, dropped, "version {n}");
    }
}

/// The roots omit dropped versions, unless another project has the same version.
pub async fn a_dropped_version_is_not_a_root(backend: &impl Backend) {
    let catalog = furnished(backend).await;
    let (one, other) = (project(ALICE, "p"), project(ALICE, "q"));
    for each in [&one, &other] {
        add_project(&catalog, each).await;
    }
    land_at(&catalog, &one, &[1, 2, 3, 4]).await;
    // The other project also has the snapshots 0 and 1.
    land_at(&catalog, &other, &[1]).await;
    keep(&catalog, &one, Retention::Last(2)).await;
    assert_eq!(drop_unkept(&catalog, &one).await, snapshots(0..3));
    for limit in [1, 2, MAX_PAGE] {
        let found = all_roots(&catalog, ALICE, limit).await;
        let expected: BTreeSet<_> = snapshots([0, 1, 3, 4]).into_iter().collect();
        assert_eq!(found, expected, "in pages of {limit}");
    }
    let alone = keep(&catalog, &other, Retention::Last(1)).await;
    let dropped = catalog.drop_versions(&alone, &[first()], at(400)).await;
    assert_eq!(dropped.expect("dropped"), [first()]);
    let found = all_roots(&catalog, ALICE, 10).await;
    assert_eq!(found, snapshots([1, 3, 4]).into_iter().collect());
}
