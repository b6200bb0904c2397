//! Thousands of random sequences of operations on every provider.

#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

mod support;

use elevo_testkit::long;
use support::{Bench, on_every_provider, random_changes};

on_every_provider! {
    thousands_of_sequences_are_all_found
}

/// Five sequences a generation.
fn thousands_of_sequences_are_all_found(bench: &Bench) {
    random_changes(bench, long::rounds(400, 20) as usize);
}
