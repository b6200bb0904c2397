//! The structured drivers with randomly damaged files.

#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

use elevo_merge::{Crdt, Json, Toml, Yaml};
use elevo_testkit::long;

#[path = "structured/fuzz.rs"]
mod fuzz;
#[path = "structured/samples.rs"]
mod samples;

#[test]
fn json_that_is_nearly_right_merges_alike_from_both_sides() {
    let rounds = long::rounds(400_000, 2000);
    fuzz::run(
        &Json,
        samples::JSON,
        "{\"unrelated\": 1}",
        long::seed(),
        rounds,
    );
}

#[test]
fn crdts_that_are_nearly_right_merge_alike_from_both_sides() {
    let rounds = long::rounds(200_000, 1000);
    fuzz::run(
        &Crdt,
        samples::CRDT,
        "{\"unrelated\": 1}",
        long::seed(),
        rounds,
    );
}

#[test]
fn toml_that_is_nearly_right_merges_alike_from_both_sides() {
    let rounds = long::rounds(200_000, 1000);
    fuzz::run(
        &Toml,
        samples::TOML,
        "unrelated = 1\n",
        long::seed(),
        rounds,
    );
}

#[test]
fn yaml_that_is_nearly_right_merges_alike_from_both_sides() {
    let rounds = long::rounds(200_000, 1000);
    fuzz::run(&Yaml, samples::YAML, "unrelated: 1\n", long::seed(), rounds);
}
