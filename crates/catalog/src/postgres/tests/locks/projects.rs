//! Changes of one project and its records that meet.

use serde_json::json;

use super::{Gate, Temporary};
use crate::catalog::{Landings, Policies, Projects, Reviews, VersionRetention, Workspaces};
use crate::conformance::samples::{
    ALICE, at, furnished_with_project, get_project, get_review, id_of, land, landing, review,
    snapshot, step, supersede,
};
use crate::error::{Error, Kind};
use crate::postgres::PostgresCatalog;
use crate::records::{
    Project, ProjectChange, Retention, ReviewChange, ReviewState, Step, WorkspaceChange,
    WorkspaceState,
};

/// Opens a catalog with the sample project.
async fn with_project(temporary: &Temporary) -> (PostgresCatalog, Project) {
    let (catalog, project) = furnished_with_project(temporary).await;
    catalog.close().await;
    (temporary.open_patiently().await, project)
}

/// Opens a catalog with a project whose versions 0 to 2 have no record that
/// needs them, and which keeps none of them.
async fn with_unneeded_versions(temporary: &Temporary) -> (PostgresCatalog, Project) {
    let (catalog, project) = with_project(temporary).await;
    for n in 1..=3 {
        land(&catalog, &project, vec![step(snapshot(n))]).await;
    }
    let retention = ProjectChange {
        retention: Some(Retention::Named),
        ..ProjectChange::default()
    };
    let changed = catalog.change_project(ALICE, &project.id, &retention, at(300));
    let project = changed.await.unwrap();
    close(&catalog, ReviewState::Rejected).await;
    catalog
        .change_workspace(ALICE, &id_of("w"), &based_on(3), at(300))
        .await
        .unwrap();
    (catalog, project)
}

/// Closes the review of the sample project.
async fn close(catalog: &PostgresCatalog, end: ReviewState) {
    let (id, change) = (id_of("r"), ReviewChange::new(ReviewState::Open, end));
    let closed = catalog.change_review(ALICE, &id, &change, at(300));
    closed.await.unwrap();
}

/// Bases a workspace on a version.
fn based_on(n: u64) -> WorkspaceChange {
    WorkspaceChange {
        base: Some(snapshot(n)),
        synced: Some(snapshot(n)),
        ..WorkspaceChange::default()
    }
}

#[tokio::test]
async fn of_two_landings_that_meet_the_second_finds_the_moved_head() {
    let temporary = Temporary::new();
    let (catalog, project) = with_project(&temporary).await;
    let gate = Gate::close(&temporary, &["landings"]).await;
    let [one, two] = [1, 2].map(|n| landing(&project, snapshot(0), vec![step(snapshot(n))]));
    let (one, two) = gate.meet(catalog.land(&one), catalog.land(&two)).await;
    assert_eq!(one.unwrap().head, snapshot(1));
    let is_moved =
        matches!(two, Err(Error::HeadMoved { head, sequence: 1 }) if head == snapshot(1));
    assert!(is_moved, "{two:?}");
}

#[tokio::test]
async fn of_two_policies_that_meet_the_second_finds_the_new_version() {
    let temporary = Temporary::new();
    let (catalog, project) = with_project(&temporary).await;
    let gate = Gate::close(&temporary, &["policies"]).await;
    let policies = [json!([1]), json!([2])];
    let set = |policy| catalog.set_policy(ALICE, &project.id, 0, policy, at(300));
    let (one, two) = gate.meet(set(&policies[0]), set(&policies[1])).await;
    assert_eq!(one.unwrap().policy_version, 1);
    let what = Kind::Project;
    assert!(
        matches!(&two, Err(Error::Changed { what: it }) if *it == what),
        "{two:?}"
    );
    let policy = catalog.policy(ALICE, &project.id).await.unwrap().unwrap();
    assert_eq!(policy.policy, policies[0]);
}

/// Neither has locked the row of the other's workspace.
#[tokio::test]
async fn a_workspace_does_not_come_alive_while_the_removal_of_its_project_begins() {
    let temporary = Temporary::new();
    let (catalog, project) = with_project(&temporary).await;
    let live = WorkspaceChange {
        state: Some(WorkspaceState::Live),
        ..WorkspaceChange::default()
    };
    let gate = Gate::close(&temporary, &["projects"]).await;
    let removal = catalog.begin_removal(ALICE, &project.id, at(300));
    let (id, now) = (id_of("w"), at(300));
    let change = catalog.change_workspace(ALICE, &id, &live, now);
    let (removal, change) = gate.meet(removal, change).await;
    assert!(removal.unwrap().removing);
    assert!(
        matches!(change, Err(Error::BeingRemoved { .. })),
        "{change:?}"
    );
}

#[tokio::test]
async fn a_workspace_does_not_come_to_need_a_version_while_it_is_dropped() {
    let temporary = Temporary::new();
    let (catalog, project) = with_unneeded_versions(&temporary).await;
    let gate = Gate::close(&temporary, &["dropped_versions"]).await;
    let (id, wish, versions) = (id_of("w"), based_on(1), [snapshot(1)]);
    let drop = catalog.drop_versions(&project, &versions, at(400));
    let change = catalog.change_workspace(ALICE, &id, &wish, at(400));
    let (dropped, changed) = gate.meet(drop, change).await;
    assert_eq!(dropped.unwrap(), versions);
    let is_dropped = matches!(changed, Err(Error::Dropped { snapshot: it }) if it == snapshot(1));
    assert!(is_dropped, "{changed:?}");
}

#[tokio::test]
async fn a_version_is_not_dropped_while_a_workspace_comes_to_need_it() {
    let temporary = Temporary::new();
    let (catalog, project) = with_unneeded_versions(&temporary).await;
    let gate = Gate::close(&temporary, &["workspaces"]).await;
    let (id, wish, versions) = (id_of("w"), based_on(1), [snapshot(1)]);
    let change = catalog.change_workspace(ALICE, &id, &wish, at(400));
    let drop = catalog.drop_versions(&project, &versions, at(400));
    let (changed, dropped) = gate.meet(change, drop).await;
    assert_eq!(changed.unwrap().base, snapshot(1));
    assert_eq!(dropped.unwrap(), []);
}

/// A landing and the reopening of a review have no row in common.
#[tokio::test]
async fn of_two_reviews_of_a_path_that_open_at_once_one_stays_closed() {
    let temporary = Temporary::new();
    let (catalog, project) = with_project(&temporary).await;
    close(&catalog, ReviewState::Expired).await;
    let again = ReviewChange::new(ReviewState::Expired, ReviewState::Open);
    let opens = Step {
        opens: vec![review(&project, "s", Some("w"), "a/b")],
        ..step(project.head)
    };
    let landing = landing(&project, project.head, vec![opens]);
    let gate = Gate::close(&temporary, &["reviews"]).await;
    let id = id_of("r");
    let reopening = catalog.change_review(ALICE, &id, &again, at(301));
    let (reopened, landed) = gate.meet(reopening, catalog.land(&landing)).await;
    assert_eq!(reopened.unwrap().state, ReviewState::Open);
    assert!(
        matches!(landed, Err(Error::Exists { what: Kind::Review })),
        "{landed:?}"
    );
}

/// The landing has read the review when the decision commits.
#[tokio::test]
async fn a_landing_does_not_replace_a_decision_that_it_meets() {
    let temporary = Temporary::new();
    let (catalog, project) = with_project(&temporary).await;
    let known = review(&project, "r", Some("w"), "a/b");
    let closes = Step {
        reviews: vec![supersede("r", "s")],
        opens: vec![review(&project, "s", Some("w"), "a/b")],
        ..step(project.head)
    };
    let landing = landing(&project, project.head, vec![closes]);
    let rejected = ReviewChange::new(ReviewState::Open, ReviewState::Rejected);
    let gate = Gate::close(&temporary, &["reviews"]).await;
    let decision = catalog.change_review(ALICE, &known.id, &rejected, at(301));
    let (decision, landed) = gate.meet(decision, catalog.land(&landing)).await;
    assert_eq!(decision.unwrap().state, ReviewState::Rejected);
    assert!(
        matches!(landed, Err(Error::Changed { what: Kind::Review })),
        "{landed:?}"
    );
    assert_eq!(
        get_review(&catalog, &known).await.state,
        ReviewState::Rejected
    );
    assert_eq!(get_project(&catalog, &project).await, project);
}
