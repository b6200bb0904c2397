//! Work that keeps the server in order: recovery after a stop, cleanup, expiry,
//! garbage collection, erasure of tenants, disk space, quarantine and backups.

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
