//! The races of the conformance suite between two processes.
//!
//! `conformance` opens several handles in one process. Here a second process, a
//! [`rival`](elevo_testkit::rival), opens the same catalog, and both make the
//! changes of a [`Race`] at once. Each round checks the promise. Calls of both
//! meet often, but not in every round; `postgres/tests/locks` forces them to.

mod projects;
mod sandboxes;
mod servers;

use elevo_testkit::rival::{Here, Rival};
use serde::Serialize;
use serde::de::DeserializeOwned;

pub(crate) use self::projects::{DropAgainstNeed, Landings, OpenReviews};
pub(crate) use self::sandboxes::{Changes, Limits};
pub(crate) use self::servers::{EventOrder, Leases, Requests, Sessions};
use crate::catalog::Catalog;
use crate::conformance::Backend;
use crate::conformance::samples::furnished;

const ROUNDS: u64 = 20;

/// A backend that a second process can open.
pub(crate) trait Shared: Backend {
    /// Returns the place of the database.
    fn place(&self) -> String;

    /// Opens the catalog at a place.
    async fn open_at(place: &str) -> Self::Catalog;
}

/// Changes that two processes make at once.
pub(crate) trait Race {
    /// The results of the calls of one process.
    type Outcome: Serialize + DeserializeOwned;

    /// Adds the records of a round.
    async fn prepare<C: Catalog>(_catalog: &C, _round: u64) {}

    /// Makes the changes of one process, of which `side` is the number.
    async fn compete<C: Catalog>(catalog: &C, round: u64, side: usize) -> Self::Outcome;

    /// Checks the promise.
    async fn judge<C: Catalog>(catalog: &C, round: u64, outcomes: [Self::Outcome; 2]);
}

/// Runs a race in the process of the test and, with the same code, in the rival
/// that this starts. `test` is the path of the test.
pub(crate) async fn run<B: Shared, R: Race>(test: &str, make: impl FnOnce() -> B) {
    if let Some(mut here) = Here::find() {
        let catalog = B::open_at(here.place()).await;
        while let Some(round) = here.next_round() {
            let outcome = R::compete(&catalog, round, 1).await;
            here.report(&serde_json::to_string(&outcome).unwrap());
        }
        catalog.close().await;
        return;
    }
    let backend = make();
    let catalog = furnished(&backend).await;
    let mut rival = Rival::start(test, &backend.place());
    for round in 0..ROUNDS {
        R::prepare(&catalog, round).await;
        rival.begin(round);
        let own = R::compete(&catalog, round, 0).await;
        let others = serde_json::from_str(&rival.outcome()).unwrap();
        R::judge(&catalog, round, [own, others]).await;
    }
    rival.end();
}

/// Expands to one test for each race.
macro_rules! race_tests {
    ($make:expr) => {
        $crate::races::race_tests! {
            @each $make;
            limits_hold_between_processes Limits
            one_of_the_changes_of_two_processes_wins Changes
            the_landings_of_two_processes_are_a_chain Landings
            either_a_drop_or_a_need_of_another_process_wins DropAgainstNeed
            two_processes_open_one_review_of_a_path OpenReviews
            two_processes_see_all_events_in_one_order EventOrder
            one_of_two_processes_gets_a_lease Leases
            a_request_is_new_in_one_of_two_processes Requests
            the_sessions_of_two_processes_have_different_numbers Sessions
        }
    };
    (@each $make:expr; $($name:ident $race:ident)*) => {
        $(
            #[::tokio::test(flavor = "multi_thread")]
            async fn $name() {
                let path = concat!(module_path!(), "::", stringify!($name));
                let (_, test) = path.split_once("::").expect("the crate comes first");
                $crate::races::run::<_, $crate::races::$race>(test, || $make).await;
            }
        )*
    };
}
pub(crate) use race_tests;
