//! Thousands of random sequences of operations on every provider.

#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

mod support;

use elevo_testkit::long;
use support::Fixture;
use support::providers::on_every_provider;
use support::random::random_changes;

on_every_provider! {
    finds_the_changes_of_thousands_of_random_sequences
}

/// Each generation runs five sequences.
fn finds_the_changes_of_thousands_of_random_sequences(fixture: &Fixture) {
    random_changes(fixture, long::rounds(400, 20) as usize);
}
