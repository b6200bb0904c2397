//! Finds the program that a black-box test runs.

use std::env;

/// Returns the path in the environment variable `name`, or `built`, the binary
/// that Cargo built for this test. This lets a test of a fixed defect run
/// against an older binary, where it must fail.
pub fn under_test(name: &str, built: &str) -> String {
    env::var(name).unwrap_or_else(|_| built.to_owned())
}
