//! Checks that hold for arbitrary bytes. A fuzz target and the test that replays its corpus run the
//! same code, so each part is a file that the tests of a crate can include.
//!
//! Readers that are private to a crate have such a function in that crate, in `fuzzing.rs`, behind the
//! feature `fuzzing`.

#[cfg(feature = "audit")]
pub mod audit;
#[cfg(feature = "door")]
pub mod door;
#[cfg(feature = "events")]
pub mod events;
#[cfg(feature = "merge")]
pub mod merge;
#[cfg(feature = "objects")]
pub mod objects;
#[cfg(feature = "patch")]
pub mod patch;
#[cfg(feature = "core")]
pub mod path;
#[cfg(feature = "policy")]
pub mod policy;
