//! The store, and the calls of its interface.

use std::fmt;
use std::path::PathBuf;

use async_trait::async_trait;
use bytes::Bytes;
use elevo_core::TenantId;
use elevo_engine::guards::Guards;
use elevo_engine::{
    Collection, Commit, Committed, GcScope, Held, Object, Recent, Store, StoreError, StoreResult,
    Writer,
};
use elevo_objects::{Kind, ObjectKey, Snapshot, SnapshotId};
use parking_lot::Mutex;
use rocksdb::{ColumnFamily, DB, ErrorKind, WriteBatch, WriteOptions};

use crate::collect::Collections;
use crate::lock::WriterLock;
use crate::options::Options;
use crate::read::Presence;
use crate::references::ReferenceLocks;
use crate::rocks;
use crate::unlogged::Unlogged;
use crate::usage::Usage;

/// If more bytes than this are free, the bytes in memory need not be counted,
/// because they are fewer.
const MUCH: u64 = 1 << 30;

/// A [`Store`] in a directory, on RocksDB. Safe for many threads.
pub struct LocalStore {
    pub(crate) db: DB,
    pub(crate) unlogged: Unlogged,
    pub(crate) references: ReferenceLocks,
    pub(crate) guards: Guards,
    pub(crate) collections: Collections,
    pub(crate) usage: Usage,
    /// Locked while a checkpoint is copied, since there is only one directory
    /// for it.
    pub(crate) backing_up: Mutex<()>,
    full_percent: u8,
    /// The last field, because fields are dropped in order: the next writer can
    /// begin only when RocksDB is closed.
    writer: Option<WriterLock>,
}

impl fmt::Debug for LocalStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalStore")
            .field("path", &self.db.path())
            .field("writable", &self.writer.is_some())
            .finish()
    }
}

impl LocalStore {
    pub(crate) fn new(db: DB, options: &Options, writer: Option<WriterLock>) -> Self {
        Self {
            db,
            unlogged: Unlogged::after(options.logged_puts),
            references: ReferenceLocks::default(),
            guards: Guards::default(),
            collections: Collections::default(),
            usage: Usage::default(),
            backing_up: Mutex::default(),
            full_percent: options.full_percent,
            writer,
        }
    }

    pub(crate) fn family(&self, name: &str) -> &ColumnFamily {
        self.db
            .cf_handle(name)
            .unwrap_or_else(|| unreachable!("all families are opened"))
    }

    /// Returns the family of objects of a kind. For snapshots, which are never
    /// stored as objects, this is a family that has no rows for them.
    pub(crate) fn family_of(&self, kind: Kind) -> &ColumnFamily {
        self.family(match kind {
            Kind::Chunk => rocks::CHUNKS,
            Kind::Directory | Kind::Times | Kind::ChunkList | Kind::Snapshot => rocks::NODES,
        })
    }

    pub(crate) fn is_writable(&self) -> bool {
        self.writer.is_some()
    }

    /// Directory of the store.
    pub(crate) fn directory(&self) -> PathBuf {
        let database = self.db.path();
        database.parent().unwrap_or(database).to_owned()
    }

    pub(crate) fn check_writable(&self) -> StoreResult<()> {
        match self.writer {
            Some(_) => Ok(()),
            None => Err(StoreError::ReadOnly),
        }
    }
}

impl LocalStore {
    /// Fails if the database accepts no more writes. After most disk errors,
    /// and when a file cannot be opened, RocksDB rejects all writes until the
    /// store is opened again. It recovers by itself only from a full disk
    /// ([`StoreError::Full`]).
    ///
    /// Writes nothing.
    pub fn check_writes(&self) -> StoreResult<()> {
        self.check_writable()?;
        let mut options = WriteOptions::default();
        options.disable_wal(true);
        // A write that would have to wait for a compaction fails at once with
        // `Incomplete`. This does not mean that writes are rejected.
        options.set_no_slowdown(true);
        match self.db.write_opt(WriteBatch::default(), &options) {
            Err(error) if error.kind() == ErrorKind::Incomplete => Ok(()),
            checked => checked.map_err(write_failed),
        }
    }

    /// Fails if the disk is too full for more objects.
    fn check_room(&self) -> StoreResult<()> {
        // Without a limit, the disk is not checked.
        if self.full_percent >= 100 {
            return Ok(());
        }
        let Ok(disk) = rustix::fs::statvfs(self.db.path()) else {
            return Ok(());
        };
        // Counts as `df` does: blocks that only root may use are not free.
        let used = disk.f_blocks.saturating_sub(disk.f_bfree);
        let kept = (used + disk.f_bavail) / 100 * u64::from(100 - self.full_percent);
        let left = disk.f_bavail.saturating_sub(kept) * disk.f_frsize;
        if left > MUCH || left > self.unflushed() {
            Ok(())
        } else {
            Err(StoreError::Full)
        }
    }

    /// Bytes in memory that will need space in table files.
    fn unflushed(&self) -> u64 {
        let families = [rocks::CHUNKS, rocks::NODES, rocks::SNAPSHOTS, rocks::MARKS];
        let sizes = families.map(|name| {
            let size = "rocksdb.cur-size-all-mem-tables";
            let size = self.db.property_int_value_cf(self.family(name), size);
            size.ok().flatten().unwrap_or_default()
        });
        sizes.iter().sum()
    }
}

impl Drop for LocalStore {
    fn drop(&mut self) {
        if let Some(writer) = &self.writer
            && self.db.flush_wal(true).is_ok()
        {
            writer.end_orderly();
        }
    }
}

/// Converts an error of RocksDB from reading `what`.
pub(crate) fn read_failed(what: impl fmt::Display, error: rocksdb::Error) -> StoreError {
    match error.kind() {
        ErrorKind::Corruption => StoreError::Damaged(format!("{what}: {error}")),
        _ => StoreError::Storage(Box::new(error)),
    }
}

pub(crate) fn write_failed(error: rocksdb::Error) -> StoreError {
    // RocksDB has a code for a full disk, which its binding does not pass on.
    if error.kind() == ErrorKind::IOError && error.as_ref().contains("No space left") {
        StoreError::Full
    } else {
        StoreError::Storage(Box::new(error))
    }
}

/// Describes an object in a message.
pub(crate) fn name(key: &ObjectKey) -> impl fmt::Display {
    format!("{:?} {}", key.kind, key.hash)
}

#[async_trait]
impl Store for LocalStore {
    async fn get(&self, tenant: TenantId, keys: &[ObjectKey]) -> StoreResult<Vec<Option<Bytes>>> {
        match keys {
            [key] => Ok(vec![self.get_one(tenant, key)?]),
            keys => self.get_many(tenant, keys),
        }
    }

    async fn contains(&self, tenant: TenantId, keys: &[ObjectKey]) -> StoreResult<Vec<bool>> {
        // First, so that a sweep cannot delete an object after it was found
        // here.
        self.keep(tenant, keys.iter().copied())?;
        let mut presence = Presence::of(self, tenant);
        keys.iter().map(|key| presence.has(key)).collect()
    }

    async fn put(&self, tenant: TenantId, _: &Writer, objects: Vec<Object>) -> StoreResult<()> {
        self.check_writable()?;
        self.check_room()?;
        self.put_now(tenant, &objects)
    }

    async fn commit(&self, tenant: TenantId, commit: Commit) -> StoreResult<Committed> {
        self.check_writable()?;
        if !commit.objects.is_empty() || !commit.snapshots.is_empty() {
            self.check_room()?;
        }
        self.commit_now(tenant, &commit)
    }

    async fn snapshots(
        &self,
        tenant: TenantId,
        ids: &[SnapshotId],
    ) -> StoreResult<Vec<Option<Snapshot>>> {
        ids.iter().map(|id| self.snapshot(tenant, *id)).collect()
    }

    async fn list_snapshots(
        &self,
        tenant: TenantId,
        after: Option<SnapshotId>,
        limit: usize,
    ) -> StoreResult<Vec<SnapshotId>> {
        self.scan_snapshots(tenant, after, limit)
    }

    async fn snapshots_since(
        &self,
        tenant: TenantId,
        recent: Recent,
        after: Option<SnapshotId>,
        limit: usize,
    ) -> StoreResult<Vec<SnapshotId>> {
        self.scan_recent(tenant, recent.since(), after, limit)
    }

    async fn reference(&self, tenant: TenantId, name: &str) -> StoreResult<Option<SnapshotId>> {
        self.reference_now(tenant, name)
    }

    async fn list_references(
        &self,
        tenant: TenantId,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> StoreResult<Vec<(String, SnapshotId)>> {
        self.scan_references(tenant, prefix, after, limit)
    }

    async fn stored_bytes(&self, tenant: TenantId) -> StoreResult<u64> {
        self.stored_bytes_now(tenant)
    }

    async fn writing(&self, tenant: TenantId) -> StoreResult<Writer> {
        Ok(self.guards.writer(tenant))
    }

    async fn hold(&self, tenant: TenantId, snapshots: &[SnapshotId]) -> StoreResult<Option<Held>> {
        self.hold_now(tenant, snapshots)
    }

    async fn collection(
        &self,
        tenant: TenantId,
        scope: GcScope,
    ) -> StoreResult<Box<dyn Collection + '_>> {
        self.check_writable()?;
        Ok(Box::new(self.collect(tenant, scope)?))
    }
}
