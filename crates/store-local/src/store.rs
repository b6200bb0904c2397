use std::collections::HashSet;
use std::fmt;
use std::sync::{Mutex, PoisonError};

use async_trait::async_trait;
use bytes::Bytes;
use elevo_core::TenantId;
use elevo_engine::store::check_reference_name;
use elevo_engine::{Commit, Object, ReferenceUpdate, Store, StoreError, StoreResult};
use elevo_objects::{Kind, ObjectKey, Snapshot, SnapshotId};
use rocksdb::{ColumnFamily, DB, ErrorKind, ReadOptions, WriteBatch, WriteOptions};

use crate::keys::{self, ObjectRow};
use crate::lock::WriterLock;
use crate::rocks;

/// A [`Store`] in a directory, on RocksDB.
pub struct LocalStore {
    db: DB,
    /// Held while a reference is compared and moved. Commits without
    /// references run beside it, and RocksDB syncs many of them at once.
    references: Mutex<()>,
    /// Last, so that the next writer comes in only when RocksDB is closed.
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
    pub(crate) fn writable(db: DB, lock: WriterLock) -> Self {
        Self {
            db,
            references: Mutex::new(()),
            writer: Some(lock),
        }
    }

    pub(crate) fn read_only(db: DB) -> Self {
        Self {
            db,
            references: Mutex::new(()),
            writer: None,
        }
    }

    fn family(&self, name: &str) -> &ColumnFamily {
        self.db
            .cf_handle(name)
            .unwrap_or_else(|| unreachable!("all families are opened"))
    }

    fn family_of(&self, kind: Kind) -> &ColumnFamily {
        self.family(match kind {
            Kind::Chunk => rocks::CHUNKS,
            Kind::Directory | Kind::Times | Kind::ChunkList | Kind::Snapshot => rocks::NODES,
        })
    }

    fn get_one(&self, tenant: TenantId, key: &ObjectKey) -> StoreResult<Option<Bytes>> {
        let found = self
            .db
            .get_pinned_cf(self.family_of(key.kind), keys::object(tenant, key));
        let found = found.map_err(|error| read_failed(key, error))?;
        Ok(found.map(|data| Bytes::copy_from_slice(&data)))
    }

    fn get_many(&self, tenant: TenantId, keys: &[ObjectKey]) -> StoreResult<Vec<Option<Bytes>>> {
        let mut answers = vec![None; keys.len()];
        for chunks in [true, false] {
            let mut wanted: Vec<(ObjectRow, usize)> = keys
                .iter()
                .enumerate()
                .filter(|(_, key)| (key.kind == Kind::Chunk) == chunks)
                .map(|(place, key)| (keys::object(tenant, key), place))
                .collect();
            if wanted.is_empty() {
                continue;
            }
            wanted.sort_unstable();
            let family = self.family(if chunks { rocks::CHUNKS } else { rocks::NODES });
            let rows = wanted.iter().map(|(row, _)| row);
            let found = self.db.batched_multi_get_cf(family, rows, true);
            for ((_, place), found) in wanted.iter().zip(found) {
                let found = found.map_err(|error| read_failed(&keys[*place], error))?;
                answers[*place] = found.map(|data| Bytes::copy_from_slice(&data));
            }
        }
        Ok(answers)
    }

    fn has(&self, tenant: TenantId, key: &ObjectKey) -> StoreResult<bool> {
        let family = self.family_of(key.kind);
        let row = keys::object(tenant, key);
        if !self.db.key_may_exist_cf(family, row) {
            return Ok(false);
        }
        let found = self.db.get_pinned_cf(family, row);
        Ok(found.map_err(|error| read_failed(key, error))?.is_some())
    }

    fn add_objects(
        &self,
        batch: &mut WriteBatch,
        tenant: TenantId,
        objects: &[Object],
    ) -> StoreResult<()> {
        for Object { key, data } in objects {
            if key.kind == Kind::Snapshot {
                return Err(StoreError::Refused(
                    "a snapshot is not put as an object".into(),
                ));
            }
            if !self.has(tenant, key)? {
                batch.put_cf(self.family_of(key.kind), keys::object(tenant, key), data);
            }
        }
        Ok(())
    }

    fn add_snapshots(
        &self,
        batch: &mut WriteBatch,
        tenant: TenantId,
        snapshots: &[Snapshot],
    ) -> StoreResult<Vec<SnapshotId>> {
        let mut ids = Vec::with_capacity(snapshots.len());
        for snapshot in snapshots {
            let (id, data) = snapshot
                .encode()
                .map_err(|error| StoreError::Refused(error.to_string()))?;
            batch.put_cf(
                self.family(rocks::SNAPSHOTS),
                keys::snapshot(tenant, id),
                data,
            );
            ids.push(id);
        }
        Ok(ids)
    }

    fn check_roots(&self, tenant: TenantId, commit: &Commit) -> StoreResult<()> {
        let given: HashSet<_> = commit.objects.iter().map(|object| object.key).collect();
        for snapshot in &commit.snapshots {
            let tree = snapshot.tree.root.map(|hash| ObjectKey {
                kind: Kind::Directory,
                hash,
            });
            let times = snapshot.times.map(|hash| ObjectKey {
                kind: Kind::Times,
                hash,
            });
            for root in tree.into_iter().chain(times) {
                if !given.contains(&root) && !self.has(tenant, &root)? {
                    return Err(StoreError::Refused(format!("root {root:?} is not stored")));
                }
            }
        }
        Ok(())
    }

    fn add_references(
        &self,
        batch: &mut WriteBatch,
        tenant: TenantId,
        updates: &[ReferenceUpdate],
    ) -> StoreResult<()> {
        let family = self.family(rocks::METADATA);
        for update in updates {
            let current = self.reference_now(tenant, &update.name)?;
            if !update.expected.holds(current) {
                let name = update.name.clone();
                return Err(StoreError::ReferenceMoved { name, current });
            }
            let row = keys::reference(tenant, &update.name);
            match update.target {
                Some(id) => batch.put_cf(family, row, id.0.as_bytes()),
                None => batch.delete_cf(family, row),
            }
        }
        Ok(())
    }

    fn reference_now(&self, tenant: TenantId, name: &str) -> StoreResult<Option<SnapshotId>> {
        let family = self.family(rocks::METADATA);
        let what = || format!("reference `{name}`");
        let found = self.db.get_pinned_cf(family, keys::reference(tenant, name));
        match found.map_err(|error| read_failed(what(), error))? {
            None => Ok(None),
            Some(data) => match keys::id(&data) {
                Some(id) => Ok(Some(id)),
                None => Err(StoreError::Damaged(what())),
            },
        }
    }

    fn check_writable(&self) -> StoreResult<()> {
        if self.writer.is_none() {
            Err(StoreError::ReadOnly)
        } else {
            Ok(())
        }
    }

    /// Up to `limit` rows of a family that begin with `prefix`, from `start`.
    fn scan<T>(
        &self,
        family: &str,
        prefix: &[u8],
        start: &[u8],
        limit: usize,
        mut read: impl FnMut(&[u8], &[u8]) -> Option<T>,
    ) -> StoreResult<Vec<T>> {
        let mut options = ReadOptions::default();
        if let Some(end) = keys::after_prefix(prefix) {
            options.set_iterate_upper_bound(end);
        }
        let mut rows = self.db.raw_iterator_cf_opt(self.family(family), options);
        let mut found = Vec::new();
        rows.seek(start);
        while found.len() < limit
            && let Some((row, value)) = rows.item()
        {
            let item = read(row, value);
            found.push(item.ok_or_else(|| StoreError::Damaged(format!("a row of {family}")))?);
            rows.next();
        }
        rows.status()
            .map_err(|error| read_failed(format!("a row of {family}"), error))?;
        Ok(found)
    }
}

fn write_failed(error: rocksdb::Error) -> StoreError {
    StoreError::Storage(Box::new(error))
}

fn read_failed(what: impl fmt::Debug, error: rocksdb::Error) -> StoreError {
    match error.kind() {
        ErrorKind::Corruption => StoreError::Damaged(format!("{what:?}: {error}")),
        _ => StoreError::Storage(Box::new(error)),
    }
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
        keys.iter().map(|key| self.has(tenant, key)).collect()
    }

    async fn put(&self, tenant: TenantId, objects: Vec<Object>) -> StoreResult<()> {
        self.check_writable()?;
        let mut batch = WriteBatch::default();
        self.add_objects(&mut batch, tenant, &objects)?;
        self.db.write(batch).map_err(write_failed)
    }

    async fn commit(&self, tenant: TenantId, commit: Commit) -> StoreResult<Vec<SnapshotId>> {
        self.check_writable()?;
        for update in &commit.references {
            check_reference_name(&update.name)?;
        }
        self.check_roots(tenant, &commit)?;
        let mut batch = WriteBatch::default();
        self.add_objects(&mut batch, tenant, &commit.objects)?;
        let ids = self.add_snapshots(&mut batch, tenant, &commit.snapshots)?;
        let _moving = (!commit.references.is_empty()).then(|| {
            self.references
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
        });
        self.add_references(&mut batch, tenant, &commit.references)?;
        let mut synced = WriteOptions::default();
        synced.set_sync(true);
        self.db.write_opt(batch, &synced).map_err(write_failed)?;
        Ok(ids)
    }

    async fn snapshots(
        &self,
        tenant: TenantId,
        ids: &[SnapshotId],
    ) -> StoreResult<Vec<Option<Snapshot>>> {
        let family = self.family(rocks::SNAPSHOTS);
        let read = |id: &SnapshotId| {
            let found = self.db.get_cf(family, keys::snapshot(tenant, *id));
            let found = found.map_err(|error| read_failed(format!("snapshot {id}"), error))?;
            let decode = |data| Snapshot::decode(&Bytes::from(data));
            found
                .map(decode)
                .transpose()
                .map_err(|error| StoreError::Damaged(format!("snapshot {id}: {error}")))
        };
        ids.iter().map(read).collect()
    }

    async fn list_snapshots(
        &self,
        tenant: TenantId,
        after: Option<SnapshotId>,
        limit: usize,
    ) -> StoreResult<Vec<SnapshotId>> {
        let prefix = tenant.as_bytes().as_slice();
        let start = match after {
            None => prefix.to_vec(),
            // The next row is this one and a zero byte.
            Some(id) => [&keys::snapshot(tenant, id)[..], &[0]].concat(),
        };
        self.scan(rocks::SNAPSHOTS, prefix, &start, limit, |row, _| {
            keys::snapshot_id(row)
        })
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
        let prefix = keys::reference(tenant, prefix);
        let start = after.map_or(Vec::new(), |name| {
            let mut row = keys::reference(tenant, name);
            row.push(0);
            row
        });
        let start = start.max(prefix.clone());
        self.scan(rocks::METADATA, &prefix, &start, limit, |row, value| {
            Some((keys::reference_name(row)?.to_owned(), keys::id(value)?))
        })
    }
}
