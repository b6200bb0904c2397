//! Checks of the snapshots that must be kept.

use std::collections::BTreeSet;

use elevo_core::TenantId;
use elevo_objects::SnapshotId;

use crate::catalog::*;
use crate::conformance::assertions::assert_refused;
use crate::conformance::backend::Backend;
use crate::conformance::samples::{
    ALICE, BOB, add_project, add_workspace, at, furnished, id_of, land, open, project, review,
    snapshot, step, workspace,
};
use crate::conformance::tags::tag;
use crate::limits::MAX_PAGE;
use crate::records::{Review, ReviewChange, ReviewState, Sides, WorkspaceFiles};

pub(crate) async fn all_roots(
    catalog: &impl Catalog,
    tenant: TenantId,
    limit: u32,
) -> BTreeSet<SnapshotId> {
    let mut seen = BTreeSet::new();
    let mut after = None;
    loop {
        let page = catalog.roots(tenant, after.as_ref(), limit).await;
        let page = page.expect("roots");
        assert!(page.snapshots.len() <= 5 * limit as usize);
        seen.extend(page.snapshots);
        after = page.next;
        if after.is_none() {
            return seen;
        }
    }
}

fn of_sides(review: Review, first: u64) -> Review {
    let sides = Sides {
        base_snapshot: snapshot(first),
        ours_snapshot: snapshot(first + 1),
        theirs_snapshot: snapshot(first + 2),
        ..review.sides
    };
    Review { sides, ..review }
}

/// Checks promise 23 in pages of several lengths: the roots of a tenant are its
/// present and earlier heads, its tags, the bases, synced heads and parked files of
/// its workspaces, and the sides of its open reviews.
pub async fn all_snapshots_that_records_need_are_roots(backend: &impl Backend) {
    let catalog = furnished(backend).await;
    let mut expected = [(ALICE, BTreeSet::new()), (BOB, BTreeSet::new())];
    for (t, (tenant, expected)) in (1..).zip(&mut expected) {
        // Some projects have no landings, some have several.
        for n in 0..4 {
            let number = 1000 * (10 * t + n);
            let id = format!("{t}-{n}");
            let mut one = project(*tenant, &id);
            one.head = snapshot(number);
            add_project(&catalog, &one).await;
            let steps: Vec<_> = (1..=n).map(|k| step(snapshot(number + k))).collect();
            if !steps.is_empty() {
                land(&catalog, &one, steps).await;
            }
            expected.extend((0..=n).map(|k| snapshot(number + k)));
            let mut branch = workspace(*tenant, &id, Some(&id));
            (branch.base, branch.synced) = (snapshot(number + 50), snapshot(number + 51));
            branch.files = WorkspaceFiles {
                origin: Some(snapshot(number + 52)),
                base: Some(snapshot(number + 53)),
                home: Some(snapshot(number + 54)),
                limit: None,
            };
            add_workspace(&catalog, &branch).await;
            expected.extend([50, 51, 52, 53, 54].map(|k| snapshot(number + k)));
            let opened = of_sides(review(&one, &id, None, "a"), number + 60);
            let closed = of_sides(review(&one, &(id.clone() + "x"), None, "a"), number + 70);
            open(&catalog, &one, vec![opened, closed]).await;
            let end = ReviewChange::new(ReviewState::Open, ReviewState::Rejected);
            let ended = catalog
                .change_review(*tenant, &id_of(&(id + "x")), &end, at(301))
                .await;
            ended.expect("ended");
            expected.extend([60, 61, 62].map(|k| snapshot(number + k)));
            for (k, name) in [(80, "b"), (81, "a")].into_iter().take(n as usize) {
                let named = tag(&one.id, name, number + k);
                let set = catalog.set_tag(*tenant, &named, false).await;
                set.expect("set");
                expected.insert(named.snapshot);
            }
        }
    }
    for (tenant, expected) in &expected {
        for limit in [1, 2, 5, 6, MAX_PAGE] {
            assert_eq!(&all_roots(&catalog, *tenant, limit).await, expected);
        }
    }
    let unknown = TenantId::new([3; 16]);
    assert!(all_roots(&catalog, unknown, 10).await.is_empty());
    for limit in [0, MAX_PAGE + 1] {
        assert_refused(catalog.roots(ALICE, None, limit).await);
    }
    // A cursor of one tenant shows nothing of that tenant to another.
    let mut after = None;
    loop {
        let page = catalog
            .roots(ALICE, after.as_ref(), 1)
            .await
            .expect("roots");
        let Some(next) = page.next else { break };
        let stranger = catalog.roots(BOB, Some(&next), 10).await.expect("roots");
        for found in stranger.snapshots {
            assert!(expected[1].1.contains(&found));
        }
        after = Some(next);
    }
}
