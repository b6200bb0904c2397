//! Shared helpers for tests of several crates: commits derived from a number,
//! processes that are killed during their work, disks that lose power, the
//! length of long tests, the Docker engine for tests, the network that a sandbox
//! could reach, and the imports between the files of a crate.
//!
//! For tests only; nothing that ships depends on it. A helper that cannot do
//! its work panics with the reason: a test is never silently skipped.

#![allow(
    clippy::disallowed_methods,
    reason = "tests take programs, times and their length from the environment"
)]
#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

pub mod binary;
pub mod commits;
pub mod crash;
pub mod disk;
pub mod docker;
pub mod imports;
pub mod long;
pub mod outside;
