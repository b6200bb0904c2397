//! A few merges of randomly damaged files with each driver.

use elevo_merge::{Crdt, Json, Toml, Yaml};

use crate::{fuzz, samples};

#[test]
fn files_that_are_nearly_right_merge_alike_from_both_sides() {
    fuzz::run(&Json, samples::JSON, "{\"unrelated\": 1}", 1, 1000);
    fuzz::run(&Crdt, samples::CRDT, "{\"unrelated\": 1}", 1, 500);
    fuzz::run(&Toml, samples::TOML, "unrelated = 1\n", 1, 500);
    fuzz::run(&Yaml, samples::YAML, "unrelated: 1\n", 1, 500);
}
