//! Reading. RocksDB checks data from the disk against checksums; an object that
//! fails them is [`StoreError::Damaged`], never other bytes.

use bytes::Bytes;
use elevo_core::{TenantId, Timestamp};
use elevo_engine::{StoreError, StoreResult};
use elevo_objects::{Kind, ObjectKey, Snapshot, SnapshotId, decode_stored};
use rocksdb::ReadOptions;

use crate::keys::{self, ObjectRow};
use crate::presence::Rows;
use crate::rocks;
use crate::store::{LocalStore, name, read_failed};

/// Number of snapshots read at a time.
const PAGE: usize = 1000;

/// Checks whether objects are stored, with iterators that are reused.
pub(crate) struct Presence<'a> {
    store: &'a LocalStore,
    tenant: TenantId,
    chunks: Option<Rows<'a>>,
    nodes: Option<Rows<'a>>,
}

impl<'a> Presence<'a> {
    pub(crate) fn of(store: &'a LocalStore, tenant: TenantId) -> Self {
        let (chunks, nodes) = (None, None);
        Self {
            store,
            tenant,
            chunks,
            nodes,
        }
    }

    pub(crate) fn has(&mut self, key: &ObjectKey) -> StoreResult<bool> {
        let store = self.store;
        let family = store.family_of(key.kind);
        let row = keys::object(self.tenant, key);
        // Filters in memory show for nearly all missing objects that they are
        // not stored.
        if !store.db.key_may_exist_cf(family, row) {
            return Ok(false);
        }
        let rows = match key.kind {
            Kind::Chunk => &mut self.chunks,
            _ => &mut self.nodes,
        };
        let rows = rows.get_or_insert_with(|| Rows::of(&store.db, family));
        rows.contain(&row)
            .map_err(|words| StoreError::Storage(words.into()))
    }
}

impl LocalStore {
    pub(crate) fn get_one(&self, tenant: TenantId, key: &ObjectKey) -> StoreResult<Option<Bytes>> {
        let row = keys::object(tenant, key);
        let found = self.db.get_pinned_cf(self.family_of(key.kind), row);
        let found = found.map_err(|error| read_failed(name(key), error))?;
        found.map(|value| read_object(key, &value)).transpose()
    }

    pub(crate) fn get_many(
        &self,
        tenant: TenantId,
        keys: &[ObjectKey],
    ) -> StoreResult<Vec<Option<Bytes>>> {
        let mut answers = vec![None; keys.len()];
        for family in [rocks::CHUNKS, rocks::NODES] {
            let mut wanted: Vec<(ObjectRow, usize)> = keys
                .iter()
                .enumerate()
                .filter(|(_, key)| (key.kind == Kind::Chunk) == (family == rocks::CHUNKS))
                .map(|(place, key)| (keys::object(tenant, key), place))
                .collect();
            if wanted.is_empty() {
                continue;
            }
            wanted.sort_unstable();
            let rows = wanted.iter().map(|(row, _)| row);
            let found = self
                .db
                .batched_multi_get_cf(self.family(family), rows, true);
            for ((_, place), found) in wanted.iter().zip(found) {
                let key = &keys[*place];
                let found = found.map_err(|error| read_failed(name(key), error))?;
                answers[*place] = found.map(|value| read_object(key, &value)).transpose()?;
            }
        }
        Ok(answers)
    }

    pub(crate) fn snapshot(
        &self,
        tenant: TenantId,
        id: SnapshotId,
    ) -> StoreResult<Option<Snapshot>> {
        let what = || format!("snapshot {id}");
        let found = self
            .db
            .get_cf(self.family(rocks::SNAPSHOTS), keys::snapshot(tenant, id));
        let found = found.map_err(|error| read_failed(what(), error))?;
        let decoded = found
            .map(|value| Snapshot::decode(&value.into()))
            .transpose();
        decoded.map_err(|error| StoreError::Damaged(format!("{}: {error}", what())))
    }

    pub(crate) fn reference_now(
        &self,
        tenant: TenantId,
        name: &str,
    ) -> StoreResult<Option<SnapshotId>> {
        let what = || format!("reference `{name}`");
        let row = keys::reference(tenant, name);
        let found = self.db.get_pinned_cf(self.family(rocks::METADATA), row);
        let Some(value) = found.map_err(|error| read_failed(what(), error))? else {
            return Ok(None);
        };
        keys::id(&value)
            .map(Some)
            .ok_or_else(|| StoreError::Damaged(what()))
    }

    pub(crate) fn scan_snapshots(
        &self,
        tenant: TenantId,
        after: Option<SnapshotId>,
        limit: usize,
    ) -> StoreResult<Vec<SnapshotId>> {
        let prefix = tenant.as_bytes().as_slice();
        let start = after.map_or(prefix.to_vec(), |id| next(&keys::snapshot(tenant, id)));
        self.scan(rocks::SNAPSHOTS, prefix, &start, limit, |row, _| {
            keys::snapshot_id(row)
        })
    }

    /// Returns ids of snapshots that were created at `since` or later, after
    /// `after`.
    pub(crate) fn scan_recent(
        &self,
        tenant: TenantId,
        since: Timestamp,
        mut after: Option<SnapshotId>,
        limit: usize,
    ) -> StoreResult<Vec<SnapshotId>> {
        let prefix = tenant.as_bytes().as_slice();
        let mut found = Vec::new();
        while found.len() < limit {
            let start = after.map_or(prefix.to_vec(), |id| next(&keys::snapshot(tenant, id)));
            let read = |row: &[u8], value: &[u8]| {
                let snapshot = Snapshot::decode(&Bytes::copy_from_slice(value)).ok()?;
                Some((keys::snapshot_id(row)?, snapshot.created >= since))
            };
            let page = self.scan(rocks::SNAPSHOTS, prefix, &start, PAGE, read)?;
            let recent = page.iter().filter(|(_, is_recent)| *is_recent);
            found.extend(recent.map(|(id, _)| *id));
            match page.get(PAGE - 1) {
                Some((last, _)) => after = Some(*last),
                None => break,
            }
        }
        found.truncate(limit);
        Ok(found)
    }

    pub(crate) fn scan_references(
        &self,
        tenant: TenantId,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> StoreResult<Vec<(String, SnapshotId)>> {
        let prefix = keys::reference(tenant, prefix);
        let after = after.map_or(Vec::new(), |name| next(&keys::reference(tenant, name)));
        let start = after.max(prefix.clone());
        self.scan(rocks::METADATA, &prefix, &start, limit, |row, value| {
            Some((keys::reference_name(row)?.to_owned(), keys::id(value)?))
        })
    }

    /// Returns up to `limit` rows of a family that begin with `prefix`, from
    /// `start`.
    fn scan<T>(
        &self,
        family: &str,
        prefix: &[u8],
        start: &[u8],
        limit: usize,
        read: impl Fn(&[u8], &[u8]) -> Option<T>,
    ) -> StoreResult<Vec<T>> {
        let what = || format!("a row of {family}");
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
            found.push(read(row, value).ok_or_else(|| StoreError::Damaged(what()))?);
            rows.next();
        }
        rows.status().map_err(|error| read_failed(what(), error))?;
        Ok(found)
    }
}

fn read_object(key: &ObjectKey, value: &[u8]) -> StoreResult<Bytes> {
    match key.kind {
        Kind::Chunk => decode_stored(value).ok_or_else(|| {
            StoreError::Damaged(format!("{}: its stored bytes cannot be decoded", name(key)))
        }),
        _ => Ok(Bytes::copy_from_slice(value)),
    }
}

/// Returns the first row after `row`.
fn next(row: &[u8]) -> Vec<u8> {
    [row, &[0]].concat()
}
