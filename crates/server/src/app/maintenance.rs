//! The server's own work: recovery, cleanup, expiry, collection, backups.

pub(crate) mod backups;
pub(crate) mod cleanup;
pub(crate) mod collecting;
pub(crate) mod disk_space;
pub(crate) mod erasure;
pub(crate) mod expiry;
pub(crate) mod garbage;
pub(crate) mod quarantine;
pub(crate) mod recovery;
pub(crate) mod system;
