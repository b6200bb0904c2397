//! Checks of the policies of projects.

use futures::future::join_all;
use serde_json::json;

use crate::catalog::*;
use crate::conformance::assertions::{assert_changed, assert_not_found, assert_refused};
use crate::conformance::backend::Backend;
use crate::conformance::samples::{
    ALICE, BOB, add_project, at, furnished, get_project, id_of, project,
};
use crate::error::{Error, Kind};
use crate::limits::MAX_POLICY_BYTES;

/// Checks promise 5 through two handles.
pub async fn one_of_several_concurrent_policies_wins(backend: &impl Backend) {
    let handles = [furnished(backend).await, backend.open().await];
    let one = project(ALICE, "a");
    add_project(&handles[0], &one).await;
    for round in 0..4 {
        let tries = (0..8).map(|n| {
            let catalog = &handles[n % 2];
            async move {
                let policy = json!([round, n]);
                let id = id_of("a");
                let set = catalog.set_policy(ALICE, &id, round, &policy, at(101));
                (set.await, policy)
            }
        });
        let mut won = Vec::new();
        for (result, policy) in join_all(tries).await {
            match result {
                Ok(project) => won.push((project.policy_version, policy)),
                Err(Error::Changed { what }) => assert_eq!(what, Kind::Project),
                Err(other) => panic!("{other:?}"),
            }
        }
        assert_eq!(won.len(), 1, "one of them");
        let found = handles[1].policy(ALICE, &id_of("a")).await.expect("policy");
        let found = found.map(|kept| (kept.version, kept.policy));
        assert_eq!(found, won.pop());
        assert_eq!(
            get_project(&handles[0], &one).await.policy_version,
            round + 1
        );
    }
    let policy = json!({});
    let early = handles[0]
        .set_policy(ALICE, &id_of("a"), 5, &policy, at(101))
        .await;
    assert_changed(early, Kind::Project);
    let unknown = handles[0]
        .set_policy(BOB, &id_of("a"), 4, &policy, at(101))
        .await;
    assert_not_found(unknown, Kind::Project);
    let long = json!("x".repeat(MAX_POLICY_BYTES));
    assert_refused(
        handles[0]
            .set_policy(ALICE, &id_of("a"), 4, &long, at(101))
            .await,
    );
}
