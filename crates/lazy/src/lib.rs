//! A snapshot as a directory that is there at once: a file system in user space
//! (FUSE) that can only be read, whose files are fetched when they are read.
//!
//! Depends on `elevo-core`, `elevo-objects` and `elevo-engine`. Never writes to a
//! store, and holds no table of what it was asked for: an inode number is found
//! by the counts that trees keep, so that a snapshot of a million files costs
//! nothing to mount and little to serve.
//!
//! What is served never changes, so the kernel is told to keep all of it: names,
//! attributes, directories, links and pages. What was read once is read without
//! this process until the kernel needs the memory.
#![cfg(target_os = "linux")]

mod files;
mod mount;

pub use mount::{Mount, Options, mount};
