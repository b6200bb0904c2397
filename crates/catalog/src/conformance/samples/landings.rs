//! Sample landings.

use serde_json::json;

use super::projects::{
    add_project, add_workspace, added, get_project, move_base, open, project, review, snapshot,
    step, whole_log, workspace,
};
use super::tenants::{AGENT, ALICE, furnished, id_of};
use crate::catalog::Catalog;
use crate::conformance::backend::Backend;
use crate::records::{LandingKind, LogEntry, Project, ReviewChange, ReviewState, ReviewStep, Step};

pub(crate) fn supersede(id: &str, by: &str) -> ReviewStep {
    ReviewStep {
        id: id_of(id),
        change: ReviewChange {
            successor: Some(id_of(by)),
            ..ReviewChange::new(ReviewState::Open, ReviewState::Superseded)
        },
    }
}

/// Adds a project `p` with a workspace `w` and an open review `r` of `a/b`.
pub(crate) async fn furnished_with_project<P: Backend>(backend: &P) -> (P::Catalog, Project) {
    let catalog = furnished(backend).await;
    let one = project(ALICE, "p");
    add_project(&catalog, &one).await;
    add_workspace(&catalog, &workspace(ALICE, "w", Some("p"))).await;
    open(&catalog, &one, vec![review(&one, "r", Some("w"), "a/b")]).await;
    (catalog, one)
}

/// A step with a value in every field.
pub(crate) fn full_step(one: &Project) -> Step {
    Step {
        kind: LandingKind::Resolve,
        agent: Some(id_of(AGENT)),
        workspace: Some(id_of("w")),
        message: "why\nnot".into(),
        request: Some("request".into()),
        counts: json!({ "added": 2 }),
        changes: vec![added("b", 1), added("a", 2)],
        reviews: vec![supersede("r", "s")],
        opens: vec![review(one, "s", Some("w"), "a/b")],
        base: move_base(0, 9),
        ..step(snapshot(1))
    }
}

/// Checks the chain and returns the log, oldest first.
///
/// A call that was dropped can still land while this reads: a database may have
/// its statement already. So the log is read until the project is the same
/// before and after.
pub(crate) async fn assert_chain(catalog: &impl Catalog, one: &Project) -> Vec<LogEntry> {
    let mut now = get_project(catalog, one).await;
    let mut log = loop {
        let log = whole_log(catalog, one).await;
        let after = get_project(catalog, one).await;
        if after == now {
            break log;
        }
        now = after;
    };
    log.reverse();
    let mut head = one.head;
    for (n, entry) in (1..).zip(&log) {
        assert_eq!((entry.sequence, entry.parent), (n, head));
        head = entry.snapshot;
    }
    assert_eq!((now.head, now.sequence), (head, log.len() as u64));
    log
}
