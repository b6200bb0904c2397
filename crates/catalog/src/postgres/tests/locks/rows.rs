//! Changes of one record that meet: the second one finds the record as the first
//! one has left it.

use elevo_core::SandboxState;

use super::{Gate, Temporary};
use crate::catalog::{Commands, Deliveries, Reviews, Sandboxes, Webhooks, Workspaces};
use crate::change::SandboxChange;
use crate::conformance::samples::{
    ALICE, NO_LIMITS, at, furnished, furnished_with_project, get_review, id_of, of_state, review,
    sandbox, snapshot,
};
use crate::conformance::{note, webhook};
use crate::error::{Error, Kind};
use crate::records::{CommandClaim, ReviewChange, ReviewState, WorkspaceChange};

#[tokio::test]
async fn of_two_changes_of_a_sandbox_that_meet_the_second_finds_the_new_state() {
    let temporary = Temporary::new();
    furnished(&temporary).await.close().await;
    let catalog = temporary.open_patiently().await;
    let one = sandbox(ALICE, "a");
    catalog.add_sandbox(&one, NO_LIMITS).await.unwrap();
    let gate = Gate::close(&temporary, &["sandboxes"]).await;
    let starts = [1, 2].map(|n| SandboxChange {
        from: Some(vec![SandboxState::Starting]),
        container: Some(Some(n.to_string())),
        ..of_state(SandboxState::Running)
    });
    let change = |change| catalog.change_sandbox(ALICE, &one.id, change, at(101));
    let (first, second) = gate.meet(change(&starts[0]), change(&starts[1])).await;
    assert_eq!(first.unwrap().container.as_deref(), Some("1"));
    assert!(
        matches!(second, Err(Error::WrongState { .. })),
        "{second:?}"
    );
}

#[tokio::test]
async fn of_two_changes_of_a_workspace_that_meet_the_second_finds_the_new_base() {
    let temporary = Temporary::new();
    furnished_with_project(&temporary).await.0.close().await;
    let catalog = temporary.open_patiently().await;
    let gate = Gate::close(&temporary, &["workspaces"]).await;
    let moves = [1, 2].map(|n| WorkspaceChange {
        expected: Some((snapshot(0), 0)),
        base: Some(snapshot(n)),
        ..WorkspaceChange::default()
    });
    let id = id_of("w");
    let change = |change| catalog.change_workspace(ALICE, &id, change, at(101));
    let (first, second) = gate.meet(change(&moves[0]), change(&moves[1])).await;
    assert_eq!(first.unwrap().base, snapshot(1));
    assert!(matches!(second, Err(Error::Changed { .. })), "{second:?}");
}

#[tokio::test]
async fn of_two_decisions_on_a_review_that_meet_the_second_finds_it_closed() {
    let temporary = Temporary::new();
    let (catalog, project) = furnished_with_project(&temporary).await;
    catalog.close().await;
    let catalog = temporary.open_patiently().await;
    let gate = Gate::close(&temporary, &["reviews"]).await;
    let ends = [ReviewState::Resolved, ReviewState::Rejected];
    let ends = ends.map(|end| ReviewChange::new(ReviewState::Open, end));
    let known = review(&project, "r", Some("w"), "a/b");
    let decide = |change| catalog.change_review(ALICE, &known.id, change, at(301));
    let (first, second) = gate.meet(decide(&ends[0]), decide(&ends[1])).await;
    first.unwrap();
    assert!(
        matches!(second, Err(Error::Changed { what: Kind::Review })),
        "{second:?}"
    );
    assert_eq!(
        get_review(&catalog, &known).await.state,
        ReviewState::Resolved
    );
}

#[tokio::test]
async fn a_command_is_not_claimed_in_a_sandbox_while_it_is_removed() {
    let temporary = Temporary::new();
    furnished(&temporary).await.close().await;
    let catalog = temporary.open_patiently().await;
    let one = sandbox(ALICE, "a");
    catalog.add_sandbox(&one, NO_LIMITS).await.unwrap();
    // The removal also records an event.
    let gate = Gate::close(&temporary, &["outbox"]).await;
    let claim = CommandClaim {
        sandbox: one.id.clone(),
        id: "command".into(),
        fingerprint: [1; 32],
    };
    let removal = catalog.remove_sandbox(ALICE, &one.id, at(101));
    let (removed, claimed) = gate
        .meet(removal, catalog.claim_command(ALICE, &claim))
        .await;
    assert!(removed.unwrap());
    assert!(
        matches!(
            claimed,
            Err(Error::NotFound {
                what: Kind::Sandbox
            })
        ),
        "{claimed:?}"
    );
}

#[tokio::test]
async fn an_event_is_queued_once_for_a_webhook_that_two_servers_serve_at_once() {
    let temporary = Temporary::new();
    furnished(&temporary).await.close().await;
    let catalog = temporary.open_patiently().await;
    catalog.add_webhook(&webhook("a")).await.unwrap();
    catalog.add_event(&note("a", 1)).await.unwrap();
    let gate = Gate::close(&temporary, &["webhooks"]).await;
    let id = id_of("a");
    let queue = || catalog.queue_deliveries(Some(ALICE), &id, 10, at(200));
    let (first, second) = gate.meet(queue(), queue()).await;
    assert_eq!((first.unwrap(), second.unwrap()), (1, 0));
}
