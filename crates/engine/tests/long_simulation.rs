//! The engine under simulated delays, errors and crashes, ten thousand times.
//! `ELEVO_LONG` scales the number of seeds (see CONTRIBUTING.md), `ELEVO_SEED`
//! is the first one.

mod sim;

use elevo_testkit::long;
use sim::cluster;

#[test]
fn ten_thousand_seeds_run_without_a_fault_of_ours() {
    let first = long::seed();
    let count = long::rounds(10_000, 100);
    let (mut crashes, mut commits) = (0, 0);
    for at in 0..count {
        let outcome = sim::run(first.wrapping_add(at.into()), false);
        crashes += outcome.crashes;
        commits += outcome.commits;
    }
    long::note(format_args!(
        "{count} seeds, {crashes} crashes, {commits} commits"
    ));
}

#[test]
fn ten_thousand_seeds_of_three_stores_run_without_a_fault_of_ours() {
    let first = long::seed();
    let count = long::rounds(10_000, 100);
    let mut all = cluster::Counts::default();
    for at in 0..count {
        all.add(cluster::run(first.wrapping_add(at.into()), false, None).counts);
    }
    long::note(format_args!("{count} seeds of three stores, {all:?}"));
}
