//! What tests of several crates share: commits made of a number, processes
//! that are killed in the middle of their work, disks that lose power, the
//! length of long tests, the Docker engine for tests, what a sandbox could reach.
//!
//! For tests only; nothing that ships depends on it. A helper that cannot do
//! its work panics and says why: a test is never skipped in silence.

#![allow(
    clippy::disallowed_methods,
    reason = "tests are started, timed and told their length by their environment"
)]
#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

pub mod binary;
pub mod commits;
pub mod crash;
pub mod disk;
pub mod docker;
pub mod long;
pub mod outside;
