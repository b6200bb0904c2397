//! What every long test relies on: `ELEVO_LONG` says how much of its full length it runs.
//!
//! Long tests live in test binaries named `long_*`, which the ordinary run leaves out; CI runs
//! them with `ELEVO_LONG=0.1`, `scripts/soak` with `1`. Without it they fail rather than guess.

#![allow(
    clippy::disallowed_methods,
    reason = "a long test is told its length by the environment"
)]

#[test]
fn the_length_of_long_tests_is_a_positive_number() {
    let length = std::env::var("ELEVO_LONG").expect("ELEVO_LONG is not set: run scripts/soak");
    let length: f64 = length.parse().expect("ELEVO_LONG is a number");
    assert!(length > 0.0 && length.is_finite(), "ELEVO_LONG={length}");
}
