//! The engine under simulated delays, errors and crashes, a few hundred times.
//! `ELEVO_SEED` runs one seed and prints its events.

#![allow(
    clippy::disallowed_methods,
    reason = "a seed comes from the environment"
)]

mod sim;

use std::collections::HashSet;
use std::env;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Once;
use std::thread;

use elevo_testkit::long;
use sim::cluster::{self, Rule};

/// Number of seeds; they take some seconds.
const SEEDS: u64 = 200;
/// Number of seeds of three stores.
const CLUSTER_SEEDS: u64 = 150;
/// Number of seeds that may pass without a rule.
const MUTANT_SEEDS: u64 = 1000;
/// Name of the threads whose panics are expected.
const MUTANT: &str = "mutant";

fn seed() -> Option<u64> {
    let seed = env::var("ELEVO_SEED").ok()?;
    Some(seed.parse().expect("a number"))
}

#[test]
fn a_seed_or_some_hundred_run_without_a_fault_of_ours() {
    if let Some(seed) = seed() {
        sim::run(seed, true);
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

#[test]
fn three_stores_run_without_a_fault_of_ours() {
    if let Some(seed) = seed() {
        cluster::run(seed, true, None);
        return;
    }
    let mut all = cluster::Counts::default();
    for seed in 0..CLUSTER_SEEDS {
        all.add(cluster::run(seed, false, None).counts);
    }
    println!("{CLUSTER_SEEDS} seeds of three stores, {all:?}");
    assert!(all.commits > 2000 && all.collections > 200, "{all:?}");
    assert!(all.swept > 2000 && all.vetoes > 20, "{all:?}");
    assert!(all.lost > 10, "{all:?}");
}

#[test]
fn a_seed_of_three_stores_is_the_same_run_every_time() {
    let mut traces = HashSet::new();
    for seed in 0..20 {
        let first = cluster::run(seed, false, None);
        assert_eq!(cluster::run(seed, false, None), first, "seed {seed}");
        assert!(traces.insert(first.trace), "seed {seed}");
    }
}

#[test]
fn without_seen_a_fault_is_found() {
    assert_fault_without(Rule::Seen);
}

#[test]
fn without_the_wait_for_sessions_a_fault_is_found() {
    assert_fault_without(Rule::Sessions);
}

#[test]
fn without_the_shared_locks_a_fault_is_found() {
    assert_fault_without(Rule::SharedLocks);
}

#[test]
fn without_vetoes_a_fault_is_found() {
    assert_fault_without(Rule::Vetoes);
}

#[test]
fn without_the_acknowledgement_of_openings_a_fault_is_found() {
    assert_fault_without(Rule::Acknowledgement);
}

#[test]
fn without_the_memory_of_holds_a_fault_is_found() {
    assert_fault_without(Rule::Memory);
}

/// Runs seeds without a rule until one of them fails.
fn assert_fault_without(rule: Rule) {
    silence_mutants();
    let find = move || (0..MUTANT_SEEDS).find(|seed| fails(*seed, rule));
    let mutant = thread::Builder::new().name(MUTANT.into()).spawn(find);
    let found = mutant.expect("a thread").join().expect("no panic is left");
    long::note(format_args!("without {rule:?}: seed {found:?} fails"));
    assert!(found.is_some(), "nothing fails without {rule:?}");
}

fn fails(seed: u64, rule: Rule) -> bool {
    let run = AssertUnwindSafe(|| cluster::run(seed, false, Some(rule)));
    panic::catch_unwind(run).is_err()
}

/// Prints no panics of threads that are expected to.
fn silence_mutants() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let hook = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if thread::current().name() != Some(MUTANT) {
                hook(info);
            }
        }));
    });
}
