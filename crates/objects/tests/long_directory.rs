//! One directory of a million names, edited a thousand times.

#![allow(
    clippy::disallowed_methods,
    reason = "a long test reads its length from the environment"
)]

#[path = "format/forest.rs"]
#[allow(dead_code, reason = "shared with the test of the format")]
mod forest;
#[path = "format/samples.rs"]
#[allow(dead_code, reason = "shared with the test of the format")]
mod samples;

use std::collections::BTreeMap;

use forest::{Changes, Forest};
use samples::{file, name, noise};

/// Returns `full` rounds, scaled by the length set in the environment.
fn rounds(full: u64) -> u64 {
    let length = std::env::var("ELEVO_LONG").expect("ELEVO_LONG is not set: run scripts/soak");
    let length: f64 = length.parse().expect("ELEVO_LONG is a number");
    ((full as f64 * length) as u64).max(1)
}

#[test]
fn an_edit_among_a_million_names_makes_a_few_small_nodes() {
    let count = rounds(1_000_000).max(1000);
    let mut model: BTreeMap<_, _> = (0..count)
        .map(|number| name(format!("file-{number:07}")))
        .map(|name| (name.clone(), file(name, 0)))
        .collect();
    let mut forest = Forest::new();
    let mut root = forest.build(model.values().cloned()).expect("names");
    forest.take_made();

    let mut costs = Vec::new();
    for round in 1..=rounds(1000) {
        let draw = noise(round, 16);
        let number = draw[..8]
            .iter()
            .fold(0, |sum, byte| sum << 8 | u64::from(*byte))
            % count;
        let existing = name(format!("file-{number:07}"));
        let change = match draw[8] % 3 {
            0 => (existing, None),
            1 => (existing.clone(), Some(file(existing, round))),
            _ => {
                let new = name(format!("file-{number:07}-{round}"));
                (new.clone(), Some(file(new, round)))
            }
        };
        let edit = Changes(BTreeMap::from([change]));
        edit.apply_to(&mut model);
        root = forest.edit(&root, &edit).expect("names are left");
        let made = forest.take_made();
        assert!(
            made.len() <= 3 * (usize::from(root.height) + 1),
            "{} nodes",
            made.len()
        );
        costs.push(made.iter().sum::<usize>());
    }
    assert_eq!(Some(root), Forest::new().build(model.into_values()));

    costs.sort_unstable();
    let median = costs[costs.len() / 2];
    println!(
        "an edit makes {median} bytes of nodes, at most {}",
        costs[costs.len() - 1]
    );
    assert!(median <= 20_000, "median of {median} bytes");
}
