//! What must hold for any bytes at all. A target of the fuzzers and the ordinary test that reads its
//! corpus again run the same code, so each part is a file that the tests of a crate can include.
//!
//! What reads bytes that no caller can reach has such a function in its own crate, in `anything.rs`.

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
