//! The promises of `SandboxRuntime`, each held against a real Docker engine.
//!
//! Needs root and the engine of `scripts/services`; fails without. Whatever a
//! test makes carries an id of its own and is removed however the test ends.

#![allow(
    clippy::disallowed_methods,
    reason = "tests are told by their environment where the engine is"
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
