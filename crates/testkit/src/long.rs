//! Sets the length and the seed of long tests.

use std::env;
use std::fmt::Display;
use std::time::{SystemTime, UNIX_EPOCH};

/// Returns `rounds` times `ELEVO_LONG`, but at least `least`. Panics if the
/// variable `ELEVO_LONG` is not set, because the length of a long test must be
/// explicit.
pub fn rounds(rounds: u32, least: u32) -> u32 {
    let length = env::var("ELEVO_LONG").expect("ELEVO_LONG is not set: run scripts/soak");
    let length: f64 = length.parse().expect("ELEVO_LONG is a number");
    assert!(length > 0.0 && length.is_finite(), "ELEVO_LONG={length}");
    ((f64::from(rounds) * length).round() as u32).max(least)
}

/// Returns the seed of this run: the variable `ELEVO_SEED`, or a new seed.
/// Prints the seed, so that a failing run can be repeated.
pub fn seed() -> u64 {
    let now = || {
        SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap()
            .as_nanos() as u64
    };
    let seed = env::var("ELEVO_SEED").map_or_else(|_| now(), |seed| seed.parse().unwrap());
    note(format_args!("ELEVO_SEED={seed}"));
    seed
}

/// Prints a line to the output of a test run.
#[allow(clippy::print_stderr, reason = "a test's output is for people")]
pub fn note(words: impl Display) {
    eprintln!("{words}");
}
