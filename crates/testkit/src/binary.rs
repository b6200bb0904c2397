//! The program that a black-box test runs.

use std::env;

/// Returns the path in the environment variable `name`, or `built`, the binary
/// that Cargo built for this test. A test of a fixed defect can so be run against
/// an older binary, where it must fail.
pub fn under_test(name: &str, built: &str) -> String {
    env::var(name).unwrap_or_else(|_| built.to_owned())
}
