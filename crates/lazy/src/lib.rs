//! Mounts a snapshot as a directory at once: a read-only file system in user
//! space (FUSE), whose files are fetched when they are read.
//!
//! Depends on `elevo-core`, `elevo-objects` and `elevo-engine`. Never writes to
//! a store, and keeps no table of inodes: an inode number is resolved with the
//! counts in the trees, so that a snapshot of a million files costs nothing to
//! mount and little to serve.
//!
//! The files never change, so the kernel may cache everything: names,
//! attributes, directories, links and pages. Cached data is read without this
//! process until the kernel needs the memory.
#![cfg(target_os = "linux")]

mod files;
mod mount;

pub use mount::{Mount, Options, mount};
