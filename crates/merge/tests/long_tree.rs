//! Random trees for a configurable time, and trees of a million files.
#![allow(
    clippy::disallowed_methods,
    reason = "a long test reads its length from the environment"
)]
#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

use elevo_engine::StateTree;
use elevo_testkit::long;
use proptest::strategy::{Strategy as _, ValueTree as _};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

#[path = "tree_support/counting.rs"]
mod counting;
#[path = "tree_support/edits.rs"]
mod edits;
#[path = "tree_support/laws.rs"]
mod laws;
mod tree_support;

use tree_support::*;

#[test]
fn random_edits_keep_the_laws() {
    let mut seed = [0; 32];
    seed[..8].copy_from_slice(&long::seed().to_le_bytes());
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &seed);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    for _ in 0..long::rounds(20_000, 50) {
        let trees = edits::trees().new_tree(&mut runner).unwrap().current();
        let told = format!("{trees:#?}");
        let done = std::panic::catch_unwind(|| {
            laws::all(&trees);
            laws::symmetric(&trees);
            laws::permitted(&trees, &laws::with_renames());
        });
        assert!(done.is_ok(), "{told}");
    }
}

#[test]
fn a_merge_reads_as_much_in_a_tree_of_a_million_files() {
    let (small, large) = (counting::objects_read(10), counting::objects_read(100));
    assert!(large <= 2 * small, "{small} objects, then {large}");
}

#[test]
fn a_directory_of_a_million_files_lands_in_little_memory() {
    let store = std::sync::Arc::new(elevo_engine::MemoryStore::default());
    let big = counting::flat(&World::over(store.clone()), 1_000_000);
    let mut world = World::over(store);
    let tenant = world.repository.tenant();
    // A small cache, so that the measurement covers the memory of the merge.
    let store = world.repository.store().clone();
    world.repository = elevo_engine::Repository::new(store, tenant, 8 << 20);
    let empty = world.snapshot(&Model::new());
    let ours = StateTree::at(&world.repository, &empty);
    // Resets the peak.
    std::fs::write("/proc/self/clear_refs", "5").unwrap();
    let before = peak_kib();
    let merge = How::default().merge(&empty, &ours, &big);
    let grown = peak_kib() - before;
    assert_eq!(
        (merge.landed.len(), merge.landed[0].entries),
        (1, 1_000_000)
    );
    assert!(grown < 64 << 10, "{grown} KiB");
}

fn peak_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status
        .lines()
        .find(|line| line.starts_with("VmHWM"))
        .unwrap();
    let value = line.split_whitespace().nth(1).unwrap();
    value.parse().unwrap()
}
