//! The engine under simulated delays, errors and crashes, a few hundred times.
//! `ELEVO_SEED` runs one seed and prints its events.

#![allow(
    clippy::disallowed_methods,
    reason = "a seed comes from the environment"
)]

mod sim;

use std::collections::HashSet;
use std::env;

/// Number of seeds; they take some seconds.
const SEEDS: u64 = 200;

#[test]
fn a_seed_or_some_hundred_run_without_a_fault_of_ours() {
    if let Ok(seed) = env::var("ELEVO_SEED") {
        sim::run(seed.parse().expect("a number"), true);
        return;
    }
    let (mut crashes, mut commits) = (0, 0);
    for seed in 0..SEEDS {
        let outcome = sim::run(seed, false);
        crashes += outcome.crashes;
        commits += outcome.commits;
    }
    println!("{SEEDS} seeds, {crashes} crashes, {commits} commits");
    assert!(crashes > 100 && commits > 2000, "{crashes}, {commits}");
}

#[test]
fn a_seed_is_the_same_run_every_time_and_no_other_is() {
    let mut traces = HashSet::new();
    for seed in 0..20 {
        let first = sim::run(seed, false);
        assert_eq!(sim::run(seed, false), first, "seed {seed}");
        assert!(traces.insert(first.trace), "seed {seed}");
    }
}
