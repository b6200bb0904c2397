//! Checks of changes to sandboxes.

use elevo_core::{SandboxState, Timestamp};
use futures::future::{join, join_all};
use serde_json::json;

use crate::catalog::*;
use crate::change::SandboxChange;
use crate::conformance::assertions::{assert_not_found, assert_refused};
use crate::conformance::backend::Backend;
use crate::conformance::samples::{
    ALICE, add, at, furnished, get, id_of, of_state, pairs, removing, sandbox,
};
use crate::error::{Error, Kind};
use crate::limits::{MAX_REASON_BYTES, MAX_SPEC_BYTES};
use crate::nodes::NodeId;
use crate::records::{Sandbox, SandboxFailure};

/// Also checks that the call returns the changed sandbox.
pub async fn a_change_sets_only_the_given_fields(backend: &impl Backend) {
    let catalog = furnished(backend).await;
    let before = sandbox(ALICE, "a");
    add(&catalog, &before).await;
    let nothing = SandboxChange::default();
    let changed = catalog
        .change_sandbox(ALICE, &id_of("a"), &nothing, at(101))
        .await;
    let untouched = Sandbox {
        updated: at(101),
        ..before.clone()
    };
    assert_eq!(changed.expect("nothing to do"), untouched);
    let everything = SandboxChange {
        from: Some(vec![SandboxState::Stopped, SandboxState::Starting]),
        generation: Some(1),
        to: Some(SandboxState::Running),
        reason: Some(Some("\0".repeat(MAX_REASON_BYTES + 1))),
        failure: Some(SandboxFailure::AgentLost),
        name: Some(Some("new".into())),
        container: Some(Some("c0ffee".into())),
        workspace: Some(id_of("another")),
        expires: Some(Timestamp::new(2000, 1_999).expect("a time")),
        token_hash: Some([8; 32]),
        removing: Some(false),
        keep_workspace: Some(true),
        started_before: Some(true),
        node: Some(NodeId(2)),
        spec: Some(json!({})),
        metadata: Some(pairs(&[("a", "1"), ("b", "2")])),
        tells: Vec::new(),
    };
    let changed = catalog
        .change_sandbox(ALICE, &id_of("a"), &everything, at(102))
        .await;
    let changed = changed.expect("it was starting");
    let expected = Sandbox {
        state: SandboxState::Running,
        reason: Some("?".repeat(MAX_REASON_BYTES)),
        name: Some("new".into()),
        container: Some("c0ffee".into()),
        workspace: id_of("another"),
        expires: Timestamp::new(2000, 1_000).expect("a time"),
        token_hash: [8; 32],
        updated: at(102),
        keep_workspace: true,
        started_before: true,
        node: NodeId(2),
        generation: 2,
        spec: json!({}),
        metadata: pairs(&[("a", "1"), ("b", "2")]),
        ..before
    };
    assert_eq!(changed, expected);
    assert_eq!(get(&catalog, "a").await, Some(expected));
    let emptied = SandboxChange {
        reason: Some(None),
        name: Some(None),
        container: Some(None),
        ..SandboxChange::default()
    };
    let changed = catalog
        .change_sandbox(ALICE, &id_of("a"), &emptied, at(103))
        .await;
    let changed = changed.expect("it exists");
    let rest = (changed.reason, changed.name, changed.container);
    assert_eq!(rest, (None, None, None));
}

/// A change of other fields keeps the kind.
pub async fn the_kind_of_a_failure_lasts_until_the_next_state(backend: &impl Backend) {
    let catalog = furnished(backend).await;
    add(&catalog, &sandbox(ALICE, "a")).await;
    let lost = Some(SandboxFailure::AgentLost);
    let failing = SandboxChange {
        failure: lost,
        ..of_state(SandboxState::Error)
    };
    for (change, expected) in [
        (failing, lost),
        (SandboxChange::default(), lost),
        (of_state(SandboxState::Starting), None),
        (of_state(SandboxState::Error), None),
    ] {
        let changed = catalog
            .change_sandbox(ALICE, &id_of("a"), &change, at(101))
            .await;
        assert_eq!(changed.expect("a legal change").failure, expected);
        let found = get(&catalog, "a").await.expect("it exists");
        assert_eq!(found.failure, expected);
    }
}

/// Checks promise 6 for each pair of states.
pub async fn a_state_changes_only_as_allowed(backend: &impl Backend) {
    let catalog = furnished(backend).await;
    for is in SandboxState::ALL {
        for to in SandboxState::ALL {
            let mut one = sandbox(ALICE, &format!("{is}-{to}"));
            one.state = is;
            add(&catalog, &one).await;
            let changed = catalog
                .change_sandbox(ALICE, &one.id, &of_state(to), at(101))
                .await;
            match changed {
                Ok(changed) if is.can_become(to) => assert_eq!(changed.state, to),
                Err(Error::WrongState { is: found }) if !is.can_become(to) => {
                    assert_eq!(found, is);
                    assert_eq!(get(&catalog, &one.id).await, Some(one));
                }
                other => panic!("{is} to {to}: {other:?}"),
            }
        }
    }
}

/// Checks wrong states, unknown sandboxes and values out of bounds.
pub async fn an_unexpected_change_changes_nothing(backend: &impl Backend) {
    let catalog = furnished(backend).await;
    let before = sandbox(ALICE, "a");
    add(&catalog, &before).await;
    for from in [vec![], vec![SandboxState::Running, SandboxState::Error]] {
        let change = SandboxChange {
            from: Some(from),
            reason: Some(Some("why".into())),
            ..SandboxChange::default()
        };
        match catalog
            .change_sandbox(ALICE, &id_of("a"), &change, at(101))
            .await
        {
            Err(Error::WrongState { is }) => assert_eq!(is, SandboxState::Starting),
            other => panic!("expected `WrongState`, got {other:?}"),
        }
        let unknown = catalog
            .change_sandbox(ALICE, &id_of("b"), &change, at(101))
            .await;
        assert_not_found(unknown, Kind::Sandbox);
    }
    let long = SandboxChange {
        spec: Some("x".repeat(MAX_SPEC_BYTES).into()),
        ..of_state(SandboxState::Running)
    };
    let unnamed = SandboxChange {
        name: Some(Some(String::new())),
        ..of_state(SandboxState::Running)
    };
    for change in [long, unnamed] {
        assert_refused(
            catalog
                .change_sandbox(ALICE, &id_of("a"), &change, at(101))
                .await,
        );
    }
    let never = Timestamp::new(i64::MAX, 0).expect("a time");
    let change = of_state(SandboxState::Running);
    assert_refused(
        catalog
            .change_sandbox(ALICE, &id_of("a"), &change, never)
            .await,
    );
    assert_eq!(get(&catalog, "a").await, Some(before));
}

/// Promise 6: the removal cannot be undone, and the sandbox can only stop.
pub async fn a_sandbox_that_is_being_removed_cannot_start(backend: &impl Backend) {
    let catalog = furnished(backend).await;
    add(&catalog, &sandbox(ALICE, "a")).await;
    let change = async |change: SandboxChange| {
        catalog
            .change_sandbox(ALICE, &id_of("a"), &change, at(101))
            .await
    };
    for _ in 0..2 {
        let marked = change(removing()).await.expect("marked, also twice");
        assert!(marked.removing);
    }
    let back = SandboxChange {
        removing: Some(false),
        ..SandboxChange::default()
    };
    for refused in [back, of_state(SandboxState::Running)] {
        let changed = change(refused).await;
        assert!(matches!(changed, Err(Error::Removing)), "{changed:?}");
    }
    for state in [SandboxState::Stopping, SandboxState::Stopped] {
        let stopped = change(of_state(state)).await.expect("it may stop");
        assert!(stopped.removing);
    }
    let again = change(of_state(SandboxState::Starting)).await;
    assert!(matches!(again, Err(Error::Removing)), "{again:?}");
}

/// Checks promise 5 through two handles.
pub async fn one_of_several_concurrent_changes_wins(backend: &impl Backend) {
    let handles = [furnished(backend).await, backend.open().await];
    add(&handles[0], &sandbox(ALICE, "a")).await;
    let path = [
        SandboxState::Running,
        SandboxState::Stopped,
        SandboxState::Starting,
    ];
    for round in 0..6 {
        let is = path[(round + 2) % 3];
        let tries = (0..32).map(|n| {
            let change = SandboxChange {
                from: Some(vec![is]),
                container: Some(Some(format!("{round}-{n}"))),
                ..of_state(path[round % 3])
            };
            let catalog = &handles[n % 2];
            async move {
                catalog
                    .change_sandbox(ALICE, &id_of("a"), &change, at(101))
                    .await
            }
        });
        let mut won = Vec::new();
        for result in join_all(tries).await {
            match result {
                Ok(sandbox) => won.push(sandbox),
                Err(Error::WrongState { .. }) => {}
                Err(other) => panic!("{other:?}"),
            }
        }
        assert_eq!(won.len(), 1, "one of them");
        assert_eq!(get(&handles[1], "a").await, won.pop());
    }
}

/// A change does not overwrite a concurrent change of another field.
pub async fn concurrent_changes_of_different_fields_all_apply(backend: &impl Backend) {
    let (one, two) = (furnished(backend).await, backend.open().await);
    add(&one, &sandbox(ALICE, "a")).await;
    let reasons = async {
        for n in 0..20 {
            let change = SandboxChange {
                reason: Some(Some(n.to_string())),
                ..SandboxChange::default()
            };
            let changed = one
                .change_sandbox(ALICE, &id_of("a"), &change, at(101))
                .await;
            assert_eq!(changed.expect("change").reason, Some(n.to_string()));
        }
    };
    let containers = async {
        for n in 0..20 {
            let change = SandboxChange {
                container: Some(Some(n.to_string())),
                ..SandboxChange::default()
            };
            let changed = two
                .change_sandbox(ALICE, &id_of("a"), &change, at(101))
                .await;
            assert_eq!(changed.expect("change").container, Some(n.to_string()));
        }
    };
    join(reasons, containers).await;
    let last = get(&one, "a").await.expect("it exists");
    assert_eq!(
        (last.reason.as_deref(), last.container.as_deref()),
        (Some("19"), Some("19"))
    );
}
