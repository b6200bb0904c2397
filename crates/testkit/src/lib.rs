//! Shared helpers for tests of several crates: commits derived from a number,
//! processes that are killed during their work or compete with a test, disks that lose power, the
//! clock of a file system, the data of released versions, the length of long
//! tests, the Docker engine and the PostgreSQL server for tests, a proxy that
//! counts round trips and injects faults, the network that a sandbox could
//! reach, the imports between the files of a crate, and waits for changes that
//! no event announces.
//!
//! This crate is for tests only; no released program depends on it. A helper
//! that cannot do its work panics with the reason: a test is never silently
//! skipped.

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
pub mod file_clock;
pub mod fixtures;
pub mod imports;
pub mod long;
pub mod outside;
pub mod postgres;
pub mod postgres_server;
pub mod rival;
pub mod s3;
pub mod wait;
pub mod wire;
