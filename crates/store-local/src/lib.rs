//! [`Store`](elevo_engine::Store) on RocksDB: objects, snapshots and refs of
//! one machine, in one directory.
//!
//! Depends on `elevo-core`, `elevo-objects` and `elevo-engine`. Reads no
//! environment and no wall clock; the directory, and the description of the
//! process that holds a store, are passed in. Never interprets stored objects:
//! trees belong to the engine.
//!
//! ```text
//! store/
//!   FORMAT     "elevo store 1": written last when a store is created, so a
//!              directory without it is not a store, or is incomplete
//!   writer     locked by the one process that may write, and describes it
//!   db/        RocksDB
//!   SERVER     the server whose catalog names the roots, if there is one
//!   checkpoint/  the copy that a backup in progress reads from
//! ```
//!
//! Calls do their work before they return: their futures are ready when first
//! polled, and cost no more than a plain call.

mod backup;
mod collect;
mod forget;
mod format;
#[cfg(any(test, feature = "fuzzing"))]
mod fuzzing;
mod inspect;
mod keys;
mod lock;
mod open;
mod options;
mod presence;
mod read;
mod references;
mod rocks;
mod stamp;
mod store;
mod unlogged;
mod usage;
mod write;

pub use backup::{Backup, BackupError, Restored, all as backups, find_backup, restore};
#[cfg(any(test, feature = "fuzzing"))]
pub use fuzzing::{read_any_backup, read_any_chunk, read_any_row};
pub use lock::{WritersBlocked, block_writers};
pub use open::OpenError;
pub use options::Options;
pub use stamp::{check_format, is_store, server_stamp, set_server_stamp};
pub use store::LocalStore;
