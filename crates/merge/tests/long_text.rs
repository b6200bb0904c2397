//! The text driver against git and against hostile bytes, for a configurable
//! time.
#![allow(clippy::disallowed_methods, reason = "a test finds git by PATH")]
#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

use elevo_testkit::long;

#[path = "text_support/against_git.rs"]
mod against_git;
#[path = "text_support/cases.rs"]
mod cases;
#[path = "text_support/edits.rs"]
mod edits;
#[path = "text_support/git.rs"]
mod git;
#[path = "text_support/hostile.rs"]
mod hostile;
#[path = "text_support/promises.rs"]
mod promises;

#[test]
fn thousands_of_texts_are_merged_as_git_merges_them() {
    let seed = long::seed() / 2;
    for round in 0..u64::from(long::rounds(50, 1)) {
        let mut cases = cases::known();
        cases.extend((0..2000).map(|i| cases::case(seed + round * 2000 + i)));
        against_git::compare(&cases).check();
    }
}

#[test]
fn hostile_bytes_do_no_harm_for_long() {
    hostile::survive(long::seed(), long::rounds(60_000, 500));
}
