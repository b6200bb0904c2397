//! The text driver gives the same bytes and the same conflicts as git.
#![allow(clippy::disallowed_methods, reason = "a test finds git by PATH")]
#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

#[path = "text_support/against_git.rs"]
mod against_git;
#[path = "text_support/cases.rs"]
mod cases;
#[path = "text_support/edits.rs"]
mod edits;
#[path = "text_support/git.rs"]
mod git;

#[test]
fn every_text_is_merged_as_git_merges_it() {
    let mut cases = cases::known();
    cases.extend((0..3000).map(cases::case));
    against_git::compare(&cases).check();
}
