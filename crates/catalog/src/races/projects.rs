//! Changes of a project and its records.

use futures::future::{join, join_all};

use super::Race;
use crate::catalog::Catalog;
use crate::conformance::samples::{
    ALICE, add_project, add_workspace, assert_chain, at, get_project, id_of, landing, project,
    review, snapshot, step, workspace,
};
use crate::error::{Error, Kind};
use crate::records::{Project, Retention, ReviewQuery, ReviewState, Step, WorkspaceChange};

/// Adds the project of a round.
async fn add_project_of(catalog: &impl Catalog, round: u64) -> Project {
    let one = project_of(round);
    add_project(catalog, &one).await;
    one
}

fn project_of(round: u64) -> Project {
    project(ALICE, &format!("p{round}"))
}

/// Promises 11 and 12: landings are a chain, in which each acknowledged landing
/// has its place.
pub(crate) struct Landings;

impl Race for Landings {
    /// The sequence number of each landing, and the number of its snapshot.
    type Outcome = Vec<(u64, u64)>;

    async fn prepare<C: Catalog>(catalog: &C, round: u64) {
        add_project_of(catalog, round).await;
    }

    async fn compete<C: Catalog>(catalog: &C, round: u64, side: usize) -> Vec<(u64, u64)> {
        let one = &project_of(round);
        let writers = (0..2).map(|writer| async move {
            let (mut landed, mut head) = (Vec::new(), one.head);
            for n in 1..=3 {
                let number = 100 * (2 * side as u64 + writer + 1) + n;
                let steps = vec![step(snapshot(number))];
                loop {
                    match catalog.land(&landing(one, head, steps.clone())).await {
                        Ok(done) => {
                            landed.push((done.sequence, number));
                            head = done.head;
                            break;
                        }
                        Err(Error::HeadMoved { head: now, .. }) => head = now,
                        Err(other) => panic!("{other:?}"),
                    }
                }
            }
            landed
        });
        join_all(writers).await.concat()
    }

    async fn judge<C: Catalog>(catalog: &C, round: u64, outcomes: [Vec<(u64, u64)>; 2]) {
        let mut acknowledged = outcomes.concat();
        acknowledged.sort_unstable();
        let expected = acknowledged.iter().map(|(n, it)| (*n, snapshot(*it)));
        let log = assert_chain(catalog, &project_of(round)).await;
        let log = log.iter().map(|entry| (entry.sequence, entry.snapshot));
        assert_eq!(log.collect::<Vec<_>>(), expected.collect::<Vec<_>>());
    }
}

/// Promise 16: a version is either dropped or needed.
pub(crate) struct DropAgainstNeed;

/// Number of versions that are dropped, or come to be needed, in a round.
const VERSIONS: u64 = 6;

impl Race for DropAgainstNeed {
    /// The versions that workspaces came to need, and those that were dropped.
    type Outcome = (Vec<u64>, Vec<u64>);

    async fn prepare<C: Catalog>(catalog: &C, round: u64) {
        let one = Project {
            retention: Retention::Named,
            ..project_of(round)
        };
        add_project(catalog, &one).await;
        let steps = (1..=VERSIONS).map(|n| step(snapshot(n))).collect();
        let landed = catalog.land(&landing(&one, one.head, steps)).await;
        let head = landed.unwrap().head;
        for n in 0..VERSIONS {
            let mut based = workspace(ALICE, &format!("{round}-{n}"), Some(one.id.as_str()));
            (based.base, based.synced) = (head, head);
            add_workspace(catalog, &based).await;
        }
    }

    // Each process drops the versions that the other one comes to need.
    async fn compete<C: Catalog>(catalog: &C, round: u64, side: usize) -> (Vec<u64>, Vec<u64>) {
        let one = &get_project(catalog, &project_of(round)).await;
        let of = |side: usize| (0..VERSIONS).filter(move |n| *n as usize % 2 == side);
        let needs = of(side).map(|n| async move {
            let change = WorkspaceChange {
                base: Some(snapshot(n)),
                synced: Some(snapshot(n)),
                ..WorkspaceChange::default()
            };
            let id = id_of(&format!("{round}-{n}"));
            match catalog.change_workspace(ALICE, &id, &change, at(400)).await {
                Ok(_) => Some(n),
                Err(Error::Dropped { .. }) => None,
                Err(other) => panic!("{other:?}"),
            }
        });
        let drops = of(1 - side).map(|n| async move {
            let dropped = catalog.drop_versions(one, &[snapshot(n)], at(400)).await;
            (!dropped.unwrap().is_empty()).then_some(n)
        });
        let (needed, dropped) = join(join_all(needs), join_all(drops)).await;
        let some = |found: Vec<Option<u64>>| found.into_iter().flatten().collect();
        (some(needed), some(dropped))
    }

    async fn judge<C: Catalog>(_: &C, _: u64, outcomes: [(Vec<u64>, Vec<u64>); 2]) {
        let [(needed, dropped), (needed_there, dropped_there)] = outcomes;
        let mut all = [needed, dropped, needed_there, dropped_there].concat();
        all.sort_unstable();
        assert_eq!(all, (0..VERSIONS).collect::<Vec<_>>(), "each version once");
    }
}

/// Promise 15: a workspace has one open review of a path.
pub(crate) struct OpenReviews;

const PATHS: usize = 4;

impl Race for OpenReviews {
    /// Whether the review of each path was opened.
    type Outcome = Vec<bool>;

    async fn prepare<C: Catalog>(catalog: &C, round: u64) {
        let one = add_project_of(catalog, round).await;
        let id = format!("w{round}");
        add_workspace(catalog, &workspace(ALICE, &id, Some(one.id.as_str()))).await;
    }

    async fn compete<C: Catalog>(catalog: &C, round: u64, side: usize) -> Vec<bool> {
        let (one, workspace) = (&project_of(round), &format!("w{round}"));
        let opens = (0..PATHS).map(|path| async move {
            let id = format!("{round}-{side}-{path}");
            let held = Step {
                opens: vec![review(
                    one,
                    &id,
                    Some(workspace.as_str()),
                    &path.to_string(),
                )],
                ..step(one.head)
            };
            match catalog.land(&landing(one, one.head, vec![held])).await {
                Ok(_) => true,
                Err(Error::Exists { what: Kind::Review }) => false,
                Err(other) => panic!("{other:?}"),
            }
        });
        join_all(opens).await
    }

    async fn judge<C: Catalog>(catalog: &C, round: u64, [one, other]: [Vec<bool>; 2]) {
        for (path, (one, other)) in one.into_iter().zip(other).enumerate() {
            assert_ne!(one, other, "path {path}");
        }
        let query = ReviewQuery {
            project: Some(project_of(round).id),
            state: Some(ReviewState::Open),
            ..ReviewQuery::of(ALICE)
        };
        let open = catalog.reviews(&query).await.unwrap();
        assert_eq!(open.total, PATHS as u64);
    }
}
