//! Tests the promises of `SandboxRuntime` against a real Docker engine.
//!
//! Needs root and the engine that `scripts/services` starts, and fails without
//! them. Everything that a test creates has a unique id and is deleted when the
//! test ends, even if it fails.

#![allow(
    clippy::disallowed_methods,
    reason = "tests find the engine by their environment"
)]
#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

mod disks;
mod flood;
mod hardening;
mod images;
mod lifecycle;
mod limits;
mod network;
mod registry;
mod restart;
mod support;

elevo_sandbox::conformance_tests!(support::with_subject);
